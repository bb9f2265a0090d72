"""Train a PyTorch script on any number of processes: Accelerate's names, without the wrapping."""
