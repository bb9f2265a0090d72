"""Values that differ between processes though no batch is behind them: clocks, process ids, free memory, signals.

They are followed by name: through assignments, attributes and the project's functions, flow insensitive.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.facts.facts import Facts
from accel_migrate.side_effects import runs_models

CLOCKS = {
    *(f"time.{name}{unit}" for name in ("time", "perf_counter", "monotonic", "process_time") for unit in ("", "_ns")), "timeit.default_timer",
    "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today",
}  # fmt: skip
OF_THE_PROCESS = {
    "os.getpid", "os.getloadavg", "os.urandom", "socket.gethostname", "platform.node", "uuid.uuid1", "uuid.uuid4", "shutil.disk_usage",
    "torch.cuda.memory_allocated", "torch.cuda.max_memory_allocated", "torch.cuda.memory_reserved", "torch.cuda.max_memory_reserved",
    "torch.cuda.mem_get_info", "torch.cuda.utilization", "torch.cuda.temperature",
}  # fmt: skip
PREFIXES = ("psutil.", "secrets.", "pynvml.", "GPUtil.")
LOOKED_UP = {"os.path.exists", "os.path.isfile", "os.path.getmtime", "os.stat", "os.listdir", "glob.glob"}
"""What they tell may change while the processes are at different places of a step."""
NUMBERS = {"round", "int", "float", "max", "min", "abs", "math.cos", "math.exp", "math.floor", "math.ceil", "math.sqrt"}


class Diverging:
    """Which expressions of a program may differ from process to process."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.sources = {call for call, name in facts.external.items() if name in CLOCKS | OF_THE_PROCESS or name.startswith(PREFIXES)}
        self.sources |= {c for _, c in facts.nodes(ast.Call) if isinstance(c.func, ast.Attribute) and c.func.attr == "elapsed_time"}  # type: ignore[attr-defined, misc]
        self.names: set[tuple[object, str]] = set()
        """Variables by scope, attributes by class (or None), that hold such values."""
        self.functions: set[ast.AST] = set()
        self.names |= set(_set_by_signals(facts))
        while self._spread():
            pass

    def differs(self, node: ast.AST) -> bool:
        """Whether the value of the expression `node` may differ between processes."""
        return bool(self.sources or self.names) and any(self._is_source(inner) for inner in ast.walk(node))

    def _is_source(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Call):
            return node in self.sources or any(f in self.functions for f in self.facts.callees.get(node, ()))
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            return _key(self.facts, node) in self.names
        return False

    def _spread(self) -> bool:
        """One round of following assignments and returns; whether it found anything new."""
        before = len(self.names) + len(self.functions)
        for _, node in self.facts.nodes(ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr, ast.Return):
            value = node.value  # type: ignore[attr-defined]
            if value is None or not self.differs(value) or self._is_result(value):
                continue
            if isinstance(node, ast.Return):
                self.functions.add(self.facts.function(node))
                continue
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:  # type: ignore[attr-defined]
                for element in target.elts if isinstance(target, ast.Tuple) else [target]:
                    self.names |= _keys(self.facts, element)
        return len(self.names) + len(self.functions) > before

    def _is_result(self, value: ast.expr) -> bool:
        """Whether `value` is what the program works on, with a time beside it: rows, losses, models, texts."""
        if isinstance(value, ast.JoinedStr | ast.Dict | ast.Tuple | ast.List | ast.Constant):
            return True
        if isinstance(value, ast.Call) and value not in self.sources:
            return not self._computes(value)
        return self.facts.is_local(value)

    def _computes(self, call: ast.Call) -> bool:
        """Whether `call` makes a number of the numbers it is given."""
        functions = self.facts.callees.get(call, set())
        if functions:
            return not self.facts.is_local(call) and not any(runs_models(self.facts, f) for f in functions)
        return self.facts.external.get(call, "") in NUMBERS or (isinstance(call.func, ast.Attribute) and call.func.attr in {"total_seconds", "timestamp"})


def _key(facts: Facts, node: ast.AST) -> tuple[object, str] | None:
    """What stands for the variable or attribute `node`."""
    if isinstance(node, ast.Name):
        scope = facts.scope(node)
        return scope.owner(node.id) or scope, node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return (facts.scope(node).enclosing_class if node.value.id == "self" else None), f".{node.attr}"
    return None


def _keys(facts: Facts, target: ast.AST) -> set[tuple[object, str]]:
    """What may stand for the assigned `target` where it is read: an attribute of `self` is read from outside, too."""
    key = _key(facts, target)
    return set() if key is None else {key, (None, key[1])} if key[1].startswith(".") else {key}


def _set_by_signals(facts: Facts) -> Iterator[tuple[object, str]]:
    """What the handlers of `signal.signal` assign: a signal reaches the processes at different steps."""
    for call, name in facts.external.items():
        if name != "signal.signal" or len(call.args) < 2:
            continue
        handlers = [v.node for v in facts.of(call.args[1]) if hasattr(v, "node")]
        for handler in handlers:
            for node in ast.walk(handler):
                if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                    yield from (key for key in _keys(facts, node) if key[0] is not facts.scopes.get(handler))
