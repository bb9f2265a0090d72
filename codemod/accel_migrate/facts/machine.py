"""Abstract interpretation of a program: runs every module body on abstract values until nothing new is learned.

Functions are entered at their calls with the values of the arguments, so that a helper called for training and for
evaluation is seen in both contexts. Variables of the running function are flow sensitive; attributes, containers and
variables read from other scopes are joined over the whole program.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from accel_migrate.facts.effects import note_binding, note_global, note_part
from accel_migrate.facts.facts import Facts, Gather, Loop
from accel_migrate.facts.joins import joined, limited
from accel_migrate.facts.runs import Runs
from accel_migrate.facts.scopes import FunctionNode, Scope, parameters
from accel_migrate.facts.sequence import in_order
from accel_migrate.facts.shaping import shaping_counts
from accel_migrate.facts.store import Store
from accel_migrate.facts.traces import again_done
from accel_migrate.facts.values import (
    UNKNOWN,
    Box,
    ClassValue,
    Function,
    Instance,
    Literal,
    Local,
    Made,
    Role,
    Value,
    Values,
)


@dataclass(eq=False)
class Frame:
    """One running function or module body."""

    scope: Scope
    env: dict[str, Values] = field(default_factory=dict)
    temporary: bool = False
    """A comprehension's own variables, gone after it."""
    returned: Values = UNKNOWN
    receiver: Instance | None = None
    gathered: frozenset[str] = frozenset()
    """Texts of expressions whose global rows have been gathered in this pass through a loop."""
    ended: bool = False
    """Whether it has surely returned: a branch that is known to be taken ended so."""


