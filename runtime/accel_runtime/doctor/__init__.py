"""What this machine is and what is wrong with it for a training. Nothing here imports torch: it may be what is broken."""
