"""The type of an autocast region as a name for `mixed_precision`: "bf16", "fp16", or "no" for float32."""

from __future__ import annotations

import ast
from collections.abc import Callable

from accel_migrate.at_home import NotAtHome, at_home, execs, is_overridden
from accel_migrate.context import Context
from accel_migrate.facts.values import Ref

NAMES = {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}
DTYPES = {"torch.bfloat16": "bf16", "torch.float16": "fp16", "torch.half": "fp16", "torch.float32": "no", "torch.float": "no"}
MAX_STEPS = 8
Leaf = Callable[[ast.expr], "str | None"]


def precision_name(context: Context, node: ast.expr) -> str:
    """The text of an expression for what the dtype `node` is called, at the place where the accelerator is made.

    Raises:
        NotAtHome: it cannot be written there.
    """

    def leaf(part: ast.expr) -> str | None:
        found = known_names(context, part) if isinstance(part, ast.Attribute) or not execs(context) else set()
        if len(found) == 1:
            return f'"{found.pop()}"'
        if isinstance(part, ast.Call) and ast.unparse(part.func) == "getattr" and len(part.args) == 2 and _is_torch(context, part.args[0]):
            return _looked_up(context, part.args[1])
        return None

    return _Chooser(context, leaf).text(node)


def known_names(context: Context, node: ast.expr) -> set[str]:
    """What `node` may be, as far as it is known."""
    return {DTYPES[v.name] for v in context.facts.of(node) if isinstance(v, Ref) and v.name in DTYPES}


def _is_torch(context: Context, node: ast.expr) -> bool:
    return any(isinstance(v, Ref) and v.name == "torch" for v in context.facts.of(node))


def _looked_up(context: Context, node: ast.expr) -> str:
    """`getattr(torch, node)`: each name for itself where all are known, else a table of the names."""

    def leaf(part: ast.expr) -> str | None:
        return f'"{NAMES[part.value]}"' if isinstance(part, ast.Constant) and part.value in NAMES else None

    try:
        return _Chooser(context, leaf).text(node)
    except NotAtHome:
        table = ", ".join(f'"{name}": "{short}"' for name, short in NAMES.items())
        return f"{{{table}}}[{at_home(context, node)}]"


class _Chooser:
    """Follows variables, conditions and literal dictionaries down to what `leaf` can name."""

    def __init__(self, context: Context, leaf: Leaf) -> None:
        self.context = context
        self.leaf = leaf

    def text(self, node: ast.expr, step: int = 0) -> str:
        if step > MAX_STEPS:
            raise NotAtHome
        found = self.leaf(node)
        if found is not None:
            return found
        if isinstance(node, ast.IfExp):
            return self._either(node.test, self.text(node.body, step + 1), self.text(node.orelse, step + 1))
        if isinstance(node, ast.Subscript):
            return self._entry(node, step)
        if isinstance(node, ast.Name):
            return self._variable(node, step)
        raise NotAtHome

    def _either(self, test: ast.expr, first: str, second: str) -> str:
        if first == second:
            return first
        condition = at_home(self.context, test)
        first = f"({first})" if " if " in first else first
        return f"{first} if {condition} else {second}"

    def _entry(self, node: ast.Subscript, step: int) -> str:
        table = node.value
        if isinstance(table, ast.Name):
            table = _one_value(self._assigned(table))
        if not isinstance(table, ast.Dict) or not all(isinstance(k, ast.Constant) for k in table.keys):
            raise NotAtHome
        entries = {_quoted(k): self.text(v, step + 1) for k, v in zip(table.keys, table.values, strict=True)}
        try:
            return _Chooser(self.context, lambda part: entries.get(_quoted(part))).text(node.slice)
        except NotAtHome:
            written = ", ".join(f"{key}: {name}" for key, name in entries.items())
            return f"{{{written}}}[{at_home(self.context, node.slice)}]"

    def _variable(self, node: ast.Name, step: int) -> str:
        assigned = self._assigned(node)
        if len(assigned) == 1:
            if is_overridden(self.context, assigned[0].value):
                raise NotAtHome
            above = self.context.facts.parents[assigned[0]]
            if isinstance(above, ast.If) and "__name__" not in ast.unparse(above.test):
                raise NotAtHome
            return self.text(assigned[0].value, step + 1)
        return self._branches(node.id, self._chain(assigned), len(assigned), step)

    def _assigned(self, node: ast.Name) -> list[ast.Assign]:
        owner = self.context.facts.scope(node).owner(node.id)
        nodes = [] if owner is None else list(ast.walk(owner.node))
        stores = [n for n in nodes if isinstance(n, ast.Name) and n.id == node.id and isinstance(n.ctx, ast.Store)]
        found = [n for n in nodes if isinstance(n, ast.Assign) and len(n.targets) == 1 and ast.unparse(n.targets[0]) == node.id]
        return found if len(found) == len(stores) else []

    def _chain(self, assigned: list[ast.Assign]) -> ast.If:
        above = self.context.facts.parents[assigned[0]] if assigned else None
        if not isinstance(above, ast.If) or assigned[0] not in above.body:
            raise NotAtHome
        return above

    def _branches(self, name: str, chain: ast.If, count: int, step: int) -> str:
        """`if ...: dtype = torch.bfloat16`, `else: dtype = torch.float16`."""
        first = self.text(_one_value(_bound(chain.body, name)), step + 1)
        if count > 2 and len(chain.orelse) == 1 and isinstance(chain.orelse[0], ast.If):
            second = self._branches(name, chain.orelse[0], count - 1, step + 1)
        elif count == 2:
            second = self.text(_one_value(_bound(chain.orelse, name)), step + 1)
        else:
            raise NotAtHome
        return self._either(chain.test, first, second)


def _bound(block: list[ast.stmt], name: str) -> list[ast.Assign]:
    return [s for s in block if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == name]


def _one_value(found: list[ast.Assign]) -> ast.expr:
    if len(found) != 1:
        raise NotAtHome
    return found[0].value


def _quoted(key: ast.expr | None) -> str:
    """A key of a dictionary, in the quotes of the names beside it."""
    if not isinstance(key, ast.Constant):
        return ""
    value = key.value
    return f'"{value}"' if isinstance(value, str) and '"' not in value and "\\" not in value and value.isprintable() else repr(value)
