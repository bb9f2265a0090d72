"""What stands around a place of a program, in its function: loops, conditions, `with` blocks."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accel_migrate.check.reach import Reach
    from accel_migrate.facts.facts import Facts, Loop


class Around:
    """Part of `Program`."""

    facts: Facts
    accelerator_calls: dict[ast.Call, str]
    reach: Reach

    def loop_over(self, node: ast.AST) -> Loop | None:
        """The innermost loop over a loader around `node`, in its function."""
        for ancestor in self.facts.ancestors(node):
            if ancestor in self.facts.loops:
                return self.facts.loops[ancestor]
            if isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef):
                return None
        return None

    def training_loop(self, node: ast.AST) -> ast.AST | None:
        """The innermost loop around `node`, in its function, in which backward passes run."""
        for ancestor in self.facts.ancestors(node):
            if isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef):
                return None
            if isinstance(ancestor, ast.For | ast.While) and self.reach.trains(ancestor):
                return ancestor
        return None

    def accumulation(self, node: ast.AST) -> ast.With | None:
        """The `with accelerator.accumulate(...)` around `node`, in its function."""
        for ancestor in self.facts.ancestors(node):
            if isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef):
                return None
            if isinstance(ancestor, ast.With) and any(
                isinstance(i.context_expr, ast.Call) and self.accelerator_calls.get(i.context_expr) == "accumulate"
                for i in ancestor.items
            ):
                return ancestor
        return None

    def is_under(self, node: ast.AST, attribute: str) -> bool:
        """Whether a test around `node`, in its function, asks for this attribute of an accelerator."""
        for ancestor in self.facts.ancestors(node):
            if isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef):
                return False
            if (
                isinstance(ancestor, ast.If | ast.IfExp)
                and node is not ancestor.test
                and any(isinstance(n, ast.Attribute) and n.attr == attribute for n in ast.walk(ancestor.test))
            ):
                return True
        return False

    def is_without_gradients(self, node: ast.AST) -> bool:
        """Whether a `with torch.no_grad()` or its kin stands around `node`, in its function or as its decorator."""
        for ancestor in self.facts.ancestors(node):
            items = [i.context_expr for i in ancestor.items] if isinstance(ancestor, ast.With) else []
            function = isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef)
            texts = [self.facts.text(n) for n in (*items, *(ancestor.decorator_list if function else ()))]  # type: ignore[attr-defined]
            if any("no_grad" in t or "inference_mode" in t for t in texts):
                return True
            if function:
                return False
        return False
