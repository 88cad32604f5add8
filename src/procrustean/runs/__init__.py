"""From settings to finished runs: one or many, chosen methods, chosen options."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
