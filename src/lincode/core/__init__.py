"""The mathematics on arrays, in the letters of the paper: X, U, D, C.

This package uses NumPy, SciPy and Numba only. It knows nothing of estimators or of where the rows are
stored.
"""
