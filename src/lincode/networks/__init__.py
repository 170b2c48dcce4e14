"""The networks, one per module: the energy of each and the steps that lower it."""
