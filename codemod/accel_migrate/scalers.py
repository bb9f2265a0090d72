"""What becomes of a script's gradient scaler: its calls, the variables and parameters that held it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.access import Unreachable
from accel_migrate.context import Context
from accel_migrate.edits import DeleteStatement, Edit, Finding, RemoveArgument, RemoveParameter, ReplaceStatement
from accel_migrate.facts.values import Literal, Made, Role, Values
from accel_migrate.processes.paragraphs import delete
from accel_migrate.rules.backward import out_of_reach
from accel_migrate.unscaling import gradients_are_read

SCALER = "@accelerator@.scaler"
UNSCALE = "@accelerator@.unscale_gradients({x})"
OPTIONAL = {
    "state_dict": f"{SCALER}.state_dict() if {SCALER} else {{{{}}}}",
    "get_scale": f"{SCALER}.get_scale() if {SCALER} else 1.0",
    "is_enabled": f"{SCALER} is not None",
}
"""Methods that a scaler which is switched off has too."""


class Scalers:
    """Edits for all scalers of a program. `may_be_off`: the accelerator may have none."""

    def __init__(self, context: Context, rule: str, why: str, may_be_off: bool) -> None:
        self.context = context
        self.facts = context.facts
        self.rule = rule
        self.why = why
        self.may_be_off = may_be_off
        self.gone: set[int] = set()
        """Nodes whose reads of a scaler vanish."""

    def edits(self) -> Iterator[Edit | Finding]:
        yield from self._made()
        yield from self._scaled()
        yield from self._methods()
        dropped = self._dropped_parameters()
        for function, parameter in dropped:
            yield RemoveParameter(source=self.context.source(function), rule=self.rule, why=self.why, node=function, parameter=parameter)
            yield from self._arguments(function, parameter)
        yield from self._reads()

    # -- where it is made --------------------------------------------------------------------------
    def _made(self) -> Iterator[Edit]:
        for _, node in self.facts.nodes(ast.Assign, ast.AnnAssign):
            value, target = node.value, node.targets[0] if isinstance(node, ast.Assign) else node.target  # type: ignore[attr-defined]
            if value is not None and isinstance(target, ast.Name | ast.Attribute) and self._only_makes(value, target):
                self.gone.add(id(node))
                yield delete(self.facts, node, self.rule, self.why)  # type: ignore[arg-type]

    def _only_makes(self, value: ast.expr, target: ast.expr) -> bool:
        """`GradScaler(...)`, `GradScaler() if amp else None`, or the `None` that stands for no scaler."""
        if isinstance(value, ast.Call):
            return any(isinstance(v, Made) and v.role is Role.SCALER and v.site is value for v in self.facts.of(value))
        if isinstance(value, ast.IfExp):
            return self._only_makes(value.body, target) and isinstance(value.orelse, ast.Constant | ast.Call)
        if isinstance(value, ast.Constant) and value.value is None and isinstance(target, ast.Name):
            owner = self.facts.scope(target).owner(target.id)
            return any(
                isinstance(n, ast.Assign) and isinstance(n.value, ast.Call) and ast.unparse(n.targets[0]) == target.id and is_scaler(self.context, self.facts.of(n.value))
                for n in ast.walk(owner.node) if owner is not None
            ) if owner is not None else False  # fmt: skip
        return False

    # -- its methods -------------------------------------------------------------------------------
    def _scaled(self) -> Iterator[Edit]:
        """`scaler.scale(loss).backward()` is the backward rule's; elsewhere the scaled loss is the loss."""
        backwards = {id(b.call.func.value) for b in self.facts.backwards.values() if b.scaled}  # type: ignore[attr-defined]
        for call, (base, name) in self.facts.methods.items():
            if name != "scale" or not is_scaler(self.context, base) or not isinstance(call.func, ast.Attribute) or not call.args:
                continue
            self.gone.add(id(call.func))
            if id(call) not in backwards:
                yield self.context.replace(self.rule, call, "{x}", self.why, x=call.args[0])

    def _methods(self) -> Iterator[Edit | Finding]:
        for call, (base, name) in self.facts.methods.items():
            if not is_scaler(self.context, base) or not isinstance(call.func, ast.Attribute):
                continue
            try:
                edit = self._method(call, name)
            except Unreachable:
                yield out_of_reach(self.context, call)
                continue
            if edit is not None:
                self.gone.add(id(edit.node) if isinstance(edit, DeleteStatement) else id(call.func))
                yield edit

    def _method(self, call: ast.Call, name: str) -> Edit | None:
        statement = self.facts.statement(call)
        assert isinstance(call.func, ast.Attribute)
        if name == "unscale_" and call.args and gradients_are_read(self.context, statement):
            return self.context.replace(self.rule, call, self.context.say(UNSCALE, call), self.why, x=call.args[0])
        if name in {"unscale_", "update"} and isinstance(statement, ast.Expr):
            return delete(self.facts, statement, self.rule, "the accelerator does this")
        if name == "step" and call.args:
            extra = ", ".join(f"{{a{i}}}" for i in range(1, len(call.args)))
            return self.context.replace(self.rule, call, f"{{a0}}.step({extra})", self.why, **{f"a{i}": a for i, a in enumerate(call.args)})
        if not self._holds_scaler(call.func.value):
            return None  # `for part in (model, optimizer, scaler): part.load_state_dict(...)`
        if name in OPTIONAL and self.may_be_off:
            return self.context.replace(self.rule, call, self.context.say(OPTIONAL[name], call), self.why)
        if call in self.context.states.restored:
            return None  # `load_state` brings it back
        if name == "load_state_dict" and self.may_be_off and isinstance(statement, ast.Expr) and call.args:
            return self._restored(call, statement)
        return None

    def _restored(self, call: ast.Call, statement: ast.Expr) -> Edit | None:
        """`scaler.load_state_dict(state)`, where there may be none; a script that asks for it itself goes on asking."""
        tests = [a.test for a in self.facts.ancestors(call) if isinstance(a, ast.If)]
        if any(is_scaler(self.context, self.facts.of(n)) for test in tests for n in ast.walk(test) if isinstance(n, ast.expr)):
            return None
        scaler = self.context.say(SCALER, call)
        template = f"if {scaler}:\n    {scaler}.load_state_dict({{x}})"
        return ReplaceStatement(
            source=self.context.source(call), rule=self.rule, why=self.why, node=statement, template=template, parts={"x": call.args[0]}
        )

    # -- the variables that held it ----------------------------------------------------------------
    def _dropped_parameters(self) -> list[tuple[ast.FunctionDef, ast.arg]]:
        """Parameters of project functions that only ever receive the scaler."""
        found = []
        for function, calls in self.facts.callers.items():
            if not isinstance(function, ast.FunctionDef) or function in self.facts.called_back or not calls:
                continue
            for index, parameter in enumerate(function.args.args):
                given = [self.context.accelerator.argument(call, function, index) for call in calls]
                if any(g is not None and is_scaler(self.context, self.facts.of(g)) for g in given) and all(map(self._holds_scaler, given)):
                    found.append((function, parameter))
        return found

    def _holds_scaler(self, node: ast.expr | None) -> bool:
        if node is None or (isinstance(node, ast.Constant) and node.value is None):
            return True
        return all((isinstance(v, Literal) and v.value is None) or _is_one(v) for v in self.facts.of(node)) and bool(self.facts.of(node))

    def _arguments(self, function: ast.FunctionDef, parameter: ast.arg) -> Iterator[Edit]:
        index = function.args.args.index(parameter)
        for call in self.facts.callers[function]:
            given = self.context.accelerator.argument(call, function, index)
            if given is not None:
                self.gone.add(id(given))
                yield RemoveArgument(source=self.context.source(call), rule=self.rule, why=self.why, node=call, argument=given)

    def _reads(self) -> Iterator[Edit | Finding]:
        """Whatever still reads a scaler reads the accelerator's."""
        for _, node in self.facts.nodes(ast.Name, ast.Attribute):
            if not isinstance(node.ctx, ast.Load) or not is_scaler(self.context, self.facts.of(node)) or self._vanishes(node):  # type: ignore[attr-defined]
                continue
            if not self._holds_scaler(node):  # type: ignore[arg-type]
                continue
            try:
                yield self.context.replace(self.rule, node, self.context.say(SCALER, node), self.why)  # type: ignore[arg-type]
            except Unreachable:
                yield out_of_reach(self.context, node)

    def _vanishes(self, node: ast.AST) -> bool:
        return id(node) in self.gone or any(id(a) in self.gone for a in self.facts.ancestors(node))


def is_scaler(context: Context, values: Values) -> bool:
    return any(_is_one(v) for v in values)


def _is_one(value: object) -> bool:
    return isinstance(value, Made) and value.role is Role.SCALER
