"""What it costs to start: the command lines, and the runtime on top of torch.

    python benchmarks/startup.py [--rounds 7]

CPU seconds of child processes (user and system), median [quartiles]; the contestants of one table take turns.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
from collections.abc import Iterable, Iterator

from timing import environment, python_seconds, ratios, spread, table

_COMMANDS = {
    "python -c pass": ("-c", "pass"),
    "accel-migrate --help": ("-m", "accel_migrate", "--help"),
    "accel --help": ("-c", "from accel_migrate.command.umbrella import main; main(['--help'])"),
    "accel launch --help": ("-m", "accel_runtime.launch", "--help"),
    "torchrun --help": ("-m", "torch.distributed.run", "--help"),
    "accelerate --help": ("-m", "accelerate.commands.accelerate_cli", "--help"),
    "accelerate launch --help": ("-m", "accelerate.commands.launch", "--help"),
    "fabric --help": ("-m", "lightning_fabric.cli", "--help"),
    "import libcst": ("-c", "import libcst"),
}
_IMPORTS = (
    "import accel_runtime",
    "from accel_runtime import Accelerator",
    "from accelerate import Accelerator",
    "from lightning_fabric import Fabric",
)
_NEEDED = {
    "import libcst": "libcst",
    "torchrun --help": "torch",
    "from accelerate import Accelerator": "accelerate",
    "accelerate --help": "accelerate",
    "accelerate launch --help": "accelerate",
    "from lightning_fabric import Fabric": "lightning_fabric",
    "fabric --help": "lightning_fabric",
}
_INSIDE = """
import sys, time
import torch
modules, torch_seconds, started = len(sys.modules), time.process_time(), time.process_time()
{statement}
print(time.process_time() - started, torch_seconds, len(sys.modules) - modules)
"""


def commands(rounds: int) -> Iterator[str]:
    """Whole processes, over an interpreter that does nothing."""
    times: dict[str, list[float]] = {name: [] for name in _present(_COMMANDS)}
    for _ in range(rounds):
        for name, measured in times.items():
            measured.append(python_seconds(*_COMMANDS[name]))
    over = ratios(times, "python -c pass")
    rows = [[name, spread(values, 3), spread(over[name], 1)] for name, values in times.items()]
    yield from table(["command", "CPU s", "over python -c pass"], rows)


def imports(rounds: int) -> Iterator[str]:
    """An import after `import torch`, timed inside the process."""
    figures: dict[str, list[list[float]]] = {statement: [] for statement in _present(_IMPORTS)}
    for _ in range(rounds):
        for statement, measured in figures.items():
            measured.append(_inside(statement))
    rows = []
    for name, values in figures.items():
        own = [1000 * seconds for seconds, _, _ in values]
        share = [seconds / before for seconds, before, _ in values]
        rows.append([name, spread(own, 0), spread(share, 3), f"{values[0][2]:.0f}"])
    yield from table(["after import torch", "CPU ms", "over the time until torch is imported", "new modules"], rows)


def _present(names: Iterable[str]) -> list[str]:
    """Those whose package is installed."""
    return [name for name in names if name not in _NEEDED or importlib.util.find_spec(_NEEDED[name])]


def _inside(statement: str) -> list[float]:
    """CPU seconds of the statement, CPU seconds before it, and the number of modules it brought."""
    code = _INSIDE.format(statement=statement)
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    return [float(figure) for figure in done.stdout.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7, help="how often each is measured (default: 7)")
    rounds = parser.parse_args().rounds
    print("\n".join(commands(rounds)))
    if importlib.util.find_spec("torch"):
        print("\n" + "\n".join(imports(rounds)))


if __name__ == "__main__":
    main()
