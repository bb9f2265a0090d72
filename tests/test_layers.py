"""Who may import whom: the codemod works without torch, the runtime without libcst, jinja2 and the codemod."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CODEMOD, RUNTIME = ROOT / "codemod" / "accel_migrate", ROOT / "runtime" / "accel_runtime"

FORBIDDEN = {
    CODEMOD: {"torch", "torchvision", "accelerate", "accel_runtime"},
    RUNTIME: {"libcst", "jinja2", "accel_migrate", "accelerate"},
}
SLOW_PARTS_OF_LIBCST = ("libcst.matchers", "libcst.codemod")


IN_THE_USERS_INTERPRETER = CODEMOD / "verify" / "hooks"
"""Runs where the scripts run, in a process of its own, and may import torch and what the scripts use."""


def imports(file: Path) -> Iterator[str]:
    """Dotted names of the absolute imports anywhere in `file`."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("package", FORBIDDEN, ids=lambda package: package.name)
def test_no_layer_imports_another(package: Path) -> None:
    wrong = [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in package.rglob("*.py")
        if IN_THE_USERS_INTERPRETER not in file.parents
        for name in imports(file)
        if name.partition(".")[0] in FORBIDDEN[package]
    ]
    assert not wrong


OUTER = ("accel_migrate.command", "accel_migrate.report")
"""What prints and writes: nothing that reads and rewrites programs knows of it."""


def test_what_runs_beside_the_scripts_imports_nothing_else_of_the_codemod() -> None:
    allowed = ("accel_migrate.verify.hooks", "accel_migrate.verify.printed")
    wrong = [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in IN_THE_USERS_INTERPRETER.rglob("*.py")
        for name in imports(file)
        if name.startswith("accel_migrate") and not name.startswith(allowed)
    ]
    assert not wrong


def test_the_command_line_is_the_outermost_layer() -> None:
    shell = {CODEMOD / "command", CODEMOD / "report"}
    wrong = [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in CODEMOD.rglob("*.py")
        if not shell & set(file.parents) and file.name != "__main__.py"
        for name in imports(file)
        if name.startswith(OUTER)
    ]
    assert not wrong


def test_the_slow_parts_of_libcst_stay_out() -> None:
    wrong = [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in CODEMOD.rglob("*.py")
        for name in imports(file)
        if name.startswith(SLOW_PARTS_OF_LIBCST)
    ]
    assert not wrong


def run_blocked(blocked: set[str], code: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a fresh interpreter in which the modules named in `blocked` count as not installed."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(CODEMOD.parent), str(RUNTIME.parent)])}
    command = [sys.executable, "-c", f"import sys\nsys.modules.update(dict.fromkeys({sorted(blocked)}))\n{code}"]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)


def test_every_module_of_the_codemod_imports_without_torch() -> None:
    modules = [
        ".".join(file.relative_to(CODEMOD.parent).with_suffix("").parts)
        for file in sorted(CODEMOD.rglob("*.py"))
        if file.stem not in {"__init__", "__main__"}
    ]
    done = run_blocked({"torch", "accelerate"}, f"import importlib\nfor name in {modules}: importlib.import_module(name)\n")
    assert done.returncode == 0, done.stderr


def test_launching_without_torch_says_what_to_install() -> None:
    done = run_blocked({"torch"}, "from accel_migrate.command.umbrella import main\nsys.exit(main(['launch', 'train.py']))\n")
    assert done.returncode == 2
    assert done.stderr == "accel launch: error: needs torch; install it with: pip install 'accel-migrate[runtime]'\n"


def test_the_runtime_imports_without_the_codemod_and_its_libraries() -> None:
    pytest.importorskip("torch")
    done = run_blocked({"libcst", "jinja2", "accel_migrate"}, "import accel_runtime\n")
    assert done.returncode == 0, done.stderr
