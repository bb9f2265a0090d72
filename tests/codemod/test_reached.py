"""Functions of imported modules are followed however the script comes to call them; what nothing calls costs one look."""

from __future__ import annotations

import pytest

from accel_migrate.facts.interpret import ProjectMachine, gather_facts
from accel_migrate.facts.runs import MAX_RUNS
from accel_migrate.facts.values import Role
from accel_migrate.migrate import migrate
from accel_migrate.project import Project, in_import_order
from accel_migrate.result import Options
from codemod.marked import START, STEP
from codemod.memory import facts_of, program

IMPORTS = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"
TRAIN = "def train(model, loader, optimizer):\n" + "".join(f"    {line}\n" for line in STEP.splitlines())
METHOD = TRAIN.replace("train(", "train(self, ").replace("\n", "\n    ").rstrip(" ")
WAYS = {
    "registry": (
        f"TASKS = {{}}\ndef task(function):\n    TASKS[function.__name__] = function\n    return function\n@task\n{TRAIN}",
        "from engine import TASKS\nTASKS['train'](model, loader, optimizer)\n",
    ),
    "getattr": (TRAIN, "import engine\ngetattr(engine, input())(model, loader, optimizer)\n"),
    "callback in a dict": (TRAIN + "STEPS = {'fit': train}\n", "import engine\nengine.STEPS['fit'](model, loader, optimizer)\n"),
    "class attribute": (TRAIN + "class Task:\n    run = train\n", "from engine import Task\nTask.run(model, loader, optimizer)\n"),
    "overridden method": (
        f"class Base:\n    def fit(self, *given):\n        self.train(*given)\nclass Task(Base):\n    {METHOD}",
        "from engine import Task\nTask().fit(model, loader, optimizer)\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_the_training_is_found(way: str) -> None:
    engine, start = WAYS[way]
    result = migrate(program(START + start, {"data": START, "engine": IMPORTS + engine}), Options())
    texts = {change.source.module: change.after for change in result.changes}
    assert ".backward(loss)" in texts.get("engine", ""), result.reason


def test_what_a_module_does_while_it_is_imported_is_seen() -> None:
    facts = facts_of("import engine\n", {"engine": START + STEP})
    assert [b.with_loader for b in facts.backwards.values()] == [True]


def test_modules_run_in_the_order_of_their_imports() -> None:
    text = "from a import train\ntrain()\n"
    project = program(text, {"b": "import c\n", "a": "import b\nimport a\n", "c": "import a\n", "d": ""})
    assert [source.module for source in in_import_order(project)] == ["d", "c", "b", "a", "train"]


def machine_of(project: Project) -> tuple[ProjectMachine, list[int]]:
    """A machine that has settled, and how often functions were run in each of its passes."""
    machine = ProjectMachine(gather_facts(project), project)
    machine.forget()
    runs: list[int] = []
    run = machine.run

    def counted(last: bool) -> None:
        run(last)
        runs.append(sum(machine.runs.values()))

    machine.run = counted  # type: ignore[method-assign]
    machine.run_to_fixpoint()
    return machine, runs


def test_a_program_without_circles_settles_in_one_pass_once_it_is_known() -> None:
    _, runs = machine_of(program(START + "from engine import train\ntrain(model, loader, optimizer)\n", {"engine": IMPORTS + TRAIN}))
    assert len(runs) == 1


def test_what_nothing_calls_is_run_once_and_not_from_each_place() -> None:
    builders = "".join(f"def net{i}():\n    return build({i}, 'net{i}')\n" for i in range(40))
    library = f"from torch import nn\ndef build(width, name):\n    return nn.Linear(width, 2)\n{builders}"
    _, runs = machine_of(program(START + STEP + "import library\n", {"library": library}))
    assert runs[-1] == 41


def test_what_hundreds_of_places_call_is_run_for_rows_all_the_same() -> None:
    calls = "".join(f"    scaled(x, {i})\n" for i in range(MAX_RUNS + 8))
    code = "def scaled(x, width):\n    return x * width\n" + "".join(f"scaled(2, {i})\n" for i in range(MAX_RUNS + 8))
    machine, runs = machine_of(program(START + STEP + calls + code))
    assert runs[-1] <= MAX_RUNS
    assert len([key for key in machine.memo if getattr(key[0], "name", "") == "scaled"]) >= MAX_RUNS


def test_a_loader_that_unreached_code_hands_on_is_known_where_it_arrives() -> None:
    engine = f"{IMPORTS}{TRAIN}def first():\n    train(None, [], None)\ndef second():\n    from data import loader, model, optimizer\n    train(model, loader, optimizer)\n"
    facts = facts_of("import engine\n", {"data": START, "engine": engine})
    (loop,) = facts.loops.values()
    assert any(getattr(loader, "role", None) is Role.LOADER for loader in loop.loaders)
