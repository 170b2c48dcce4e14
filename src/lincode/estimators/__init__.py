"""The estimators: the scikit-learn contract."""
