from .build import build_net as build_net
from .classifier import Backbone as Backbone
from .classifier import Classifier as Classifier
