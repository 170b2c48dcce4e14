"""Where rows are stored: each module implements the protocol of ``protocol.py``."""
