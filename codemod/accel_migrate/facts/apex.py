"""What apex.amp does to abstract values: models and optimizers come back as they went in, a scaled loss is the loss."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accel_migrate.facts.values import Values

if TYPE_CHECKING:
    from accel_migrate.facts.calls import Arguments
    from accel_migrate.facts.machine import Frame


class Apex:
    """Part of `Library`."""

    def f_initialize(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        """`amp.initialize(model, optimizer, ...)`: both, or the model alone."""
        models, optimizers = args.get(0, "models"), args.get(1, "optimizers")
        if name != "apex.amp.initialize":
            return self.calls.unknown(node, args)
        if args.node(1, "optimizers") is None:
            return models
        box = self.evaluator.box(node)
        self.machine.write_heap(box, 0, models)
        self.machine.write_heap(box, 1, optimizers)
        return frozenset({box})

    def f_scale_loss(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        return args.get(0, "loss") if name == "apex.amp.scale_loss" else self.calls.unknown(node, args)
