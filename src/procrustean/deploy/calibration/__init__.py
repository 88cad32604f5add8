"""Probabilities that can be believed: scaled on held-out images, shifted to the class frequencies of their use."""
