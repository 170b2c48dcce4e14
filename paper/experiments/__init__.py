"""The experiments of the paper, one file for each figure or table.

Each file has the runs of its experiment, the function that measures one run, the paper's claims,
and the tables and plots of the results. ``paper.experiments.registry`` lists them all.
"""
