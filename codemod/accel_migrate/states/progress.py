"""How far a training has come: the loop over epochs counts from the state, and batches are not passed over by hand."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from accel_migrate.context import Context
from accel_migrate.edits import AddArgument, DeleteStatement, Edit, Finding
from accel_migrate.facts.values import Role
from accel_migrate.states.conversion import States

_DEPTH = 3


class Progress:
    """Edits of the loops of a program whose checkpoints become states."""

    def __init__(self, context: Context, states: States, rule: str, why: str) -> None:
        self.context = context
        self.facts = context.facts
        self.states = states
        self.rule = rule
        self.why = why

    def edits(self) -> Iterator[Edit | Finding]:
        starts = {text for text, _ in self._assigned}
        for _, loop in self.facts.nodes(ast.For):
            if isinstance(loop, ast.For) and _is_range_from(loop.iter, starts):
                yield self._epochs(loop.iter)  # type: ignore[arg-type]
                if self._loops_with_saves:
                    yield from self._exact_start(loop.iter.args[0])  # type: ignore[attr-defined]
        for skip in self._skips(starts):
            yield DeleteStatement(
                source=self.context.source(skip), rule=self.rule, why="the loader goes on by itself", node=skip
            )
        for loop in self._loops_with_saves:
            yield from self._numbered(loop)

    @cached_property
    def _assigned(self) -> list[tuple[str, ast.stmt]]:
        """Variables that get something read from a checkpoint, by way of a function too, and the statements that say so."""
        found = []
        for loaded in self.states.loaded:
            for read in loaded.reads:
                statement = self.facts.statement(read.name)
                found += [(text, statement) for text in _targets(statement)]
                function = self.facts.function(statement)
                if isinstance(statement, ast.Return):
                    calls = [self.facts.statement(call) for call in self.facts.callers.get(function, {})]  # type: ignore[call-overload]
                    found += [(text, call) for call in calls for text in _targets(call)]
        return found

    def _epochs(self, call: ast.Call) -> Edit:
        template = self.context.say("@accelerator@.epochs({count}, {start})", call)
        return self.context.replace(self.rule, call, template, self.why, count=call.args[1], start=call.args[0])

    @cached_property
    def _loops_with_saves(self) -> list[ast.For]:
        """The loops over batches in which a state is saved, calls included."""
        found: list[ast.For] = []
        pending: list[tuple[ast.AST, int]] = [(s.call, _DEPTH) for s in self.states.saved]
        while pending:
            node, depth = pending.pop()
            for ancestor in self.facts.ancestors(node):
                loop = self.facts.loops.get(ancestor)
                if loop is not None and loop.trains and isinstance(ancestor, ast.For) and ancestor not in found:
                    found.append(ancestor)
            function = self.facts.function(node)
            if depth and isinstance(function, ast.FunctionDef):
                pending += [(call, depth - 1) for call in self.facts.callers.get(function, {})]
        return found

    def _exact_start(self, start: ast.expr) -> Iterator[Edit | Finding]:
        """`start = counters["epoch"] + 1`: a state of mid-epoch goes on in its epoch, one of an epoch's end after it, by `epochs`."""
        text = ast.unparse(start)
        for _, node in self.facts.nodes(ast.Assign, ast.AugAssign):
            if text not in _targets(node) or (isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)):
                continue
            value = node.value if isinstance(node, ast.Assign) and (text, node) in self._assigned else None
            if value is not None and self._is_epoch(value):
                continue
            if (
                isinstance(value, ast.BinOp)
                and isinstance(value.op, ast.Add)
                and ast.unparse(value.right) == "1"
                and self._is_epoch(value.left)
            ):
                yield self.context.replace(self.rule, value, "{x}", self.why, x=value.left)
                continue
            message = f"states are saved in mid-epoch, and `{text}` may be the epoch after the one that is to go on"
            advice = "let it be the epoch itself, or leave it: accelerator.epochs knows where to go on"
            yield Finding(source=self.context.source(node), node=node, rule=self.rule, message=message, advice=advice)

    def _is_epoch(self, value: ast.expr) -> bool:
        """Whether `value` reads a counter that is saved as a variable, and not as `epoch + 1`."""
        reads = [read for loaded in self.states.loaded for read in loaded.reads if self.facts.inside(read.name, value)]
        entries = [e for read in reads for s in self.states.saved for e in s.entries() if e.name == read.key]
        return (
            len(reads) == 1
            and isinstance(value, ast.Subscript | ast.Call)
            and all(isinstance(e.value, ast.Name) for e in entries)
        )

    def _skips(self, starts: set[str]) -> Iterator[ast.If]:
        """`if step < start_step: continue` in a loop over batches."""
        for _, node in self.facts.nodes(ast.If):
            if not isinstance(node, ast.If) or node.orelse or not all(isinstance(s, ast.Continue) for s in node.body):
                continue
            inside = any(self.facts.loops[a].trains for a in self.facts.ancestors(node) if a in self.facts.loops)
            if inside and any(
                ast.unparse(n) in starts for n in ast.walk(node.test) if isinstance(n, ast.Name | ast.Attribute)
            ):
                yield node

    def _numbered(self, loop: ast.For) -> Iterator[Edit]:
        """`enumerate(loader)` counts on from the batches that were seen."""
        call = loop.iter
        if not (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id == "enumerate"
            and len(call.args) == 1
            and not call.keywords
        ):
            return
        loaders = [
            n
            for n in ast.walk(call.args[0])
            if isinstance(n, ast.Name | ast.Attribute) and self.facts.has_role(n, Role.LOADER)
        ]
        if loaders:
            value = f"{ast.unparse(loaders[0])}.batches_seen"
            yield AddArgument(source=self.context.source(call), rule=self.rule, why=self.why, node=call, value=value)


def _targets(statement: ast.AST) -> list[str]:
    """The variables that an assignment binds."""
    if not isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
        return []
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    flat = [t for target in targets for t in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return [ast.unparse(t) for t in flat if isinstance(t, ast.Name | ast.Attribute)]


def _is_range_from(node: ast.expr, starts: set[str]) -> bool:
    """`range(start, count)` where `start` comes from a checkpoint."""
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) == "range"
        and len(node.args) == 2
        and ast.unparse(node.args[0]) in starts
    )
