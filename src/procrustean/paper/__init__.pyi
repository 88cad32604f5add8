from .paper_numbers import paper_number as paper_number
from .paper_numbers import paper_numbers as paper_numbers
