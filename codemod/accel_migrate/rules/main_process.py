"""What the run tells the world, it tells once: prints, progress bars, logs, writers and files on the main process."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.access import Unreachable
from accel_migrate.context import Context
from accel_migrate.dialects import ACCELERATOR
from accel_migrate.edits import AddArgument, Edit, Finding, Severity, WrapStatements
from accel_migrate.facts import catalog
from accel_migrate.facts.values import Made, Role

ID = "main-process"
TITLE = "Print, log and write on the main process only"
WHY = "otherwise every process says it"

FILE_CALLS = {
    "os.mkdir", "os.remove", "os.unlink", "os.rename", "os.replace", "os.rmdir", "os.removedirs", "os.symlink",
    "shutil.rmtree", "shutil.copy", "shutil.copyfile", "shutil.copy2", "shutil.copytree", "shutil.move",
    "torchvision.utils.save_image", "numpy.save", "numpy.savez", "numpy.savetxt", "matplotlib.pyplot.savefig",
    "json.dump", "pickle.dump", "torch.onnx.export", "imageio.imwrite", "cv2.imwrite",
}  # fmt: skip
FILE_METHODS = {"savefig", "to_csv", "to_json", "write_text", "write_bytes", "unlink", "export_chrome_trace"}
TRACKERS = ("wandb.", "mlflow.", "neptune.", "comet_ml.")
MAIN = f"if {ACCELERATOR}.is_main_process:"


def apply(context: Context) -> Iterator[Edit | Finding]:
    for call, name in context.facts.external.items():
        if name == "print":
            yield from _say(context, call, context.facts.external[call])
        elif name in catalog.PROGRESS_BARS:
            yield from _progress(context, call)
        elif name == "logging.basicConfig":
            yield from _log_level(context, call)
    yield from _writers(context)
    yield from _guards(context)


def _say(context: Context, call: ast.Call, name: str) -> Iterator[Edit]:
    if _is_guarded(context, call):
        return
    text, imports = context.say_anywhere(f"{ACCELERATOR}.print", call, ID)
    yield context.replace(ID, call.func, text, WHY)
    yield from imports


def _is_guarded(context: Context, node: ast.AST) -> bool:
    """Whether a condition around `node` already lets only the main process through."""
    for ancestor in context.facts.ancestors(node):
        if isinstance(ancestor, ast.If) and "is_main_process" in ast.unparse(ancestor.test):
            return True
    return False


def _progress(context: Context, call: ast.Call) -> Iterator[Edit]:
    if any(k.arg == "disable" for k in call.keywords):
        return
    text, imports = context.say_anywhere(f"not {ACCELERATOR}.is_local_main_process", call, ID)
    yield AddArgument(source=context.source(call), rule=ID, why=WHY, node=call, value=text, keyword="disable")
    yield from imports


def _log_level(context: Context, call: ast.Call) -> Iterator[Edit]:
    level = next((k.value for k in call.keywords if k.arg == "level"), None)
    module = ast.unparse(call.func).rpartition(".")[0]
    quiet = f"{module}.WARNING" if module else '"WARNING"'
    try:
        main = context.say(f"{ACCELERATOR}.is_main_process", call)
    except Unreachable:
        return
    if level is not None:
        yield context.replace(ID, level, f"{{x}} if {main} else {quiet}", WHY, x=level)


# -- guards -----------------------------------------------------------------------------------------
def _writers(context: Context) -> Iterator[Edit]:
    """A writer exists on the main process only."""
    for call in context.calls_of(*catalog.WRITERS):
        if _is_guarded(context, call):
            continue
        try:
            main = context.say(f"{ACCELERATOR}.is_main_process", call)
        except Unreachable:
            continue
        yield context.replace(ID, call, f"{{x}} if {main} else None", WHY, x=_Inner(call))


def _Inner(node: ast.AST) -> ast.AST:
    from accel_migrate.edits import Inner

    return Inner(node)  # type: ignore[return-value]


def _guards(context: Context) -> Iterator[Edit | Finding]:
    """Runs of neighbouring statements that write go under one guard."""
    statements = [s for s in _writing_statements(context) if not _is_guarded(context, s)]
    for run in _runs(context, statements):
        first = run[0]
        text, imports = context.say_anywhere(MAIN, first, ID)
        yield WrapStatements(source=context.source(first), rule=ID, why=WHY, nodes=tuple(run), header=text)
        yield from imports


def _writing_statements(context: Context) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for _, node in context.facts.nodes(ast.Expr, ast.With, ast.If):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _writes(context, node.value):
            found.append(_with_test(context, node))
        elif isinstance(node, ast.With) and any(_opens_for_writing(context, item.context_expr) for item in node.items):
            found.append(node)
    unique = list(dict.fromkeys(found))
    return [s for s in unique if not any(s is not other and context.facts.inside(s, other) for other in unique)]


def _with_test(context: Context, statement: ast.Expr) -> ast.stmt:
    """The `if not os.path.exists(...)` around a statement that makes what is missing."""
    parent = context.facts.parents[statement]
    if isinstance(parent, ast.If) and not parent.orelse and len(parent.body) == 1 and "exists" in ast.unparse(parent.test):
        return parent
    return statement


def _writes(context: Context, call: ast.Call) -> bool:
    name = context.facts.external.get(call, "")
    if name == "os.makedirs" or name.endswith("Path.mkdir"):
        return not any(k.arg == "exist_ok" for k in call.keywords)
    if name in FILE_CALLS or name.startswith(TRACKERS):
        return True
    base, method = context.facts.methods.get(call, (frozenset(), ""))
    if any(isinstance(v, Made) and v.role is Role.WRITER for v in base):
        return True
    return method in FILE_METHODS or (isinstance(call.func, ast.Attribute) and call.func.attr in FILE_METHODS and not base and not name)


def _opens_for_writing(context: Context, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or context.facts.external.get(node) != "open" and ast.unparse(node.func) != "open":
        return False
    modes = [*node.args[1:2], *(k.value for k in node.keywords if k.arg == "mode")]
    return any(isinstance(m, ast.Constant) and any(c in str(m.value) for c in "wax") for m in modes)


def _runs(context: Context, statements: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    wanted = {id(s) for s in statements}
    seen: set[int] = set()
    for statement in statements:
        if id(statement) in seen:
            continue
        block = context.facts.block(statement)
        index = next(i for i, s in enumerate(block) if s is statement)
        run = []
        for follower in block[index:]:
            if id(follower) not in wanted:
                break
            run.append(follower)
        seen.update(id(s) for s in run)
        yield run


__all__ = ["ID", "TITLE", "WHY", "Severity", "apply"]