class Machine(Runs, Store):
    """The state of the interpretation, and how statements change it. Expressions are in `Evaluator`."""

    def __init__(self, facts: Facts) -> None:
        Store.__init__(self)
        Runs.__init__(self)
        self.facts = facts
        self.order = 0
        self.loader_loops: list[Loop] = []
        self.module_frames: dict[Scope, Frame] = {}
        self.kept: dict[ast.expr, ast.Call | None] = {}
        """Values of records which outlive the batch of which they are figures -> what puts the record into another container."""
        self._methods: dict[type[ast.stmt], Callable[[Any, Frame], None]] = {}
        from accel_migrate.facts.evaluator import Evaluator

        self.evaluator = Evaluator(self)
        self.plan: dict[ast.stmt, Gather] = {}
        self.hoisted: set[ast.expr] = set()
        """Forward calls whose results the plan gathers above their statements."""
        self.whole_counts: set[ast.expr] = set()
        """Numbers of a process's rows that the plan makes those of the whole batch, since they shape what is gathered."""
        self.staying: set[ast.expr] = set()
        """What becomes an array and comes back to a model, see `coming_back`."""
        self.by_hand = False
        """Whether the program makes its batches by itself, without a loader."""
        self.repeated: set[ast.AST] = set()
        """Draws and slices that some loop of the program makes anew."""
        self.accelerated = False
        """Whether the script is read as accelerated: only prepared loaders hand out slices, and what is gathered is global."""
        self.meters_known = False
        """Whether it is settled which classes run models, so that the others only keep figures."""

    def follow(self, plan: dict[ast.stmt, Gather]) -> None:
        """From the next pass on evaluation loops gather early, as `plan` says."""
        self.plan = plan
        self.hoisted = {node for statement, gather in plan.items() for node in gather.hoisted if self.facts.statement(node) is statement}
        early = [gather for gather in plan.values() if gather.backward is None]
        self.whole_counts = {number for gather in early for number, _ in shaping_counts(self.facts, gather, planned=True)}

    # -- variables ----------------------------------------------------------------------------
    def read_name(self, name: str, frame: Frame) -> Values:
        owner = frame.scope.owner(name)
        if owner is frame.scope and name in frame.env:
            return frame.env[name]
        if owner is None:
            return self.evaluator.builtin(name, frame)
        return self.read_cell(owner, name)

    def write_name(self, name: str, values: Values, frame: Frame) -> None:
        values = limited(values)
        owner = frame.scope.owner(name) or frame.scope
        if owner is frame.scope:
            frame.env[name] = values
        elif self.trace is not None or owner in self.module_frames:
            self.do(note_global, owner, name, values)
        self.write_cell(owner, name, values)

    # -- modules and functions ----------------------------------------------------------------
    def run_module(self, scope: Scope) -> None:
        frame = self.module_frames.setdefault(scope, Frame(scope))
        assert isinstance(scope.node, ast.Module)
        self.block(scope.node.body, frame)

    # -- statements ---------------------------------------------------------------------------
    def block(self, statements: list[ast.stmt], frame: Frame) -> None:
        for statement in statements:
            if frame.ended:
                break
            gather = self.plan.get(statement)
            if gather is not None and gather.hoisted:
                for call in gather.hoisted:
                    self.evaluator.eval(call, frame)
                self.apply_gather(gather, frame)
            self._doing(type(statement))(statement, frame)
            if gather is not None and not gather.hoisted:
                self.apply_gather(gather, frame)

    def _doing(self, kind: type[ast.stmt]) -> Callable[[Any, Frame], None]:
        """What runs statements of `kind`."""
        method = self._methods.get(kind)
        if method is None:
            method = self._methods[kind] = getattr(self, f"do_{kind.__name__}", self.do_other)
        return method

    def apply_gather(self, gather: Gather, frame: Frame) -> None:
        for name in (*gather.names, *gather.sizes):
            frame.env[name] = UNKNOWN
        frame.gathered |= frozenset(gather.paths)

    def do_other(self, node: ast.stmt, frame: Frame) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.evaluator.eval(child, frame)

    def do_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> None:
        self.note_defaults(node, frame)
        function = frozenset({Function(node, self.facts.scopes[node])})
        self.write_name(node.name, function, frame)
        for decorator in node.decorator_list:
            self.evaluator.decorate(decorator, function, frame)

    do_AsyncFunctionDef = do_FunctionDef

    def note_defaults(self, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> None:
        for default in [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]:
            self.write_heap(default, "default", self.evaluator.eval(default, frame))

    def do_ClassDef(self, node: ast.ClassDef, frame: Frame) -> None:
        self.spoil()
        bases: list[str | ast.ClassDef] = []
        for base in node.bases:
            for value in in_order(self.evaluator.eval(base, frame)):
                known = self.evaluator.class_or_name(value)
                if known is not None and known not in bases:
                    bases.append(known)
        self.facts.set_bases(node, tuple(bases))
        if self.traces is not None:
            self.traces.learn(node, self.facts.bases[node])
        cls = ClassValue(node, self.facts.scopes[node])
        self.write_name(node.name, frozenset({cls}), frame)
        inner = Frame(self.facts.scopes[node])
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                self.note_defaults(statement, inner)
            else:
                self.block([statement], inner)
        for decorator in node.decorator_list:
            self.evaluator.decorate(decorator, frozenset({cls}), frame)
        for name, values in inner.env.items():
            self.write_heap(cls, name, values)

    def do_Return(self, node: ast.Return, frame: Frame) -> None:
        if node.value is not None:
            values = self.evaluator.returned(node.value, self.evaluator.eval(node.value, frame), frame)
            frame.returned = limited(frame.returned | values)

    def do_Expr(self, node: ast.Expr, frame: Frame) -> None:
        self.evaluator.eval(node.value, frame)

    def do_Assign(self, node: ast.Assign, frame: Frame) -> None:
        values = self.evaluator.eval(node.value, frame)
        for target in node.targets:
            values = self.evaluator.carried(target, node.value, values, frame)
            self.assign(target, values, frame, node)

    def do_AnnAssign(self, node: ast.AnnAssign, frame: Frame) -> None:
        if node.value is not None:
            self.assign(node.target, self.evaluator.eval(node.value, frame), frame, node)

    def do_AugAssign(self, node: ast.AugAssign, frame: Frame) -> None:
        old = self.evaluator.eval(node.target, frame)
        new = self.evaluator.eval(node.value, frame)
        self.assign(node.target, self.evaluator.augmented(node, old, new, frame), frame, node)

    def assign(self, target: ast.expr, values: Values, frame: Frame, statement: ast.stmt) -> None:
        if isinstance(target, ast.Starred):
            target = target.value
        if isinstance(target, ast.Tuple | ast.List):
            values = self._unpackable(values, len(target.elts))
            for i, element in enumerate(target.elts):
                self.assign(element, self.evaluator.element(values, i, frame), frame, statement)
            return
        values = self.evaluator.kept(target, values, frame, statement)
        self.facts.values[target] = limited(self.facts.values.get(target, UNKNOWN) | values)
        if self.trace is not None:
            self.trace.evaluated(target, limited(values))
        self._note_binding(target, values, frame, statement)
        if isinstance(target, ast.Name):
            self.write_name(target.id, values, frame)
        elif isinstance(target, ast.Attribute):
            for owner in in_order(self.evaluator.eval(target.value, frame)):
                self.store_attribute(owner, target.attr, values)
        elif isinstance(target, ast.Subscript):
            values = self.evaluator.fill(target, values, frame, statement)
            key = self.evaluator.key(target.slice, frame)
            owners = self.evaluator.eval(target.value, frame)
            if isinstance(statement, ast.Assign) and target in statement.targets:
                values = self.evaluator.entered(owners, statement.value, values, frame)
            for owner in in_order(owners):
                if isinstance(owner, Box):
                    self.write_heap(owner, key, values)
                elif isinstance(owner, Made):
                    self.write_heap(owner, f"[{key}]", values)
                    self._note_part(owner, values)

    def _unpackable(self, values: Values, count: int) -> Values:
        """Of several values that may be taken apart into `count` parts, tuples of that many: `out` of `return out` is none of them."""
        tuples = frozenset(v for v in values if isinstance(v, Box) and isinstance(v.site, ast.Tuple) and len(v.site.elts) == count)
        return frozenset(v for v in values if v in tuples or not isinstance(v, Box | Local)) if tuples else values

    def store_attribute(self, owner: Value, name: str, values: Values) -> None:
        if isinstance(owner, Instance):
            self.write_heap(owner.keeper, name, values)
            if not values:
                self.write_heap(owner.keeper, f"unknown {name}", frozenset({Literal(True)}))
            self._note_part(owner, values)
        elif isinstance(owner, Made | ClassValue):
            self.write_heap(owner, name, values)
            if isinstance(owner, Made):
                self._note_part(owner, values)

    def _note_part(self, owner: Instance | Made, values: Values) -> None:
        """`self.encoder = Encoder()`, `vgg.classifier[6] = nn.Linear(4096, 2)`: models among `values` are parts of the model `owner`."""
        if self.facts.role(owner) is Role.MODEL or (isinstance(owner, Made) and owner.detail.startswith("model.")):
            for value in values:
                if self.facts.role(value) is Role.MODEL and value.site is not owner.site:  # type: ignore[union-attr]
                    self.tell(note_part, value.site, owner.site)  # type: ignore[union-attr]

    def _note_binding(self, target: ast.expr, values: Values, frame: Frame, statement: ast.stmt) -> None:
        if not frame.temporary and any(self.facts.role(v) not in {None, Role.OBJECT} for v in values):
            noted = self.trace is not None and self.trace.done.has_bound(target)
            binding = statement, target, values, frame.scope, tuple(self.loops)
            if not noted:
                self.do(note_binding, *binding)
            elif self.trace is not None:
                self.trace.steps.append((again_done, note_binding, binding))

    def do_If(self, node: ast.If, frame: Frame) -> None:
        if self.facts.text(node.test) == "__name__ == '__main__'" and frame.scope.source is not self.facts.entry:
            return  # an imported module's own entry
        self.evaluator.test(node.test, frame)
        taken = self.evaluator.branch(node.test, frame)
        if taken is not None:
            self._take(node.body if taken else node.orelse, frame)
            return
        before = dict(frame.env)
        self.block(node.body, frame)
        ended, frame.ended = frame.ended, False
        after_body, frame.env = frame.env, before
        self.block(node.orelse, frame)
        frame.ended = frame.ended and ended
        frame.env = joined(after_body, frame.env)

    def _take(self, statements: list[ast.stmt], frame: Frame) -> None:
        """Runs the branch that is known to be taken."""
        self.block(statements, frame)
        if statements and isinstance(statements[-1], ast.Return | ast.Raise):
            frame.ended = True

    def do_For(self, node: ast.For | ast.AsyncFor, frame: Frame) -> None:
        iterated = self.evaluator.eval(node.iter, frame)
        loop = self.enter_loader_loop(node, iterated, frame)
        self.loops.append(node)
        for_rows = self.evaluator.runs_for_rows(node)
        self.row_loops += for_rows
        for _ in range(2):
            before = dict(frame.env)
            if loop is not None:
                frame.gathered = frozenset()
            self.assign(node.target, self.evaluator.taken_by(node, iterated, frame), frame, node)
            self.evaluator.cut_targets(node, frame)
            self.block(node.body, frame)
            frame.ended = False
            frame.env = joined(before, frame.env)
        self.row_loops -= for_rows
        self.loops.pop()
        self.leave_loader_loop(loop)
        self.block(node.orelse, frame)

    do_AsyncFor = do_For

    def enter_loader_loop(self, node: ast.For | ast.While | ast.comprehension, iterated: Values, frame: Frame) -> Loop | None:
        loaders: set[object] = set(self.evaluator.loaders_of(iterated)) or {place for place, cut in self.facts.cuts.items() if cut.loop is node}
        if not loaders:
            return None
        self.spoil()
        loop = self.facts.loops.setdefault(node, Loop(node, frame.scope))
        loop.loaders |= loaders
        loop.depth = len(self.stack)
        self.loader_loops.append(loop)
        self.write_heap(frame.scope.node, "sources", frozenset(loaders))
        return loop

    def leave_loader_loop(self, loop: Loop | None) -> None:
        if loop is not None:
            self.loader_loops.pop()

    def do_While(self, node: ast.While, frame: Frame) -> None:
        loop = self.enter_loader_loop(node, UNKNOWN, frame)
        self.evaluator.set_moving(node, frame)
        self.loops.append(node)
        for _ in range(2):
            self.evaluator.test(node.test, frame)
            before = dict(frame.env)
            self.block(node.body, frame)
            frame.ended = False
            frame.env = joined(before, frame.env)
        self.loops.pop()
        self.leave_loader_loop(loop)
        self.block(node.orelse, frame)

    def do_With(self, node: ast.With | ast.AsyncWith, frame: Frame) -> None:
        guarded = 0
        for item in node.items:
            values = self.evaluator.eval(item.context_expr, frame)
            guarded += self.evaluator.disables_grad(item.context_expr, frame)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, values, frame, node)
        self.no_grad += guarded
        self.block(node.body, frame)
        self.no_grad -= guarded

    do_AsyncWith = do_With

    def do_Try(self, node: ast.Try, frame: Frame) -> None:
        before = dict(frame.env)
        self.block(node.body, frame)
        frame.ended = False
        for handler in node.handlers:
            after, frame.env = frame.env, joined(before, frame.env)
            self.block(handler.body, frame)
            frame.ended = False
            frame.env = joined(after, frame.env)
        self.block(node.orelse, frame)
        self.block(node.finalbody, frame)

    do_TryStar = do_Try

    def do_Match(self, node: ast.Match, frame: Frame) -> None:
        self.evaluator.eval(node.subject, frame)
        before = dict(frame.env)
        for case in node.cases:
            inner, frame.env = frame.env, dict(before)
            self.block(case.body, frame)
            frame.ended = False
            frame.env = joined(inner, frame.env)

    def do_Import(self, node: ast.Import, frame: Frame) -> None:
        self.spoil()
        for alias in node.names:
            name = alias.asname or alias.name.split(".")[0]
            full = alias.name if alias.asname else name
            self.write_name(name, self.evaluator.imported(full, None, frame), frame)

    def do_ImportFrom(self, node: ast.ImportFrom, frame: Frame) -> None:
        self.spoil()
        module = self.evaluator.absolute(node, frame)
        for alias in node.names:
            if alias.name == "*":
                self.evaluator.star_import(module, frame)
            else:
                self.write_name(alias.asname or alias.name, self.evaluator.imported(module, alias.name, frame), frame)

    def do_Delete(self, node: ast.Delete, frame: Frame) -> None:
        """`del x` ends nothing that matters here."""

    def function_env(self, node: FunctionNode, positional: list[Values], keywords: dict[str, Values], bound: Values | None) -> dict[str, Values]:
        """Parameter values of a call; missing ones take their default's value."""
        a = node.args
        names = [p.arg for p in (*a.posonlyargs, *a.args)]
        given = ([bound] if bound is not None else []) + positional
        env: dict[str, Values] = {p.arg: UNKNOWN for p in parameters(node)}
        for name, default in zip(reversed(names), reversed(a.defaults), strict=False):
            env[name] = self.read_heap(default, "default")
        for param, default in zip(a.kwonlyargs, a.kw_defaults, strict=True):
            if default is not None:
                env[param.arg] = self.read_heap(default, "default")
        env.update(zip(names, given, strict=False))
        if a.vararg is not None and len(given) > len(names):
            env[a.vararg.arg] = frozenset().union(*given[len(names) :])
            env.update({f"*{a.vararg.arg} {i}": values for i, values in enumerate(given[len(names) :])})
        for name, values in keywords.items():
            if name in env:
                env[name] = values
            elif a.kwarg is not None:
                env[a.kwarg.arg] = env[a.kwarg.arg] | self._kept_by_name(a.kwarg, name, values)
                env[f"**{a.kwarg.arg} {name}"] = values
        return env

    def _kept_by_name(self, kwarg: ast.arg, name: str, values: Values) -> Values:
        """`values`, given as `name`, with the dict `kwargs` that holds the objects among them."""
        objects = frozenset(v for v in values if isinstance(v, Instance | Function | Box))
        if not objects:
            return values
        keywords = Box(kwarg)
        self.write_heap(keywords, name, objects)
        return values | {keywords}
