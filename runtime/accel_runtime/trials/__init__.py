"""The trials of `accel test`: a small training under every strategy that this machine can run, against plain PyTorch."""
