"""One module for each section of the table; each has a function run(X, quick)."""
