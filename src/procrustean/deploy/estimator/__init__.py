"""The trainer behind scikit-learn's interface."""
