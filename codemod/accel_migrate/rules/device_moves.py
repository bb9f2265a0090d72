"""Moves of batches and models to the device vanish: `prepare` and the prepared loader see to them.

Other moves name the accelerator's device instead of CUDA.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, ReplaceStatement
from accel_migrate.facts import catalog
from accel_migrate.facts.gathered import is_hosted, later
from accel_migrate.facts.scopes import parameters
from accel_migrate.facts.values import Literal, Role, Values
from accel_migrate.processes.paragraphs import delete
from accel_migrate.rules._run_elsewhere import runs_elsewhere

ID = "device-moves"
TITLE = "Leave moving models and batches to the accelerator"
DEVICE_NAME = re.compile(r"(^|_)(device|dev|gpu|cuda|rank)(_?ids?)?$")
ABOUT_MOVES = re.compile(r"(?i)\b(device|gpus?|cuda|cpu|mov(e|es|ing)|transfer|put|send|push|load|copy)\b")
WHY = "prepared models and batches are on the accelerator's device already"


def apply(context: Context) -> Iterator[Edit | Finding]:
    removed: set[ast.Call] = set()
    parked = [call for call, (_, name) in context.facts.methods.items() if _parks(call, name)]
    for call, (base, name) in context.facts.methods.items():
        if name in {"to", "cuda"} and isinstance(call.func, ast.Attribute) and (name == "cuda" or _names_device(context, call)):
            if _handled(context, base) and not any(_comes_back(context, call, base, park) for park in parked) and not runs_elsewhere(context.facts, call, base):
                removed.add(call)
            elif name == "cuda":
                yield from _rename(context, call)
    removed |= set(_of_gathered(context))
    gone = removed | set(context.calls_of(*catalog.DATA_PARALLEL))
    vanish = {s for call in removed if _only_moves(s := context.facts.statement(call), gone) or _becomes_identity(s, gone)}
    for statement in sorted(vanish, key=lambda s: s.lineno):
        yield delete(context.facts, statement, ID, WHY, gone=vanish, about=ABOUT_MOVES)
    for call in removed:
        if context.facts.statement(call) not in vanish:
            yield from _drop(context, call, gone)
    yield from _equal_branches(context, gone)
    for call in context.calls_of("torch.cuda.set_device", "torch.accelerator.set_device_index", "torch.accelerator.set_device"):
        statement = context.facts.statement(call)
        if not any(context.facts.inside(statement, choice.statement) for choice in context.home.choices):
            yield delete(context.facts, statement, ID, "the accelerator picks the device")


def _parks(call: ast.Call, name: str) -> bool:
    """`model.cpu()`, `model.to("cpu")`."""
    return name == "cpu" or (name == "to" and any(isinstance(a, ast.Constant) and a.value == "cpu" for a in (*call.args, *(k.value for k in call.keywords))))


def _comes_back(context: Context, move: ast.Call, base: Values, park: ast.Call) -> bool:
    """Whether `move` may bring a model back from the CPU, where `park` put it: it stays."""
    facts = context.facts
    models = {v for v in base if facts.role(v) is Role.MODEL}
    if not models & facts.methods[park][0] or facts.function(move) is not facts.function(park):
        return False
    looped = any(facts.inside(park, a) for a in facts.ancestors(move) if isinstance(a, ast.For | ast.While))
    return looped or (park.lineno, park.col_offset) < (move.lineno, move.col_offset)


def _of_gathered(context: Context) -> Iterator[ast.Call]:
    """`y.to(device)` of rows that were gathered before, from where the prepared loader put them."""
    for gather in context.facts.gathers.values():
        hosted = {name for name in gather.names if is_hosted(context.facts, gather, name)}
        for node in later(context.facts, gather):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not isinstance(node.func.value, ast.Name):
                continue
            moves = node.func.attr == "cuda" or (node.func.attr == "to" and _names_device(context, node))
            if moves and node.func.value.id in hosted and not context.facts.of(node.func.value):
                yield node


def _equal_branches(context: Context, gone: set[ast.Call]) -> Iterator[Edit]:
    """`x.cuda() if use_cuda else x` is `x` once the move is gone."""
    for _, node in context.facts.nodes(ast.IfExp):
        assert isinstance(node, ast.IfExp)
        moved = any(n in gone for branch in (node.body, node.orelse) for n in ast.walk(branch))
        if moved and ast.unparse(_still(node.body, gone)) == ast.unparse(_still(node.orelse, gone)):
            yield context.replace(ID, node, "{x}", WHY, x=node.orelse)


def _still(value: ast.expr, gone: set[ast.Call]) -> ast.expr:
    """What is left of `value` when the calls around it are gone."""
    while isinstance(value, ast.Call) and value in gone:
        if isinstance(value.func, ast.Attribute) and _kept_arguments(value):
            break
        moved = isinstance(value.func, ast.Attribute) and value.func.attr in {"to", "cuda"}
        value = value.func.value if moved else value.args[0]  # type: ignore[attr-defined]
    return value


def _handled(context: Context, base: Values) -> bool:
    """Whether everything in `base` is a prepared model, or comes out of a prepared loader as it is."""
    facts = context.facts
    if Role.LOADER in context.left_out and any(hasattr(v, "spread") for v in base):
        return False
    known = [v for v in base if facts.role(v) is Role.MODEL or hasattr(v, "spread")]
    if not known or len(known) < len([v for v in base if not isinstance(v, Literal)]):
        return False
    return all(v.host if hasattr(v, "spread") else v.site in context.trained - facts.copied_models for v in known)  # type: ignore[union-attr]


def _names_device(context: Context, call: ast.Call) -> bool:
    """Whether the arguments of `.to(...)` name a device (and not only a type or another tensor)."""
    candidates = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "device")]
    for node in candidates:
        if context.facts.has_role(node, Role.DEVICE):
            return not (isinstance(node, ast.Constant) and node.value == "cpu")
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        numbered = any(isinstance(v, Literal) and type(v.value) is int for v in context.facts.of(node))
        if numbered or DEVICE_NAME.search(name.lower()):
            return True
    return False


def _drop(context: Context, call: ast.Call, removed: set[ast.Call]) -> Iterator[Edit]:
    assert isinstance(call.func, ast.Attribute)
    statement = context.facts.statement(call)
    if _inside_comprehension(context, call):
        yield from _drop_copy(context, call, removed)
    elif (rest := _other_pairs(statement, call, removed)) is not None:
        yield from _keep_pairs(context, statement, call, rest, removed)
    elif not _is_helper(context, call, statement):
        kept = _kept_arguments(call)
        arguments = ", ".join(f"{name}={{k{i}}}" if name else f"{{k{i}}}" for i, (name, _) in enumerate(kept))
        template = f"{{x}}.to({arguments})" if kept else "{x}"
        yield context.replace(ID, call, template, WHY, x=call.func.value, **{f"k{i}": node for i, (_, node) in enumerate(kept)})


Pairs = list[tuple[ast.expr, ast.expr]]


def _other_pairs(statement: ast.stmt, call: ast.Call, removed: set[ast.Call]) -> Pairs | None:
    """What is left of `x, y = x.to(device), y.to(device).long()` if `call` is in a part that becomes `x = x`; else None."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target, value = statement.targets[0], statement.value
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple) or len(target.elts) != len(value.elts):
        return None
    pairs = list(zip(target.elts, value.elts, strict=True))
    inside = any(call in set(ast.walk(v)) and _same(t, v, removed) for t, v in pairs)
    return [(t, v) for t, v in pairs if not _same(t, v, removed)] if inside else None


