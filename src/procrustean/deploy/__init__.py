"""A trained network in use: probabilities, thresholds, prediction, export, scikit-learn."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
