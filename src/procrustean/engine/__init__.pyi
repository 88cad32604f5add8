from .deviation import feature_deviation as feature_deviation
from .feature_gradients import feature_gradient_norms as feature_gradient_norms
from .feature_gradients import mean_per_class as mean_per_class
from .ratio import classification_ratio as classification_ratio
