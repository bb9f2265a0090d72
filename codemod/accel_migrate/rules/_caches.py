"""What is computed once and kept in a file: `if os.path.exists(path): load it; else: compute and write it`.

The processes would ask at the same time, and one of them might read what another is still writing. The main process goes
first: it computes and writes, and the others find the file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, WrapStatements
from accel_migrate.facts.diverging import LOOKED_UP
from accel_migrate.opened import OPENERS
from accel_migrate.side_effects import COMMANDS, is_guarded, opens_for_writing, runs_models

WHY = "the main process computes what is kept in the file, and the others read it"
HEADER = "with @accelerator@.main_process_first():"
WRITERS = {"torch.save": 1, "numpy.save": 0, "numpy.savez": 0, "joblib.dump": 1, "to_pickle": 0, "to_csv": 0, "to_parquet": 0}
"""Functions and methods that write a file -> which argument is its path."""
DOWNLOADS = {"urllib.request.urlretrieve", "torch.hub.download_url_to_file", "gdown.download", "wget.download", "torchvision.datasets.utils.download_url"}
READERS = {"torch.load", "numpy.load", "joblib.load", "pandas.read_pickle", "pandas.read_csv", "pandas.read_parquet"}


def go_first(context: Context, rule: str) -> Iterator[Edit]:
    for choice in caches(context):
        header, imports = context.say_anywhere(HEADER, choice, rule)
        yield WrapStatements(source=context.source(choice), rule=rule, why=WHY, nodes=(choice,), header=header)
        yield from imports


def caches(context: Context) -> Iterator[ast.If]:
    """Conditions on a file that one of their branches writes, and that is read in the other or below."""
    facts = context.facts
    for _, node in facts.nodes(ast.If):
        assert isinstance(node, ast.If)
        wanted = {ast.unparse(path) for path in _looked_up(context, node.test)}
        if not wanted or _is_branch(context, node) or facts.is_dead(node) or is_guarded(facts, node) or _is_held_back(context, node):
            continue
        if fetches(context, node):
            yield node
            continue
        branches = [node.body, node.orelse]
        writing = [branch for branch in branches if wanted & {text for s in branch for text in _written(context, s)}]
        if len(writing) != 1:
            continue
        block = facts.block(node)
        below = block[block.index(node) + 1 :]
        reading = [*(node.orelse if writing[0] is node.body else node.body), *below]
        if wanted & {text for s in reading for text in _read(context, s)} and not runs_models(facts, node):
            yield node


def fetches(context: Context, node: ast.If) -> bool:
    """`if not os.path.exists(path):` around nothing but a command, or a download, that makes what is missing, and lines that say so."""
    absent = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not) and not node.orelse
    runs = [c for s in node.body for c in ast.walk(s) if isinstance(c, ast.Call) and isinstance(context.facts.parents[c], ast.Expr)]
    commands = [c for c in runs if context.facts.external.get(c) in COMMANDS | DOWNLOADS]
    plain = all(isinstance(s, ast.Expr | ast.Import | ast.ImportFrom) for s in node.body)
    return absent and plain and bool(commands)


def _is_branch(context: Context, node: ast.If) -> bool:
    """Whether `node` is an `elif`."""
    parent = context.facts.parents[node]
    return isinstance(parent, ast.If) and parent.orelse == [node]


def _is_held_back(context: Context, node: ast.AST) -> bool:
    """Whether `node` runs again and again in a training, or waits for its turn already."""
    around = list(context.facts.ancestors(node))
    turns = any(isinstance(a, ast.With) and "process_first" in ast.unparse(a.items[0].context_expr) for a in around)
    return turns or any(isinstance(a, ast.For | ast.While) for a in around)


def _looked_up(context: Context, test: ast.expr) -> Iterator[ast.expr]:
    for call in (n for n in ast.walk(test) if isinstance(n, ast.Call)):
        if context.facts.external.get(call) in LOOKED_UP and call.args:
            yield call.args[0]
        elif isinstance(call.func, ast.Attribute) and call.func.attr in {"exists", "is_file"} and not call.args:
            yield call.func.value


def _written(context: Context, statement: ast.stmt) -> Iterator[str]:
    """The paths of files that `statement` writes."""
    for call in (n for n in ast.walk(statement) if isinstance(n, ast.Call)):
        name = context.facts.external.get(call, "")
        name = name if name in WRITERS or not isinstance(call.func, ast.Attribute) else call.func.attr
        if opens_for_writing(context.facts, call):
            yield _opened(context, call)
        elif name in WRITERS and len(call.args) > WRITERS[name]:
            yield ast.unparse(call.args[WRITERS[name]])


def _read(context: Context, statement: ast.stmt) -> Iterator[str]:
    """The paths of files that `statement` reads."""
    for call in (n for n in ast.walk(statement) if isinstance(n, ast.Call)):
        name = context.facts.external.get(call, "")
        if name in READERS and call.args:
            yield ast.unparse(call.args[0])
        elif (name in OPENERS or (isinstance(call.func, ast.Attribute) and call.func.attr == "open")) and not opens_for_writing(context.facts, call):
            yield _opened(context, call)


def _opened(context: Context, call: ast.Call) -> str:
    """The path of the file that `call` opens: `open(path)`, `path.open()`."""
    of_path = isinstance(call.func, ast.Attribute) and call not in context.facts.external
    return ast.unparse(call.func.value) if of_path else ast.unparse(call.args[0]) if call.args else ""  # type: ignore[attr-defined]
