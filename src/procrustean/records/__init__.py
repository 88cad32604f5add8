"""What is known of a run: its settings, its identity, its results, its folder."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
