"""Measurements of the library itself."""
