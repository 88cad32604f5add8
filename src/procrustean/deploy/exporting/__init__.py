"""A trained network in a folder of its own: weights, classes, preparation, model card, and how to load it."""
