"""Whole scripts, run before and after their migration on one and several processes, and what to compare of them."""
