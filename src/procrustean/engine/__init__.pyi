from .class_measures import classification_ratio as classification_ratio
from .class_measures import feature_deviation as feature_deviation
from .class_measures import feature_gradient_norms as feature_gradient_norms
from .class_measures import mean_per_class as mean_per_class
from .stage_order import reshape_for as reshape_for
from .stage_training import freeze_all_but as freeze_all_but
from .stage_training import keep_statistics as keep_statistics
from .stored_calibration import scores_of as scores_of
