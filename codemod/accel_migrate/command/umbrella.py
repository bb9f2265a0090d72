"""`accel`: one name for all commands. A command's module is imported when the command is called."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from accel_migrate import __version__

COMMANDS = {
    "migrate": ("accel_migrate.command.cli", "", "turn a single-GPU script into a multi-process one"),
    "check": ("accel_migrate.command.check", "", "find what an accelerated script does wrong on several processes"),
    "lsp": ("accel_migrate.command.language_server", "pygls", "the linter for editors, as a language server (needs pygls)"),
    "verify": ("accel_migrate.command.verify", "", "run the original and the migrated script, and compare the trainings (needs torch)"),
    "compare": ("accel_migrate.command.compare", "", "train a script in several precisions: speed, memory, losses (needs torch)"),
    "new": ("accel_migrate.command.new", "", "make a new project, or launch files for one that is there"),
    "launch": ("accel_runtime.launch", "torch", "run a script on several processes (needs torch)"),
    "config": ("accel_runtime.commands.config", "", "write, check or update the settings of accel launch"),
    "test": ("accel_runtime.commands.test", "torch", "train a small model under every strategy of this machine, and compare (needs torch)"),
    "estimate": ("accel_runtime.commands.estimate", "", "memory per device of a training, by strategy and precision"),
    "plan": ("accel_runtime.commands.plan", "", "share out a batch: accumulation, learning rate, memory, the simplest strategy"),
    "doctor": ("accel_runtime.commands.doctor", "", "what keeps trainings from working on this machine, and what mends it"),
    "env": ("accel_runtime.commands.env", "", "what to paste into a bug report"),
    "merge-weights": ("accel_runtime.commands.merge_weights", "torch", "make one model file of what several processes have written (needs torch)"),
    "mcp": ("accel_migrate.command.mcp_server", "mcp", "the commands as tools for assistants, on standard input and output (needs mcp)"),
    "skill": ("accel_migrate.command.skill", "", "install the skill for coding assistants, list, update and remove it"),
    "demo": ("accel_migrate.command.demo", "", "migrate and train a bundled example, and compare (needs torch, scikit-learn)"),
}
"""Command -> the module whose `main(argv)` runs it and returns the exit status, the package it needs besides the plain
installation, and what it does."""


_EXTRAS = {"torch": "runtime", "pygls": "lsp", "mcp": "mcp"}
"""Needed package -> the extra of this distribution that brings it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `accel COMMAND ...` and return the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage(), file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    command, *rest = arguments
    if command == "--version":
        print(f"accel {__version__}")
        return 0
    if command not in COMMANDS:
        known = ", ".join(COMMANDS)
        print(f"accel: error: no command {command!r}; the commands are {known} (see accel --help)", file=sys.stderr)
        return 2
    return _run(command, rest)


def _run(command: str, arguments: list[str]) -> int:
    import importlib.util

    module, needed, _ = COMMANDS[command]
    if needed and importlib.util.find_spec(needed) is None:
        message = f"needs {needed}; install it with: pip install 'accel-migrate[{_EXTRAS[needed]}]'"
        print(f"accel {command}: error: {message}", file=sys.stderr)
        return 2
    run = importlib.import_module(module).main
    return int((run(arguments, prog="accel migrate") if command == "migrate" else run(arguments)) or 0)


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {what}" for name, (_, _, what) in COMMANDS.items()]
    return "\n".join(["usage: accel COMMAND ...", "", *lines, "", "accel COMMAND --help says more."])
