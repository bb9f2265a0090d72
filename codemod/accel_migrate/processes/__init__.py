"""Programs that start or join their processes by hand, brought into one form before the rules see them.

* `fold`: a distributed branch which a flag turns on goes, with the flag off;
* `spawn`: a program that starts its own processes becomes one that a launcher starts;
* `sweep`: afterwards, what lost its last use goes (helpers, variables, parameters, command line arguments).

Each stage reads the text that the one before left. `stages` runs them and brings edits and findings back to the lines of
the file as it lies on disk.
"""
