from .adjusted_scores import GRID as GRID
from .adjusted_scores import adjust as adjust
from .estimator import Classifier as Classifier
from .export_folder import export as export
from .model_loading import load_model as load_model
from .prediction import predict as predict
