"""Choose the options of a method on held-out training images, then train on all of them."""
