"""`accel compare`: the same script in several precisions, side by side: speed, memory, losses, what it prints and logs."""
