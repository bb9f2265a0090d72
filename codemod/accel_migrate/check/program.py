"""An accelerated program as the rules see it: who is an accelerator, what was prepared, which calls are collective."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from accel_migrate.check.around import Around
from accel_migrate.check.bare import is_surely_prepared
from accel_migrate.check.flow import Flow
from accel_migrate.check.frozen import frozen_models, tables_of_models
from accel_migrate.check.rank_conditions import RankConditions
from accel_migrate.check.reach import Reach
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.prepared import GATHERING
from accel_migrate.facts.values import Instance, Made, Role
from accel_migrate.source import Source

LIBRARIES = ("accelerate", "accel_runtime")
STATES = {
    f"{library}{module}.{name}"
    for library in LIBRARIES
    for module in ("", ".state")
    for name in ("PartialState", "AcceleratorState")
}
PASSED_OVER = {("accelerate", "split_batches")}
"""Arguments of a library's `Accelerator(...)` that have no effect there; the objects that it is given have them, too."""
_ACCELERATOR = {f"{library}{module}.Accelerator" for library in LIBRARIES for module in ("", ".accelerator")}


@dataclass(frozen=True, eq=False)
class Preparation:
    """One object that is prepared."""

    call: ast.Call
    argument: ast.expr
    index: int


@dataclass(eq=False)
class Program(Around):
    """The facts of one program, and the questions that several rules ask of it."""

    facts: Facts

    @cached_property
    def library(self) -> str:
        """The library with which it is accelerated; empty where it is with none."""
        for source in self.facts.sources:
            for node in source.index.of_kind(ast.Import, ast.ImportFrom):
                names = (
                    [alias.name for alias in node.names]
                    if isinstance(node, ast.Import)
                    else [getattr(node, "module", None) or ""]
                )
                found = [name.partition(".")[0] for name in names if name.partition(".")[0] in LIBRARIES]
                if found:
                    return found[0]
        return ""

    @cached_property
    def wraps(self) -> bool:
        """Whether `prepare` returns a wrapper instead of the model itself, on several processes."""
        return (
            self.library == "accelerate"
            and self.setting("parallelism_config") is None
            and ast.unparse(self.setting("fsdp_version") or ast.Constant(1)) != "2"
        )

    # -- accelerators -------------------------------------------------------------------------------
    @cached_property
    def makers(self) -> list[ast.Call]:
        """The calls `Accelerator(...)`."""
        return [call for call, name in self.facts.external.items() if name in _ACCELERATOR]

    def setting(self, name: str) -> ast.expr | None:
        """The argument `name` of `Accelerator(...)`, or of an object that it is given; none that the library passes over."""
        for call in self.makers if (self.library, name) not in PASSED_OVER else ():
            for keyword in call.keywords:
                if keyword.arg == name:
                    return keyword.value
        return next((k.value for c in self.configurations for k in c.keywords if k.arg == name), None)

    @cached_property
    def configurations(self) -> list[ast.Call]:
        """Calls that make settings: `DataLoaderConfiguration(...)`, `GradientAccumulationPlugin(...)`."""
        kinds = ("Configuration", "Plugin", "Kwargs", "Config")
        return [
            call for call, name in self.facts.external.items() if name.startswith(LIBRARIES) and name.endswith(kinds)
        ]

    def is_on(self, name: str) -> bool:
        """Whether the setting `name` is a constant that holds."""
        value = self.setting(name)
        return isinstance(value, ast.Constant) and bool(value.value)

    def is_accelerator(self, node: ast.expr) -> bool:
        """Whether `node` is an accelerator, or a state that knows the processes."""
        if self.facts.has_role(node, Role.ACCELERATOR) or any(self._is_state(v) for v in self.facts.of(node)):
            return True
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        return name in {"accelerator", "acc"} and not self.facts.of(node)

    def _is_state(self, value: object) -> bool:
        return (
            isinstance(value, Made)
            and isinstance(value.site, ast.Call)
            and self.facts.external.get(value.site) in STATES
        )

    @cached_property
    def accelerator_calls(self) -> dict[ast.Call, str]:
        """Calls of the methods of accelerators, with the method's name."""
        calls = (node for _, node in self.facts.nodes(ast.Call))
        found: dict[ast.Call, str] = {}
        for call in calls:
            func = call.func  # type: ignore[attr-defined]
            if isinstance(func, ast.Attribute) and self.is_accelerator(func.value) and not self.facts.is_dead(call):
                found[call] = func.attr  # type: ignore[index]
        return found

    def calls_of(self, *methods: str) -> Iterator[ast.Call]:
        """Calls of these methods of accelerators."""
        return (call for call, method in self.accelerator_calls.items() if method in methods)

    def functions_of(self, *names: str) -> Iterator[ast.Call]:
        """Calls of library functions whose full name, or last part of it, is among `names`."""
        wanted = set(names)
        return (
            call
            for call, name in self.facts.external.items()
            if name in wanted or (name.rpartition(".")[2] in wanted and "." in name)
        )

    # -- what is prepared ---------------------------------------------------------------------------
    @cached_property
    def preparations(self) -> list[Preparation]:
        """Everything that is prepared, argument by argument, in the order of the text."""
        methods = ("prepare", "prepare_model", "prepare_optimizer", "prepare_data_loader", "prepare_scheduler")
        found = [
            Preparation(call, argument, index)
            for call in self.calls_of(*methods)
            for index, argument in enumerate(call.args[: None if self.accelerator_calls[call] == "prepare" else 1])
        ]
        return sorted(found, key=lambda p: (str(self.source(p.call).path), p.call.lineno, p.index))

    def is_prepared(self, node: ast.AST) -> bool:
        """Whether `node` is surely what `prepare` returned."""
        return is_surely_prepared(self, node)

    def is_model(self, node: ast.AST) -> bool:
        """Whether `node` is a model; an optimizer of the project's may derive from `nn.Module`, too."""
        found = [v for v in self.facts.of(node) if self.facts.role(v) is Role.MODEL and not self._steps(v)]
        return any(not self.made(v) & self.tables for v in found)

    def made(self, value: object) -> set[ast.AST]:
        """Where `value` was made; of an object that `prepare` shows to be a model: where what it was given was made."""
        site = getattr(value, "site", None)
        if isinstance(value, Made) and value.detail == "prepared" and site is not None:
            others = (v for v in self.facts.of(site) if getattr(v, "detail", "") != "prepared")
            return {s for v in others if (s := getattr(v, "site", None)) is not None} or {site}
        return {site} if site is not None else set()

    @cached_property
    def tables(self) -> set[ast.AST]:
        """Where tables of models were made that only look like a model by their name."""
        return tables_of_models(self)

    def _steps(self, value: object) -> bool:
        methods = {s.name for s in value.cls.node.body if isinstance(s, ast.FunctionDef)} if isinstance(value, Instance) else set()
        return {"step", "zero_grad"} <= methods

    def is_prepared_model(self, node: ast.AST) -> bool:
        """Whether `node` is what `prepare` made of a model with parameters to train: a frozen one it hands back as it is."""
        return self.is_prepared(node) and self.is_model(node) and not self.is_frozen(node)

    def is_frozen(self, node: ast.AST) -> bool:
        """Whether `node` holds nothing but models without a parameter to train."""
        made = {s for v in self.facts.of(node) for s in self.made(v)} if self.frozen else set()
        return bool(made) and made <= self.frozen

    @cached_property
    def frozen(self) -> set[ast.AST]:
        """Where models were made that have nothing to train; `accel_runtime` wraps none at all."""
        return frozen_models(self) if self.library == "accelerate" else set()

    def sites(self, node: ast.AST) -> set[ast.AST]:
        """Where the objects that `node` may be were made."""
        return {site for v in self.facts.of(node) if (site := getattr(v, "site", None)) is not None}

    def prepared_sites(self, role: Role) -> set[ast.AST]:
        """Where the prepared objects of `role` were made."""
        return {v.site for p in self.preparations for v in self.facts.of(p.argument) if self.facts.role(v) is role}  # type: ignore[union-attr]

    def is_gathered(self, node: ast.AST) -> bool:
        """Whether `node` is a call whose result is the same on all processes."""
        return isinstance(node, ast.Call) and (node in self.reach.collectives or self.method(node) in GATHERING or self.reach.gathers(node))

    def is_own_loss(self, node: ast.AST) -> bool:
        """Whether `node` is the variable of which `backward` is called in its function: the loss of this process's samples."""
        key = self.flow.key(node) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else None
        around = (a for a in self.facts.ancestors(node) if isinstance(a, ast.expr)) if key is not None else ()
        if key is None or any(map(self.is_gathered, (*self.flow.assigned.get(key, ()), *around))):
            return False
        passes = (c for c in self.calls_of("backward") if c.args and self.facts.function(c) is self.facts.function(node))
        return any(isinstance(c.args[0], ast.Name) and self.flow.key(c.args[0]) == key for c in passes)

    def calls_in(self, node: ast.AST, *methods: str) -> list[ast.Call]:
        """Calls of these methods of accelerators that running `node` comes to."""
        return [call for call in self.reach.calls(node) if self.accelerator_calls.get(call) in methods]

    # -- helpers --------------------------------------------------------------------------------------
    @cached_property
    def reach(self) -> Reach:
        """What is reached through calls."""
        return Reach(self)

    @cached_property
    def ranks(self) -> RankConditions:
        """Which code runs on some processes only."""
        return RankConditions(self)

    @cached_property
    def flow(self) -> Flow:
        """Which values go where, by name."""
        return Flow(self.facts)

    def source(self, node: ast.AST) -> Source:
        return self.facts.source(node)

    def where(self, node: ast.AST) -> str:
        """The place of `node` as messages name it."""
        return self.source(node).where(node.lineno)  # type: ignore[attr-defined]

    def method(self, call: ast.Call) -> str:
        """The last part of what is called."""
        return (
            call.func.attr
            if isinstance(call.func, ast.Attribute)
            else call.func.id
            if isinstance(call.func, ast.Name)
            else ""
        )
