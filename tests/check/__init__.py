"""Tests of `accel check`."""
