"""Tests of accel_runtime; several processes come from the fork harness in `ranks.py`."""
