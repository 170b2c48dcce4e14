"""Where rows live: update the codes of all rows, return the sum of their statistics."""
