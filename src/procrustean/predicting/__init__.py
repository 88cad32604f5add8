"""Use a trained network: load it without its training data, classify images, choose thresholds."""
