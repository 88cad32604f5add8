from .config import RunConfig as RunConfig
from .groups import group_results as group_results
from .groups import load_result as load_result
from .probe_curves import Curves as Curves
from .probe_curves import curves_of as curves_of
