"""What runs in the interpreter that trains: a warm process that forks runs, hooks on training, comparison of saved files.

The interpreter may be another one than that of the command, so nothing here imports more than torch and `printed`.
"""
