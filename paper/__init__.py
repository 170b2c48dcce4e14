"""The reproduction of the paper's experiments with lincode.

Run ``python -m paper --help`` from the root of the repository. This package uses the public API
of lincode only and is not part of its wheel.
"""
