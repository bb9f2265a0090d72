"""The command lines: what they accept, which files they read and write."""
