"""One file a contestant; each turns the ruler's questions into its own calls."""
