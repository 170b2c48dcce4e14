"""One module for each library: the calls that the sections measure."""
