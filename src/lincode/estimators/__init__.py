"""The estimators: the only modules in which scikit-learn's names meet the letters of the paper."""
