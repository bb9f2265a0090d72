"""Tensors that gradients reach though no module made them: `nn.Parameter`, `requires_grad=True`, the weights of a layer.

What is computed from them and rows carries gradients, so that no figure of it may be replaced by a detached one.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accel_migrate.facts import catalog
from accel_migrate.facts.classes import role_of_class
from accel_migrate.facts.effects import calls_project, external_name
from accel_migrate.facts.lossflow import CUTS
from accel_migrate.facts.values import TRAINABLE, Local, Role, Values, altered

if TYPE_CHECKING:
    from accel_migrate.facts.calls import Arguments

STATEMENTS = {"backward", "copy_", "data_ptr", "dim", "element_size", "fill_", "numel", "size", "zero_"}
"""Methods of a tensor that return no tensor with its gradient."""


class Trainables:
    """Part of `Evaluator`."""

    def reached_by_gradients(self, node: ast.expr, values: Values) -> Values:
        """`values` of the expression `node`, with gradients where one of its operands is a trainable tensor."""
        if self.machine.no_grad or not any(TRAINABLE in self.facts.of(operand) for operand in self._operands(node)):
            return values
        if not values:
            return frozenset({TRAINABLE})
        return frozenset(altered(v, grad=True) if isinstance(v, Local) else v for v in values)

    def _operands(self, node: ast.expr) -> list[ast.expr]:
        if isinstance(node, ast.BinOp):
            return [node.left, node.right]
        if isinstance(node, ast.UnaryOp):
            return [node.operand]
        if isinstance(node, ast.Subscript):
            return [node.value]
        if isinstance(node, ast.Attribute):
            return [node.value] if node.attr in {"T", "mT"} else []
        if not isinstance(node, ast.Call) or self.machine.ask(calls_project, node):
            return []
        given = [*node.args, *(k.value for k in node.keywords)]
        if not isinstance(node.func, ast.Attribute):
            return given if self.machine.ask(external_name, node) is not None else []
        return [] if node.func.attr in CUTS | STATEMENTS else [node.func.value, *given]

    def asks_for_gradients(self, node: ast.Call, args: Arguments) -> bool:
        """Whether the call `node` says that the tensor it makes is trained."""
        wanted = args.literal(99, "requires_grad")
        name = self.machine.ask(external_name, node)
        if name in catalog.PARAMETER_MAKERS:
            return wanted is not False and args.literal(1, "requires_grad") is not False
        in_place = isinstance(node.func, ast.Attribute) and node.func.attr == "requires_grad_" and args.literal(0, "requires_grad") is not False
        return (wanted is True and name is not None and name.startswith("torch.")) or in_place

    def in_model(self, node: ast.AST) -> bool:
        """Whether `node` stands in a method of a model, and gradients are recorded."""
        cls = self.facts.scope(node).enclosing_class
        return not self.machine.no_grad and cls is not None and role_of_class(self.facts, cls.node) is Role.MODEL  # type: ignore[arg-type]
