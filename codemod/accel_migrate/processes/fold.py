"""A distributed branch that a flag turns on goes: the program that is left runs as one process, and migrates as such.

What decides whether the branch runs are *switches*: command line flags, their combinations, the number of devices. With
all of them off, conditions on them are constants.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from accel_migrate.edits import (
    DeleteStatement,
    Edit,
    Finding,
    RemoveArgument,
    ReplaceExpression,
    Severity,
    UnwrapStatement,
)
from accel_migrate.facts import catalog
from accel_migrate.facts.distributed import When, conditions, process_group_calls, ranks_of, training_starts, when
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.off import Off
from accel_migrate.facts.rank_names import Kind
from accel_migrate.facts.ranks import Place, Ranks, argument_name
from accel_migrate.facts.scopes import Scope
from accel_migrate.processes.paragraphs import delete
from accel_migrate.processes.settings import settings_of_groups, talk_of_settings

ID = "hand-made-ddp"
WHY = "accel launch starts the processes: the branch that a flag turned on goes"
DEVICES: Place = ("the number of devices", "")
SAMPLER_ARGUMENTS = {"sampler", "batch_sampler"}


@dataclass(eq=False)
class Folding:
    """`edits(facts)` gives one round; what earlier rounds found out is kept."""

    switches: set[str] = field(default_factory=set)
    """Attributes (`.distributed`) and variables (`main distributed`) that turn distributed branches on."""
    samplers: set[str] = field(default_factory=set)
    """Variables that held a distributed sampler."""
    settings: set[str] = field(default_factory=set)
    """Attributes and variables that say how the process group is made: backend, address."""
    findings: list[Finding] = field(default_factory=list)

    def edits(self, facts: Facts) -> list[Edit]:
        ranks = ranks_of(facts)
        self._find_switches(facts, ranks)
        if not self.switches:
            return []
        self.samplers |= _held_samplers(facts, ranks)
        wanted = {place for place in {DEVICES, *ranks.sources, *_arguments(facts)} if _name(place) in self.switches}
        off = Off(facts, ranks, wanted)
        self.settings |= {_name(place) for place in settings_of_groups(facts, ranks)}
        folded = list(_folded(facts, off))
        gone = {edit.node for edit in folded if isinstance(edit, DeleteStatement | UnwrapStatement)}
        pointless = [e for e in self._about_settings(facts, ranks) if not any(facts.inside(e.node, g) for g in gone)]
        return [*folded, *pointless, *_without_samplers(facts, ranks, self.samplers)]

    def _about_settings(self, facts: Facts, ranks: Ranks) -> list[DeleteStatement]:
        places = {place for place in {*ranks.sources, *_arguments(facts)} if _name(place) in self.settings}
        return [delete(facts, node, ID, WHY) for node in talk_of_settings(facts, ranks, places)]

    def _find_switches(self, facts: Facts, ranks: Ranks) -> None:
        groups = process_group_calls(facts)
        if any(when(facts, call) is not When.ASKED for call in groups):
            return
        for call in (*groups, *training_starts(facts)):
            if when(facts, call) is not When.ASKED:
                continue
            found = switches(facts, ranks, call)
            new = {_name(place) for place in found}
            if new - self.switches:
                self.findings.append(_said(facts, call, {str(p[1]) for p in found}))
            self.switches |= new


def switches(facts: Facts, ranks: Ranks, call: ast.Call) -> set[Place]:
    """The places that keep `call` from running when they are off; empty where other conditions decide."""
    off = Off(facts, ranks)
    found: set[Place] = set()
    for test, wanted in conditions(facts, call):
        for part in _conjuncts(test) if wanted else [test]:
            off.read = set()
            if off.truth(part) is (not wanted):
                found |= off.read or {DEVICES}
    return found


def _conjuncts(test: ast.expr) -> list[ast.expr]:
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]


def _name(place: Place) -> str:
    owner = place[0]
    if isinstance(owner, Scope):
        return f"{owner.source.path}:{getattr(owner.node, 'name', '')} {place[1]}"
    return f"{owner} {place[1]}"


def _arguments(facts: Facts) -> Iterator[Place]:
    return (("attribute", name) for _, node in facts.nodes(ast.Call) if (name := argument_name(node)))  # type: ignore[arg-type]


def _said(facts: Facts, call: ast.Call, names: set[str]) -> Finding:
    shown = ", ".join(f"`{n}`" for n in sorted(names) if n) or "the number of devices"
    return Finding(
        source=facts.source(call), node=call, rule=ID, severity=Severity.INFO,
        message=f"the branches that {shown} turned on are gone: accel launch starts the processes, and the batch size is that of all of them together",
        advice="start it with accel launch --num_processes N, without the flags for processes, ranks and addresses",
    )  # fmt: skip


# -- conditions that became constants -------------------------------------------------------------------
def _folded(facts: Facts, off: Off) -> Iterator[Edit]:
    done: set[ast.AST] = set()
    gone: set[ast.AST] = set()
    for source in facts.sources:
        for node in _outermost_first(source.tree):
            if node in gone or any(a in done or a in gone for a in facts.ancestors(node)):
                continue
            edit = _fold(facts, off, node)
            if edit is not None:
                done.add(node)
                yield edit
                below = list(_unreachable(facts, edit))
                gone.update(e.node for e in below)
                yield from below


def _outermost_first(tree: ast.Module) -> Iterator[ast.If | ast.IfExp | ast.BoolOp]:
    return (n for n in ast.walk(tree) if isinstance(n, ast.If | ast.IfExp | ast.BoolOp))


def _fold(facts: Facts, off: Off, node: ast.If | ast.IfExp | ast.BoolOp) -> Edit | None:
    source = facts.source(node)
    if isinstance(node, ast.BoolOp):
        return _added_nothing(facts, off, node) or _shortened(facts, off, node)
    truth = off.truth(node.test) if _depends(off, node.test) else None
    if truth is None:
        return None
    if isinstance(node, ast.IfExp):
        return ReplaceExpression(source=source, rule=ID, why=WHY, node=node, template="{x}", parts={"x": node.body if truth else node.orelse})
    if truth:
        return UnwrapStatement(source=source, rule=ID, why=WHY, node=node)
    if node.orelse:
        return UnwrapStatement(source=source, rule=ID, why=WHY, node=node, branch="orelse")
    return delete(facts, node, ID, WHY) if not _is_elif(facts, node) else UnwrapStatement(source=source, rule=ID, why=WHY, node=node, branch="orelse")


def _unreachable(facts: Facts, edit: Edit) -> Iterator[DeleteStatement]:
    """What stands below a branch that always runs now and returns."""
    if not isinstance(edit, UnwrapStatement) or not isinstance(edit.node, ast.If) or _is_elif(facts, edit.node):
        return
    branch = edit.node.body if edit.branch == "body" else edit.node.orelse
    if branch and isinstance(branch[-1], ast.Return | ast.Raise):
        block = facts.block(edit.node)
        for statement in block[block.index(edit.node) + 1 :]:
            yield DeleteStatement(source=edit.source, rule=ID, why=WHY, node=statement, with_comment=True)


def _is_elif(facts: Facts, node: ast.If) -> bool:
    parent = facts.parents[node]
    return isinstance(parent, ast.If) and parent.orelse == [node] and parent.col_offset == node.col_offset


def _depends(off: Off, test: ast.expr) -> bool:
    """Whether `test` asks for a switch, a rank or a number of processes, and not for constants of the script."""
    for node in ast.walk(test):
        if isinstance(node, ast.expr) and ((place := off.ranks.place(node)) is not None and place in (off.switches or ())):
            return True
        meaning = off.ranks.of(node) if isinstance(node, ast.expr) else None
        if meaning is not None and (off.value(node) is not None or (meaning.kind is Kind.LOCAL_WORLD and DEVICES in (off.switches or ()))):  # type: ignore[arg-type]
            return True
    return False


def _added_nothing(facts: Facts, off: Off, node: ast.BoolOp) -> Edit | None:
    """`len(loader) + (switch and more)` is `len(loader)`."""
    parent = facts.parents[node]
    if not isinstance(parent, ast.BinOp) or not isinstance(parent.op, ast.Add) or not _depends(off, node) or off.truth(node) is not False:
        return None
    other = parent.left if parent.right is node else parent.right
    return ReplaceExpression(source=facts.source(node), rule=ID, why=WHY, node=parent, template="{x}", parts={"x": other})


def _shortened(facts: Facts, off: Off, node: ast.BoolOp) -> Edit | None:
    """`switch_is_on or x` is `x`."""
    neutral = isinstance(node.op, ast.And)
    kept = [v for v in node.values if not (_depends(off, v) and off.truth(v) is neutral)]
    if len(kept) == len(node.values) or not kept or (_depends(off, node) and off.truth(node) is not None):
        return None
    word = " and " if neutral else " or "
    parts: dict[str, ast.AST] = {f"x{i}": value for i, value in enumerate(kept)}
    return ReplaceExpression(source=facts.source(node), rule=ID, why=WHY, node=node, template=word.join(f"{{{k}}}" for k in parts), parts=parts)  # type: ignore[arg-type]


# -- samplers that are None now ---------------------------------------------------------------------------
def _held_samplers(facts: Facts, ranks: Ranks) -> set[str]:
    """Variables into which a distributed sampler is put."""
    found: set[str] = set()
    for call, name in facts.external.items():
        parent = facts.parents[call]
        while isinstance(parent, ast.IfExp):
            parent = facts.parents[parent]
        if name in catalog.DISTRIBUTED_SAMPLERS and isinstance(parent, ast.Assign):
            found |= {_name(place) for target in parent.targets if (place := ranks.place(target)) is not None}
    return found


def _without_samplers(facts: Facts, ranks: Ranks, names: set[str]) -> Iterator[Edit]:
    """`shuffle=(sampler is None), sampler=sampler` of a sampler that is always None is `shuffle=True`."""
    gone = {place for place, values in ranks.sources.items() if _name(place) in names and all(_is_none(v) for v in values)}
    for source, node in facts.nodes(ast.Compare, ast.Call) if gone else ():
        if isinstance(node, ast.Compare) and ranks.place(node.left) in gone and _is_none(node.comparators[-1]) and isinstance(node.ops[0], ast.Is | ast.IsNot):
            yield _answered(facts, node, isinstance(node.ops[0], ast.Is))
        elif isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg in SAMPLER_ARGUMENTS and ranks.place(keyword.value) in gone:
                    yield RemoveArgument(source=source, rule=ID, why=WHY, node=node, argument=keyword.value)
    for source, node in facts.nodes(ast.Assign) if gone else ():
        assert isinstance(node, ast.Assign)
        if len(node.targets) == 1 and ranks.place(node.targets[0]) in gone and not _is_read_elsewhere(facts, ranks, node.targets[0]):
            yield DeleteStatement(source=source, rule=ID, why=WHY, node=node)


def _answered(facts: Facts, node: ast.Compare, answer: bool) -> Edit:
    """`node` is `answer`; `shuffle and True` is `shuffle`."""
    parent, source = facts.parents[node], facts.source(node)
    if isinstance(parent, ast.BoolOp) and len(parent.values) == 2 and isinstance(parent.op, ast.And) is answer:
        other = next(v for v in parent.values if v is not node)
        return ReplaceExpression(source=source, rule=ID, why=WHY, node=parent, template="{x}", parts={"x": other})
    return ReplaceExpression(source=source, rule=ID, why=WHY, node=node, template=str(answer))


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _is_read_elsewhere(facts: Facts, ranks: Ranks, target: ast.expr) -> bool:
    """Whether the variable is read but where it is tested for None or handed to a loader."""
    place = ranks.place(target)
    for _, node in facts.nodes(ast.Name, ast.Attribute):
        if not isinstance(node.ctx, ast.Load) or ranks.place(node) != place:  # type: ignore[attr-defined, arg-type]
            continue
        parent = facts.parents[node]
        handed = isinstance(parent, ast.keyword) and parent.arg in SAMPLER_ARGUMENTS
        if not handed and not (isinstance(parent, ast.Compare) and parent.left is node):
            return True
    return False
