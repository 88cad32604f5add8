from .base import Method as Method
from .base import Stage as Stage
from .class_balanced import ClassBalanced as ClassBalanced
from .make import METHODS as METHODS
from .make import make_method as make_method
from .seql import SEQL as SEQL
