"""The training engine: steps, stages, evaluation, checkpoints and records."""
