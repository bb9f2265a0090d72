"""`accel check`: what scripts for several processes do wrong, found without running them."""
