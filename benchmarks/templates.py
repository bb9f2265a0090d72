"""Whether every project that `accel new` makes trains, and alike on one process and on two.

    python benchmarks/templates.py [--task gan ...] [--strategy ...] [--precision ...] [--tracker ...] [--jobs 1]
    python benchmarks/templates.py --checks            # accel check, ruff, pyright and the project's own tests instead

Each combination is made in a folder of its own and trains an epoch of few steps, as its `accel.yaml` says, on 1 and 2 processes
of the CPU. They are forked from this process, which has imported torch and the rest once. Packages that are not there
(transformers, tensorboard, wandb, deepspeed) leave their combinations out, and a line says so.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import io
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from timing import ROOT, environment, table

from accel_migrate.scaffold import catalog, render
from accel_migrate.scaffold.answers import Answers, checked
from accel_migrate.scaffold.writing import write

_FEW_STEPS = {"epochs": 1, "batch_size": 128, "samples": 300, "canvases": 300, "dropout": 0.0, "timesteps": 20}
_NEEDED = {"scikit-learn": "sklearn"} | {name: name for name in ("transformers", "tensorboard", "wandb", "deepspeed")}
_CLOSE = {"no": 2e-3, "bf16": 5e-2, "fp16": 2e-3}
"""Precision -> the relative difference between the figures of one process and two that rounding explains after an epoch."""


@dataclass(frozen=True)
class Outcome:
    """What came of one combination: the figures of one process, the largest relative difference of those of two."""

    figures: dict[str, float]
    difference: float
    seconds: float
    wrong: str = ""


def combinations(options: argparse.Namespace) -> Iterator[Answers]:
    """Those that this machine can run."""
    for task, entry in catalog.tasks().items():
        for choice in itertools.product(entry.strategies, catalog.PRECISIONS, catalog.TRACKERS):
            names = dict(zip(("strategy", "precision", "tracker"), choice, strict=True))
            if all(
                not (asked := getattr(options, key)) or value in asked for key, value in {"task": task, **names}.items()
            ):
                yield checked(Answers("project", task, **names))


def missing(answers: Answers) -> list[str]:
    """What it needs and this interpreter or machine lacks."""
    import torch

    wanted = [*catalog.tasks()[answers.task].packages, answers.tracker, answers.strategy]
    modules = (_NEEDED.get(one.partition(">")[0]) for one in wanted)
    lacking = [module for module in modules if module and importlib.util.find_spec(module) is None]
    if (answers.strategy, answers.precision) == ("deepspeed", "fp16") and not torch.cuda.is_available():
        lacking.append("a GPU, for fp16 under deepspeed")
    return lacking


def trained(answers: Answers, folder: Path) -> Outcome:
    """Make the project and train it on one process, then on two."""
    write(folder, render.project(answers))
    started, figures = time.perf_counter(), []
    try:
        for processes in (1, 2):
            figures.append(_train(folder, processes))
    except Exception as error:
        lines = [line for line in str(error).strip().splitlines() if line.strip()]
        return Outcome({}, 0.0, time.perf_counter() - started, lines[-1][:160] if lines else type(error).__name__)
    one, two = figures
    difference = max(abs(one[name] - two[name]) / max(abs(one[name]), 0.1) for name in one)
    wrong = "" if difference <= _CLOSE[answers.precision] else "differs"
    return Outcome(one, difference, time.perf_counter() - started, wrong or _left_out(answers, folder))


def _train(folder: Path, processes: int) -> dict[str, float]:
    from accel_runtime import debug_launcher, launch_arguments, launch_plan
    from accel_runtime.utils import patch_environment

    with contextlib.chdir(folder) if sys.version_info >= (3, 11) else _inside(folder):
        alone = (
            ["--parallelism_config_tp_size", "1"]
            if "tp_size" in Path("accel.yaml").read_text() and processes == 1
            else []
        )
        asked = launch_arguments.parse(["--cpu", "--num_processes", str(processes), *alone, "train.py"])
        with patch_environment(**launch_plan.make(asked).environment):
            return dict(debug_launcher(_child, (str(folder), processes), num_processes=processes))


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _child(folder: str, processes: int) -> dict[str, float]:
    sys.path.insert(0, folder)
    config, train = importlib.import_module("config"), importlib.import_module("train")
    known = config.Config.__dataclass_fields__
    changes = [f"{name}={value}" for name, value in _FEW_STEPS.items() if name in known]
    with contextlib.redirect_stdout(io.StringIO()):
        return train.train(config.read_config(Path("config.yaml"), changes), Path(f"runs/{processes}"))


def _left_out(answers: Answers, folder: Path) -> str:
    """What the training should have written and has not."""
    runs = folder / "runs" / "2"
    wanted = {"model": "model/model*.safetensors", "checkpoint": "checkpoints/checkpoint_0/manifest.json"}
    wanted |= {"csv": {"figures": "project/metrics.csv"}, "tensorboard": {"figures": "project/events*"}}.get(
        answers.tracker, {}
    )
    return ", ".join(f"no {name}" for name, pattern in wanted.items() if not list(runs.glob(pattern)))


def made_for_checks(tasks: Sequence[str], folder: Path) -> dict[Path, list[str]]:
    """A project for each way in which the files of a task can differ: its folder -> task, tracker, checkpoints."""
    made = {}
    for task, tracker, checkpoints in itertools.product(tasks, ("none", "csv"), (True, False)):
        where = folder / f"{task}-{tracker}-{checkpoints}"
        answers = Answers("project", task, tracker=tracker, checkpoints=checkpoints, places=tuple(catalog.places()))
        write(where, render.project(answers))
        made[where] = [task, tracker, "yes" if checkpoints else "no"]
    return made


def checks(where: Path, own_tests: bool) -> list[str]:
    """What the tools say of a project, "ok" or their first line."""
    accel = [sys.executable, "-c", "from accel_migrate.command.umbrella import main; raise SystemExit(main())"]
    tools = (
        [*accel, "check", "train.py"],
        [*accel, "config", "check"],
        _tool("ruff", "check", "-q", "."),
        _tool("ruff", "format", "-q", "--check", "."),
        _tool("shellcheck", "slurm/train.sbatch", "k8s/run.sh", "monitoring/watch.sh"),
        _tool("hadolint", "--failure-threshold", "warning", "Dockerfile"),
        _tool("kubernetes-validate", "--strict", "k8s/job.yaml", "k8s/storage.yaml"),
        [sys.executable, "-m", "pytest", "-q"] if own_tests else [],
    )
    return [_said(command, where) for command in tools]


CHECKS = (
    "accel check",
    "accel config",
    "ruff",
    "format",
    "shellcheck",
    "hadolint",
    "kubernetes",
    "own tests",
    "pyright",
)


def _typed(folder: Path) -> Callable[[Path], str]:
    """What pyright says of each project: one run for all, since most of its time goes into the libraries."""
    command = _tool("pyright", "--outputjson", "--pythonpath", sys.executable)
    if not command:
        return lambda where: "-"
    report = json.loads(subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True).stdout)
    found = [(Path(one["file"]), one["message"]) for one in report["generalDiagnostics"] if one["severity"] == "error"]
    return lambda where: next((f"{file.name}: {text[:80]!r}" for file, text in found if where in file.parents), "ok")


def _tool(name: str, *arguments: str) -> list[str]:
    found = shutil.which(name)
    return [found, *arguments] if found else []


def _said(command: Sequence[str], where: Path) -> str:
    if not command:
        return "-"
    done = subprocess.run(command, cwd=where, env=environment(), capture_output=True, text=True)
    return "ok" if done.returncode == 0 else (done.stdout + done.stderr).strip().splitlines()[0][:80]


def _all_checks(options: argparse.Namespace, scratch: Path) -> int:
    made = made_for_checks(options.task or list(catalog.tasks()), scratch)
    typed = _typed(scratch)
    rows = []
    for where, choices in made.items():
        own_tests = choices[1] == "csv" and not options.static  # they do not depend on the tracker
        rows.append([*choices, *checks(where, own_tests), typed(where)])
        print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    print("\n".join(table(["task", "tracker", "checkpoints", *CHECKS], rows)))
    return int(any(cell not in ("ok", "-") for row in rows for cell in row[3:]))


def _all_trainings(options: argparse.Namespace, scratch: Path) -> int:
    rows, failed, left_out = [], 0, set()
    for number, answers in enumerate(combinations(options)):
        if lacking := missing(answers):
            left_out.update(lacking)
            continue
        outcome = trained(answers, scratch / str(number))
        shutil.rmtree(scratch / str(number))
        failed += bool(outcome.wrong)
        shown = ", ".join(f"{name} {value:.4f}" for name, value in outcome.figures.items())
        row = [answers.task, answers.strategy, answers.precision, answers.tracker, shown, f"{outcome.difference:.0e}"]
        rows.append([*row, f"{outcome.seconds:.1f}", outcome.wrong or "ok"])
        print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    headings = ["task", "strategy", "precision", "tracker", "on one process", "two differ by", "seconds", ""]
    print("\n".join(table(headings, rows)))
    print(
        f"\n{len(rows)} combinations, {failed} failed"
        + (f"; not here: {', '.join(sorted(left_out))}" if left_out else "")
    )
    return int(failed > 0)


def _preload(options: argparse.Namespace) -> None:
    """What the trainings import, once, before they are forked."""
    import torch
    import torch._dynamo

    torch.set_num_threads(1)
    for module in ("sklearn.datasets", "transformers", "torch.utils.tensorboard", "deepspeed"):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    for name in ("task", "strategy", "precision", "tracker"):
        parser.add_argument(f"--{name}", nargs="*", help="only these")
    parser.add_argument(
        "--checks", action="store_true", help="run the tools and the projects' own tests, train nothing"
    )
    parser.add_argument("--static", action="store_true", help="with --checks: without the projects' own tests")
    options = parser.parse_args()
    sys.path[:0] = [str(ROOT / "codemod"), str(ROOT / "runtime")]
    os.environ.setdefault("WANDB_MODE", "offline")
    with tempfile.TemporaryDirectory(prefix="templates-") as scratch:
        if options.checks:
            return _all_checks(options, Path(scratch))
        _preload(options)
        return _all_trainings(options, Path(scratch))


if __name__ == "__main__":
    sys.exit(main())
