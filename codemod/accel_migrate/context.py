"""What a rule is given: the facts, the options, the dialect, the way to the accelerator, and a few shared questions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from accel_migrate.access import Access, Unreachable
from accel_migrate.dialects import ACCELERATOR, Dialect
from accel_migrate.edits import AddImport, Edit, Inner, ReplaceExpression
from accel_migrate.facts.accelerated import has_method
from accel_migrate.facts.device import DeviceChoice
from accel_migrate.facts.device_text import comes_from, is_numbered, text_choices
from accel_migrate.facts.distributed import is_distributed
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.home import Home
from accel_migrate.facts.meetings import Meetings
from accel_migrate.facts.models import enclosing_model
from accel_migrate.facts.row_loops import RowLoops
from accel_migrate.facts.unused import unused_functions
from accel_migrate.facts.values import Local, Role, Spread
from accel_migrate.notebook.launch import Launch
from accel_migrate.result import Options
from accel_migrate.source import Source

if TYPE_CHECKING:
    from accel_migrate.states.conversion import States


@dataclass(eq=False)
class Context:
    """Shared by all rules of one run; rules only read it."""

    facts: Facts
    options: Options
    dialect: Dialect
    home: Home
    """Where the accelerator is made."""
    notes: list[str] = field(default_factory=list)
    launch: Launch | None = None
    """In a notebook, what is launched on several processes."""

    def __post_init__(self) -> None:
        self.accelerator = Access(self.facts, self.home)
        """`context.accelerator(node)`: the accelerator as it is called at `node`."""
        self.distributed = is_distributed(self.facts) or self.home.existing
        """Whether the script is written for several processes already: what it shows and saves is its own affair."""
        self.left_out = {Role.SCHEDULER} if self.distributed else set[Role]()
        """What stays as it is instead of being prepared: a script for several processes counts their steps itself."""
        if self.distributed and self.dialect.cuts_again and not self.home.existing:
            self.left_out.add(Role.LOADER)  # it shares out its samples itself
        if self.home.existing and has_method(self.facts, "prepare"):
            self.left_out |= {Role.MODEL, Role.OPTIMIZER, Role.LOADER}  # the script prepares what it wants
        self.trained = self.facts.trained_models()
        self.device_texts = text_choices(self.facts, self.home.choices)
        """Choices of a device whose name, and not a `torch.device`, is needed."""
        self.unused = unused_functions(self.facts, self.home.scope)
        self.row_loops = RowLoops(self.facts)
        self.meetings = Meetings(self.facts)
        self.settings: dict[str, str] = {}
        """Arguments of `Accelerator(...)` which rules ask for: name -> expression."""
        self.needs: list[ast.expr] = []
        """Expressions of the script that those arguments read."""

    @cached_property
    def states(self) -> States:
        """The checkpoints that become states of the accelerator: none, unless asked for."""
        from accel_migrate.states.conversion import states

        return states(self)

    def reaches_training(self) -> bool:
        """Whether the accelerator can be had at every backward pass and evaluation loop."""
        places: list[ast.AST] = [b.call for b in self.facts.backwards.values() if b.with_loader]
        used = [place for place in (*places, *self.facts.gathers, *self.facts.cuts) if not self.is_unused(place)]
        try:
            for place in used:
                self.accelerator(place)
        except Unreachable:
            return False
        return any(place in places for place in used)

    def is_unused(self, node: ast.AST) -> bool:
        """Whether `node` stands in a function which nothing in the program calls."""
        return not self.unused.isdisjoint((node, *self.facts.ancestors(node)))

    def source(self, node: ast.AST) -> Source:
        return self.facts.source(node)

    def say(self, template: str, node: ast.AST) -> str:
        """`template` with the accelerator as it is called at `node`.

        Raises:
            Unreachable: the accelerator cannot be had there.
        """
        return template.replace(ACCELERATOR, self.accelerator(node)) if ACCELERATOR in template else template

    def say_anywhere(self, template: str, node: ast.AST, rule: str) -> tuple[str, list[Edit]]:
        """Like `say`, with `PartialState()` where no other rule needs the accelerator; and the import which that needs."""
        try:
            if not self.accelerator.is_at_hand(node):
                raise Unreachable
            return self.say(template, node), []
        except Unreachable:
            source = self.source(node)
            wanted = AddImport(source=source, rule=rule, module=self.dialect.module, names=("PartialState",))
            return template.replace(ACCELERATOR, "PartialState()"), [wanted]

    def say_passed(self, template: str, node: ast.AST, rule: str) -> tuple[str, list[Edit]]:
        """Like `say`, with `PartialState()` where the accelerator cannot be passed to; and the import which that needs."""
        try:
            return self.say(template, node), []
        except Unreachable:
            return self.say_anywhere(template, node, rule)

    def say_or_import(self, template: str, node: ast.AST, rule: str) -> tuple[str, list[Edit]]:
        """Like `say`; in models, and where the accelerator cannot be had, with the runtime's function of that name.

        Raises:
            Unreachable: the dialect has no such functions.
        """
        try:
            if self.in_model(node) and self.dialect.functions:
                raise Unreachable
            return self.say(template, node), []
        except Unreachable:
            if not self.dialect.functions:
                raise
            bare = template.replace(f"{ACCELERATOR}.", "")
            return bare, [AddImport(source=self.source(node), rule=rule, module=self.dialect.module, names=(bare.partition("(")[0],))]

    def device_of(self, accelerator: str, choice: DeviceChoice) -> str:
        """What stands for the device of `choice`: the accelerator's, or its name where that is needed."""
        if choice not in self.device_texts:
            return f"{accelerator}.device"
        return f"str({accelerator}.device)" if is_numbered(choice) else f"{accelerator}.device.type"

    def device_at(self, accelerator: str, node: ast.AST) -> str:
        """What stands for `node`, which reads a chosen device."""
        texts = [choice for choice in self.device_texts if comes_from(self.facts, node, choice)]
        return self.device_of(accelerator, texts[0]) if texts else f"{accelerator}.device"

    def replace(self, rule: str, node: ast.expr, template: str, why: str = "", **parts: ast.AST | Inner) -> ReplaceExpression:
        return ReplaceExpression(source=self.source(node), rule=rule, why=why, node=node, template=template, parts=parts)

    def is_model(self, node: ast.expr) -> bool:
        return self.facts.has_role(node, Role.MODEL)

    def is_wrapped(self, node: ast.Attribute) -> bool:
        """Whether `node` is `model.module`, the model in a wrapper that goes away: an average of models keeps its `module`."""
        wrapped = node.attr == "module" and isinstance(node.ctx, ast.Load) and self.is_model(node.value)
        return wrapped and set(self.facts.of(node)) <= set(self.facts.of(node.value))

    def locals(self, node: ast.AST) -> list[Local]:
        return [v for v in self.facts.of(node) if isinstance(v, Local)]

    def is_batch(self, node: ast.expr) -> bool:
        """Whether `node` is (a part of) a batch of a prepared loader, or computed from one."""
        return any(v.spread is Spread.SHARD for v in self.locals(node))

    def is_prepared(self, node: ast.expr) -> bool:
        """Whether `node` is a model that an optimizer trains."""
        return any(self.facts.role(v) is Role.MODEL and v.site in self.trained for v in self.facts.of(node))  # type: ignore[union-attr]

    def in_model(self, node: ast.AST) -> bool:
        return enclosing_model(self.facts, node) is not None

    def calls_of(self, *names: str) -> Iterator[ast.Call]:
        """Calls of the library functions `names`."""
        wanted = set(names)
        return (call for call, name in self.facts.external.items() if name in wanted)