def _keep_pairs(context: Context, statement: ast.stmt, call: ast.Call, pairs: Pairs, removed: set[ast.Call]) -> Iterator[Edit]:
    """Writes what is left, once for all moves in `statement` that go."""
    first = min((c for c in removed if context.facts.statement(c) is statement and _other_pairs(statement, c, removed) is not None), key=lambda c: c.col_offset)
    if call is first:
        targets, values = (", ".join(f"{{{side}{i}}}" for i in range(len(pairs))) for side in "tv")
        parts = {f"{side}{i}": node for i, pair in enumerate(pairs) for side, node in zip("tv", pair, strict=True)}
        yield ReplaceStatement(source=context.source(call), rule=ID, why=WHY, node=statement, template=f"{targets} = {values}", parts=parts)


def _only_moves(statement: ast.stmt, removed: set[ast.Call]) -> bool:
    """Whether `statement` is a move alone, or several beside each other: `a.cuda(), b.cuda()`."""
    if not isinstance(statement, ast.Expr):
        return False
    parts = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
    return all(part in removed for part in parts)


def _kept_arguments(call: ast.Call) -> list[tuple[str | None, ast.expr]]:
    """What `.to(device, ...)` changes besides the device: the type, the layout of memory."""
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr != "to":
        return []
    names_device = any(k.arg == "device" for k in call.keywords)
    positional = [(None, a) for a in call.args[0 if names_device else 1 :][:1] if not isinstance(a, ast.Constant)]
    return [*positional, *((k.arg, k.value) for k in call.keywords if k.arg in {"dtype", "memory_format"})]


