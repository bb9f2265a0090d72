"""What starting processes does to abstract values: the worker runs, with its rank and the arguments handed over."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accel_migrate.facts.sequence import in_order
from accel_migrate.facts.values import UNKNOWN, Function, Values

if TYPE_CHECKING:
    from accel_migrate.facts.calls import Arguments
    from accel_migrate.facts.machine import Frame


class Starting:
    """Part of `Library`."""

    def f_spawn(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        """`torch.multiprocessing.spawn(fn, args, nprocs)`."""
        if name.startswith("torch.multiprocessing"):
            self._run_worker(args.get(0, "fn"), [UNKNOWN, *self._handed(args.node(1, "args"))])
        return self.calls.unknown(node, args)

    f_start_processes = f_spawn

    def f_Process(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        """`multiprocessing.Process(target=fn, args=(...))`."""
        if name.endswith("multiprocessing.Process"):
            self._run_worker(args.get(1, "target"), self._handed(args.node(3, "args")))
        return self.calls.unknown(node, args)

    def _handed(self, node: ast.expr | None) -> list[Values]:
        return [self.facts.of(element) for element in node.elts] if isinstance(node, ast.Tuple | ast.List) else []

    def _run_worker(self, worker: Values, given: list[Values]) -> None:
        for value in in_order(worker):
            if isinstance(value, Function):
                bound = frozenset({value.receiver}) if value.receiver is not None else None
                env = self.machine.function_env(value.node, given, {}, bound)
                self.machine.run_function(value.node, value.scope, env, value.receiver)
