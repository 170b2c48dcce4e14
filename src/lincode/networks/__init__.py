"""One network, one file: its energy, its steps. They all train in the loop of ``_alternate``."""
