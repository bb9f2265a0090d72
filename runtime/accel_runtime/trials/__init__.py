"""The trials of `accel test`: a small training under the strategies that this machine can run, against plain PyTorch."""
