"""What can be set for a launch: one table, from which the options of `accel launch` and the keys of its files come."""
