from .class_curves import Curves as Curves
from .class_curves import curves_of as curves_of
from .groups import group_results as group_results
from .run_folder import RunFolder as RunFolder
from .run_record import Result as Result
from .run_record import load_result as load_result
from .run_spec import RunSpec as RunSpec
