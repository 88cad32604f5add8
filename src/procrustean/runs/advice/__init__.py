"""What to train own images with: the method from measurements, network and epochs from what the device can do."""
