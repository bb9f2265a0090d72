"""`--checkpoint state`: scripts that save and load by hand go on from a state as if nothing had happened, bit by bit.

| script | what is particular |
| --- | --- |
| helper_and_best | a helper saves each epoch's end and copies the best; it loads before loaders are made |
| steps_in_trainer | a class saves every few steps, passes over what it has seen, averages its weights |
| functions_and_scaler | functions that are handed model, optimizer, a metric's scheduler, a scaler of the script's own |
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from accel_migrate.migrate import migrate
from accel_migrate.result import Options
from codemod.memory import after, program
from runtime.ranks import run_ranks

STATES = Path(__file__).parent / "states"
RUNS: dict[str, tuple[int, list[str], list[str]]] = {
    "helper_and_best": (12, [], ["--resume", "checkpoint.pth.tar"]),
    "steps_in_trainer": (15, [], ["--resume", "last.pt"]),
    "functions_and_scaler": (13, [], []),
}
"""The step that fails, the arguments of the first start, those of the second."""


class Interrupted(Exception):
    """Stands for whatever ends a training."""


def converted(name: str) -> str:
    """The script, migrated with `--checkpoint state`."""
    result = migrate(program((STATES / f"{name}.py").read_text(encoding="utf-8")), Options(checkpoint="state"))
    text = after(result)
    assert "save_state(" in text and "load_state(" in text, result.reason
    return text


def train(text: str, folder: Path, arguments: list[str], fails_in: int = 0) -> None:
    """Run the script in `folder`; what it prints goes to `folder/said`, process by process."""
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    steps: list[int] = []
    plain = {kind: kind.step for kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD)}

    def failing(self: Any, *args: Any, **kwargs: Any) -> Any:
        steps.append(1)
        if len(steps) == fails_in:
            raise Interrupted
        return plain[type(self)](self, *args, **kwargs)

    for kind in plain:
        kind.step = failing  # type: ignore[method-assign]
    sys.argv = ["train.py", *arguments]
    os.environ["ACCELERATE_USE_CPU"] = "true"
    with open(folder / f"said_{os.environ.get('RANK', 0)}", "a") as said:
        sys.stdout = said
        try:
            exec(compile(text, "train.py", "exec"), {"__name__": "__main__"})
        except Interrupted:
            return
    assert not fails_in


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("name", RUNS)
def test_interrupted_and_resumed_is_the_uninterrupted_run(tmp_path: Path, name: str, n: int) -> None:
    text, (fails_in, first, second) = converted(name), RUNS[name]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run_ranks(lambda: train(text, whole, first), n)
    run_ranks(lambda: train(text, parts, first, fails_in), n)
    assert not (parts / "final.pt").exists()
    run_ranks(lambda: train(text, parts, second), n)
    expected, found = (torch.load(folder / "final.pt", weights_only=True) for folder in (whole, parts))
    assert _equal(expected, found)
    assert (whole / "said_0").read_text().splitlines()[-1] == (parts / "said_0").read_text().splitlines()[-1]


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
