from .class_measures import classification_ratio as classification_ratio
from .class_measures import feature_deviation as feature_deviation
from .class_measures import feature_gradient_norms as feature_gradient_norms
from .class_measures import mean_per_class as mean_per_class
