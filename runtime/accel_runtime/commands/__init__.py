"""Commands around a training: what is set, what this machine is, what fits on it. Each module has a `main(argv)`."""