def _drop_copy(context: Context, call: ast.Call, removed: set[ast.Call]) -> Iterator[Edit]:
    """`{k: v.to(device) for k, v in batch.items()}` is `batch`, where only moves made it a copy; so is what is unpacked at once."""
    copy = context.facts.parents[call]
    if isinstance(copy, ast.ListComp | ast.GeneratorExp):
        iterated = copy.generators[0].iter
        if _is_unpacked(context, copy) and _copies(iterated, copy, removed):
            yield context.replace(ID, copy, "{x}", WHY, x=iterated)
        return
    if not isinstance(copy, ast.DictComp) or not isinstance(context.facts.parents[copy], ast.Assign):
        return
    source = copy.generators[0].iter
    if isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute) and _copies(source.func.value, copy, removed):
        yield context.replace(ID, copy, "{x}", WHY, x=source.func.value)


def _is_unpacked(context: Context, copy: ast.expr) -> bool:
    """`x, y = [...]`: what kind of sequence it was is never seen."""
    statement = context.facts.parents[copy]
    return isinstance(statement, ast.Assign) and statement.value is copy and all(isinstance(t, ast.Tuple | ast.List) for t in statement.targets)


def _inside_comprehension(context: Context, call: ast.Call) -> bool:
    """`[t.to(device) for t in batch]` without the move would be a strange copy; the move is harmless."""
    parent = context.facts.parents[call]
    return isinstance(parent, ast.ListComp | ast.DictComp | ast.GeneratorExp | ast.SetComp)


def _is_helper(context: Context, call: ast.Call, statement: ast.stmt) -> bool:
    """`def to_device(x, device): return x.to(device)` would be strange without the move, which is harmless."""
    assert isinstance(call.func, ast.Attribute)
    function = context.facts.function(call)
    named = {p.arg for p in parameters(function)} if isinstance(function, ast.FunctionDef) else set()
    moved = ast.unparse(call.func.value)
    return isinstance(statement, ast.Return) and statement.value is call and moved in named


def _becomes_identity(statement: ast.stmt, removed: set[ast.Call]) -> bool:
    """Whether `statement` assigns something to itself once the moves are gone."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return all(_same(t, v, removed) for t, v in zip(target.elts, value.elts, strict=True))
    return _same(target, value, removed)


def _same(target: ast.expr, value: ast.expr, removed: set[ast.Call]) -> bool:
    if isinstance(value, ast.DictComp | ast.ListComp):
        return _copies(target, value, removed)
    kept = _still(value, removed)
    if isinstance(kept, ast.IfExp) and ast.unparse(_still(kept.body, removed)) == ast.unparse(_still(kept.orelse, removed)):
        kept = _still(kept.orelse, removed)
    return ast.unparse(target) == ast.unparse(kept)


def _copies(target: ast.expr, value: ast.DictComp | ast.ListComp | ast.GeneratorExp, removed: set[ast.Call]) -> bool:
    """`batch = {k: v.to(device) for k, v in batch.items()}`."""
    generator = value.generators[0]
    if len(value.generators) > 1 or generator.ifs:
        return False
    if isinstance(value, ast.ListComp | ast.GeneratorExp):
        return _same(generator.target, value.elt, removed) and ast.unparse(generator.iter) == ast.unparse(target)
    pair = generator.target
    return (
        isinstance(pair, ast.Tuple) and len(pair.elts) == 2
        and _same(pair.elts[0], value.key, removed) and _same(pair.elts[1], value.value, removed)
        and ast.unparse(generator.iter) == f"{ast.unparse(target)}.items()"
    )  # fmt: skip


def _rename(context: Context, call: ast.Call) -> Iterator[Edit]:
    """`x.cuda()` of something that is not prepared becomes `x.to(accelerator.device)`."""
    assert isinstance(call.func, ast.Attribute)
    text, imports = context.say_anywhere("@accelerator@.device", call, ID)
    keywords = "".join(f", {k.arg}={ast.unparse(k.value)}" for k in call.keywords if k.arg == "non_blocking")
    yield context.replace(ID, call, f"{{x}}.to({text}{keywords})", "one device per process", x=call.func.value)
    yield from imports
