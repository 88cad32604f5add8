from .grids import expand as expand
from .many_runs import fit_many as fit_many
from .train_api import evaluate as evaluate
from .train_api import fit as fit
from .train_api import load_run as load_run
from .tuning.search import Budget as Budget
from .tuning.search import tune as tune
