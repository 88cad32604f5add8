from .ablation_figures import ABLATIONS as ABLATIONS
from .ablation_figures import draw_ablation as draw_ablation
from .printed_numbers import paper_number as paper_number
from .printed_numbers import paper_numbers as paper_numbers
