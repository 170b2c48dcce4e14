"""The paper's experiments: one file a figure or table, each with its runs, claims and pictures."""
