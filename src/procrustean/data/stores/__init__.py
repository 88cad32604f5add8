"""Official files decoded once into a store: what a reader finds in them, and one memory-mapped file of images."""
