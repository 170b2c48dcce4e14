"""The mathematics on arrays, in the letters of the paper: X, U, D, C.

This package uses NumPy, SciPy and Numba only. It does not depend on estimators or on where the
rows are stored.
"""
