"""Models that are larger than a device, for inference: made without memory, spread over devices, the host and files."""
