from .build import build_net as build_net
from .build import model_by_name as model_by_name
from .classifier import Backbone as Backbone
from .classifier import Classifier as Classifier
from .own_net import use_net as use_net
from .table import NETS as NETS
