"""Hand-written GPU kernels for what the libraries do badly: thin 3 x 3 convolutions with batch normalisation."""
