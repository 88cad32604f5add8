from .printed_numbers import paper_number as paper_number
from .printed_numbers import paper_numbers as paper_numbers
