"""One file a section of the table; each has run(X, quick)."""
