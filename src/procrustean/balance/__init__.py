"""What works in anyone's training loop: MFW, deferred re-weighting, losses, samplers, mixing, metrics."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
