"""How the weights are learned: loops, steps, batches, and the rows they read."""
