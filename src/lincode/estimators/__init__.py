"""The scikit-learn contract: check, validate, build, run, name."""
