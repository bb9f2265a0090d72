"""What statements lead to through the calls of a program: collectives, backward passes, forward passes of prepared models."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accel_migrate.check.program import Program

METHODS = {
    "broadcast", "check_trigger", "gather", "gather_for_metrics", "gather_with_grad", "get_state_dict", "global_mean", "global_sum", "load_state",
    "pad_across_processes", "reduce", "save_model", "save_state", "wait_for_everyone",
}  # fmt: skip
"""Methods of accelerators in which all processes meet."""
FUNCTIONS = {
    "broadcast", "broadcast_object_list", "gather", "gather_for_metrics", "gather_object", "gather_with_grad", "global_mean", "global_sum", "pad_across_processes",
    "reduce", "synchronize_rng_states", "wait_for_everyone",
}  # fmt: skip
"""Functions of the libraries, and of their `utils`, in which all processes meet."""
_OF_TORCH = {
    "barrier",
    "monitored_barrier",
    "broadcast",
    "broadcast_object_list",
    "reduce",
    "scatter",
    "scatter_object_list",
    "gather",
    "gather_object",
}
_COLLECTING = {f"torch.distributed.{name}" for name in ("all_gather", "all_gather_object", "all_gather_into_tensor", "all_reduce", "gather_object")}
"""Functions of torch that bring together what the processes have."""


class Reach:
    """Questions about what running some code comes to."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.facts = program.facts

    @cached_property
    def collectives(self) -> dict[ast.Call, str]:
        """Calls in which all processes meet, with the name by which messages call them."""
        found = {
            c: f"accelerator.{m}()"
            for c, m in self.program.accelerator_calls.items()
            if m in METHODS or self._prepares_model(c, m)
        }
        for call, name in self.facts.external.items():
            last = name.rpartition(".")[2]
            ours = name.startswith(("accelerate.", "accel_runtime.")) and last in FUNCTIONS
            if ours or (
                name.startswith("torch.distributed.")
                and (last in _OF_TORCH or last.startswith(("all_", "reduce_scatter")))
            ):
                found[call] = f"{last}()"
        return found

    def _prepares_model(self, call: ast.Call, method: str) -> bool:
        return method in {"prepare", "prepare_model"} and any(self.program.is_model(a) for a in call.args)

    def collective(self, node: ast.AST) -> ast.Call | None:
        """The first collective that running `node` comes to, calls included; None where there is none."""
        return next(self.collectives_of(node), None)

    def collectives_of(self, node: ast.AST) -> Iterator[ast.Call]:
        """The collectives that running `node` comes to, calls included."""
        return (call for call in self.calls(node) if call in self.collectives)

    def running(self, node: ast.AST, skipped: Container[ast.AST] = ()) -> Iterator[ast.AST]:
        """Everything but `skipped` that runs when `node` does, what the functions that it calls run included; what it defines does not run."""
        seen: set[ast.AST] = set()
        pending: list[ast.AST] = [node]
        while pending:
            for inner in walk_running(pending.pop(), skipped):
                yield inner
                if isinstance(inner, ast.Call):
                    new = self.facts.callees.get(inner, set()) - seen
                    seen |= new
                    pending.extend(sorted(new, key=lambda f: f.lineno))

    def gathers(self, call: ast.Call) -> bool:
        """Whether a function of the program that `call` runs collects what all processes have, with torch.distributed."""
        for function in self.facts.callees.get(call, ()):
            if function not in self._gathering:
                self._gathering[function] = False
                names = {self.facts.external.get(n, "") for n in self.running(function) if isinstance(n, ast.Call)}
                self._gathering[function] = bool(names & _COLLECTING)
            if self._gathering[function]:
                return True
        return False

    @cached_property
    def _gathering(self) -> dict[ast.AST, bool]:
        return {}

    def calls(self, node: ast.AST) -> Iterator[ast.Call]:
        """The calls that running `node` comes to."""
        return (inner for inner in self.running(node) if isinstance(inner, ast.Call))

    @cached_property
    def _backwards(self) -> set[ast.Call]:
        return {*self.facts.backwards, *self.program.calls_of("backward")}

    def trains(self, node: ast.AST) -> bool:
        """Whether a backward pass runs in `node`, calls included."""
        if node not in self._training:
            self._training[node] = any(call in self._backwards for call in self.calls(node))
        return self._training[node]

    @cached_property
    def _training(self) -> dict[ast.AST, bool]:
        return {}


def walk_running(node: ast.AST, skipped: Container[ast.AST] = ()) -> Iterator[ast.AST]:
    """`node` and everything in it, but `skipped`, that runs when it does: bodies of functions which it only defines are left out."""
    function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    pending: list[ast.AST] = [*(node.body if isinstance(node.body, list) else [node.body])] if function else [node]  # type: ignore[attr-defined]
    while pending:
        current = pending.pop(0)
        if current in skipped:
            continue
        yield current
        if isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            pending[:0] = current.decorator_list
        elif not isinstance(current, ast.Lambda):
            pending[:0] = ast.iter_child_nodes(current)
