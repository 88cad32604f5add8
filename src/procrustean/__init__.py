"""Train image classifiers on class-imbalanced data.

Names are imported when they are first used, so that `import procrustean` is instant and the command line answers
`--help` without loading torch. What there is stands in the stub beside this file.
"""

import lazy_loader

from procrustean.base.version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
