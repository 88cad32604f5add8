"""Runs around the engine: settings made ready, one run or many to their end, where they are and what they cost."""
