"""Statements which the outside world notices: files, writers, trackers. They run on the main process only."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.facts import catalog, trackers
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.values import Literal, Role
from accel_migrate.writers import keeps_settings

FILE_CALLS = {
    "os.mkdir", "os.remove", "os.unlink", "os.rename", "os.replace", "os.rmdir", "os.removedirs", "os.symlink",
    "shutil.rmtree", "shutil.copy", "shutil.copyfile", "shutil.copy2", "shutil.copytree", "shutil.move",
    "torchvision.utils.save_image", "numpy.save", "numpy.savez", "numpy.savez_compressed", "numpy.savetxt", "matplotlib.pyplot.savefig",
    "matplotlib.pyplot.imsave", "json.dump", "pickle.dump", "joblib.dump", "torch.onnx.export", "cv2.imwrite", "skimage.io.imsave", "scipy.io.savemat",
    "imageio.imwrite", "imageio.imsave", "imageio.mimwrite", "imageio.mimsave", "scipy.misc.imsave", "scipy.io.wavfile.write", "soundfile.write",
    "torchaudio.save", "sys.stdout.write", "sys.stderr.write",
}  # fmt: skip
LOOKS = ("exists", "isdir", "isfile", "is_dir", "is_file")
COMMANDS = {"os.system", "subprocess.call", "subprocess.check_call", "subprocess.run", "subprocess.Popen"}
"""Functions that start another program; where its answer is not read, it is started for what it leaves behind."""
FILE_METHODS = {"savefig", "to_csv", "to_json", "to_pickle", "to_parquet", "to_excel", "write_text", "write_bytes", "unlink", "export_chrome_trace"}


def writing_statements(facts: Facts) -> list[ast.stmt]:
    """Statements to be guarded, outermost only, in order; none that trains or evaluates inside."""
    found: list[ast.stmt] = []
    for _, node in facts.nodes(ast.Expr, ast.With, ast.Assign):
        if is_guarded(facts, node) or facts.is_dead(node):
            continue
        if isinstance(node, ast.Expr) and any(_writes(facts, call) for call in _run_by(node.value)):
            found.append(_with_test(facts, node))
        elif _notes_down(facts, node) or (isinstance(node, ast.With) and opens_files(facts, node) and not runs_models(facts, node)):
            found.append(node)
    files = {source: i for i, source in enumerate(facts.sources)}
    unique = sorted(dict.fromkeys(found), key=lambda s: (files[facts.source(s)], s.lineno, s.col_offset))
    return [s for s in unique if not any(s is not other and facts.inside(s, other) for other in unique)]


def _notes_down(facts: Facts, node: ast.stmt) -> bool:
    """`run["parameters"] = settings`: an entry of a record that a writer keeps."""
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    return isinstance(target, ast.Subscript | ast.Attribute) and facts.has_role(target.value, Role.WRITER)


def _run_by(value: ast.expr) -> Iterator[ast.Call]:
    """The calls for whose effect the statement `value` stands: `remove(p) if exists(p) else None`, `exists(p) and remove(p)`."""
    if isinstance(value, ast.Call):
        yield value
    elif isinstance(value, ast.IfExp):
        yield from (*_run_by(value.body), *_run_by(value.orelse))
    elif isinstance(value, ast.BoolOp):
        yield from _run_by(value.values[-1])
    elif isinstance(value, ast.ListComp):
        yield from _run_by(value.elt)


def opens_files(facts: Facts, node: ast.With) -> bool:
    return any(opens_for_writing(facts, item.context_expr) for item in node.items)


def is_guarded(facts: Facts, node: ast.AST) -> bool:
    """Whether a condition around `node` already lets only the main process through."""
    return any(isinstance(a, ast.If) and "is_main_process" in ast.unparse(a.test) for a in facts.ancestors(node))


def is_said(facts: Facts, node: ast.AST) -> bool:
    """Whether `node` stands in what a `print` or a logger tells a person."""
    calls = [a for a in facts.ancestors(node) if isinstance(a, ast.Call)]
    return any(facts.external.get(c) == "print" or any(facts.role(v) is Role.LOGGER for v in facts.methods.get(c, (frozenset(), ""))[0]) for c in calls)


def runs_models(facts: Facts, node: ast.AST) -> bool:
    """Whether a forward or backward pass runs inside `node`, calls included: every process must take part in it."""
    active = {b.scope.node for b in facts.backwards.values()} | {f.scope.node for f in facts.forwards.values()}
    nodes = set(facts.backwards) | set(facts.forwards)
    seen: set[ast.AST] = set()
    pending: list[ast.AST] = [node]
    while pending:
        current = pending.pop()
        for inner in ast.walk(current):
            if not isinstance(inner, ast.Call):
                continue
            if inner in nodes:
                return True
            for callee in facts.callees.get(inner, ()):
                if callee in active:
                    return True
                if callee not in seen:
                    seen.add(callee)
                    pending.append(callee)
    return False


def loops_over(facts: Facts, node: ast.AST, sites: set[ast.AST]) -> bool:
    """Whether a loop over a loader made at one of `sites` runs inside `node`, calls included."""
    loops = {n for n, loop in facts.loops.items() if any(getattr(v, "site", None) in sites for v in loop.loaders)}
    seen: set[ast.AST] = set()
    pending: list[ast.AST] = [node] if loops else []
    while pending:
        for inner in ast.walk(pending.pop()):
            if inner in loops:
                return True
            new = facts.callees.get(inner, set()) - seen if isinstance(inner, ast.Call) else set()
            seen |= new
            pending.extend(new)
    return False


def _with_test(facts: Facts, statement: ast.Expr) -> ast.stmt:
    """The `if not os.path.exists(...)` around a statement that makes what is missing."""
    parent = facts.parents[statement]
    if isinstance(parent, ast.If) and not parent.orelse and len(parent.body) == 1 and any(look in ast.unparse(parent.test) for look in LOOKS):
        return parent
    return statement


def _writes(facts: Facts, call: ast.Call) -> bool:
    name = facts.external.get(call, "")
    base, method = facts.methods.get(call, (frozenset(), ""))
    if facts.callees.get(call):
        return False
    if name in {"os.makedirs"} or method == "mkdir" or (isinstance(call.func, ast.Attribute) and call.func.attr == "mkdir"):
        return not any(k.arg == "exist_ok" and isinstance(k.value, ast.Constant) and k.value.value is True for k in call.keywords)
    if any(name == start or name.startswith(f"{settings}.") for start, settings in trackers.SETTINGS.items() if keeps_settings(facts, start)):
        return False
    if name in FILE_CALLS or name in COMMANDS or name.startswith(trackers.PACKAGES) or name.removesuffix(".write") in catalog.PROGRESS_BARS - {name}:
        return True
    if method == "write" and any(facts.role(v) is Role.PROGRESS for v in base):
        return True
    if any(facts.role(v) is Role.WRITER for v in base):
        return True
    return isinstance(call.func, ast.Attribute) and call.func.attr in FILE_METHODS


def opens_for_writing(facts: Facts, node: ast.expr) -> bool:
    """Whether `node` is `open(..., "w")`, or `path.open("w")`, or with another mode that writes."""
    if not isinstance(node, ast.Call):
        return False
    of_path = isinstance(node.func, ast.Attribute) and node.func.attr == "open" and node not in facts.external
    if facts.external.get(node) not in {"open", "io.open"} and not of_path:
        return False
    modes = [*(node.args[:1] if of_path else node.args[1:2]), *(k.value for k in node.keywords if k.arg == "mode")]
    return any(_says_writing(facts, mode) or (not isinstance(mode, ast.Constant) and _is_written(facts, node)) for mode in modes)


def _says_writing(facts: Facts, mode: ast.expr) -> bool:
    """Whether all that `mode` may be, by way of variables and conditions, are modes that write."""
    known = [v.value if isinstance(v, Literal) else None for v in facts.of(mode)]
    texts = [mode.value] if isinstance(mode, ast.Constant) else known
    return bool(texts) and all(isinstance(text, str) and set(text) <= set("rwaxbt+") and set(text) & set("wax") for text in texts)


def _is_written(facts: Facts, opened: ast.Call) -> bool:
    """Whether what is opened, in whatever mode, gets a name at once under which `write` is called."""
    parent = facts.parents[opened]
    target = parent.optional_vars if isinstance(parent, ast.withitem) else parent.targets[0] if isinstance(parent, ast.Assign) else None
    if not isinstance(target, (ast.Name, ast.Attribute)):
        return False
    name = facts.text(target)
    calls = (n for n in ast.walk(facts.source(opened).tree) if isinstance(n, ast.Attribute) and n.attr in {"write", "writelines"})
    return any(facts.text(n.value) == name for n in calls)


def runs_of(facts: Facts, statements: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """`statements` in runs of neighbours."""
    wanted = {id(s) for s in statements}
    seen: set[int] = set()
    for statement in statements:
        if id(statement) in seen:
            continue
        block = facts.block(statement)
        index = next(i for i, s in enumerate(block) if s is statement)
        run = []
        for follower in block[index:]:
            if id(follower) not in wanted:
                break
            run.append(follower)
        seen.update(id(s) for s in run)
        yield run


def speaking_functions(facts: Facts, statements: list[ast.stmt]) -> dict[ast.FunctionDef, list[ast.stmt]]:
    """Functions that do nothing but write, in several places: they end at once on the other processes."""
    found: dict[ast.FunctionDef, list[ast.stmt]] = {}
    for run in runs_of(facts, statements):
        function = facts.function(run[0])
        if isinstance(function, ast.FunctionDef):
            found.setdefault(function, []).extend(run)
    return {f: s for f, s in found.items() if len({id(facts.parents[x]) for x in s}) > 1 and len(s) > 3 and _only_speaks(facts, f)}


def _only_speaks(facts: Facts, function: ast.FunctionDef) -> bool:
    returns = any((isinstance(n, ast.Return) and n.value is not None) or isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(function))
    stores = any(isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) for n in ast.walk(function))
    converts = any(facts.function(c.value) is function for c in facts.conversions.values())
    return not returns and not stores and not converts and not runs_models(facts, function)
