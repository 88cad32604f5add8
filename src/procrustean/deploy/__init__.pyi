from .adjusted_scores import adjust as adjust
from .classify_images import predict as predict
from .estimator.classifier import Classifier as Classifier
from .exporting.export_model import export as export
from .model_loading import load_model as load_model
