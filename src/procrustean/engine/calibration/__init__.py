"""Probabilities that can be believed: scaled on held-out images."""
