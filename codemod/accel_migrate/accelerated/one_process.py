"""An accelerated script as it reads to one process, where preparing, averaging and gathering change nothing.

That is the script before its migration, as far as the facts are concerned: `accelerator.backward(loss)` is
`loss.backward()`, `accelerator.global_mean(loss)` is `loss`. What the tool does not write itself (`gather`, `reduce`) stays
a call of which nothing is known.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable
from dataclasses import replace

from accel_migrate.project import Project
from accel_migrate.source import Source

MAKERS = {"Accelerator", "PartialState", "AcceleratorState"}
"""Classes whose objects know the processes."""
_SAME = {
    "prepare",
    "prepare_model",
    "prepare_optimizer",
    "prepare_data_loader",
    "prepare_scheduler",
    "gather_for_metrics",
    "local_rows",
    "shard_batch",
    "unwrap_model",
}
"""Methods that return what they are given."""
_DETACHING = {"global_mean", "global_sum"}
"""Methods that return what they are given, without its gradient."""
_FUNCTIONS = {"draw", "gather_for_metrics", "global_len", "local_rows", *_DETACHING}
"""Methods that are functions of the runtime, too."""
_CONSTANTS = {"is_main_process": True, "is_local_main_process": True, "is_last_process": True, "process_index": 0, "num_processes": 1}


def as_one_process(project: Project) -> Project:
    """`project` with other syntax trees; every node has the place of the one it stands for."""
    names = {name for source in project.sources.values() for name in accelerators(source.tree)}
    fresh = {name: _rewritten(source, names) for name, source in project.sources.items()}
    return replace(project, entry=fresh[project.entry.module], sources=fresh)


def accelerators(tree: ast.Module) -> Iterable[str]:
    """Last names of the variables and attributes that hold an accelerator."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _is_maker(node.value):
            yield from (_last_name(target) for target in node.targets)


def _rewritten(source: Source, names: set[str]) -> Source:
    tree = _AsOneProcess(names).visit(copy.deepcopy(source.tree))
    fresh = replace(source)
    vars(fresh)["tree"] = ast.fix_missing_locations(tree)
    return fresh


class _AsOneProcess(ast.NodeTransformer):
    def __init__(self, names: set[str]) -> None:
        self.names = names

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if _is_maker(node):
            return ast.copy_location(_call(ast.Name("object", ast.Load())), node)
        if isinstance(node.func, ast.Attribute) and self._is_accelerator(node.func.value):
            return ast.copy_location(_plain(node, node.func.attr), node)
        if isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
            return ast.copy_location(_plain(node, node.func.id), node)
        if _last_name(node.func) == "notebook_launcher" and node.args:
            return ast.copy_location(_launched(node), node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr in _CONSTANTS and self._is_accelerator(node.value) and isinstance(node.ctx, ast.Load):
            return ast.copy_location(ast.Constant(_CONSTANTS[node.attr]), node)
        return node

    def _is_accelerator(self, node: ast.expr) -> bool:
        made_here = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "object"
        return made_here or _last_name(node) in self.names


def _plain(node: ast.Call, method: str) -> ast.expr:
    """What the call of an accelerator's method does on one process."""
    args = node.args
    if method in _SAME and args and not node.keywords and not any(isinstance(a, ast.Starred) for a in args):
        return args[0] if len(args) == 1 else ast.Tuple(args, ast.Load())
    if method in _DETACHING and args and not node.keywords:
        return _call(ast.Attribute(args[0], "detach", ast.Load()))
    if method == "backward" and args:
        return _call(ast.Attribute(args[0], "backward", ast.Load()))
    if method == "get_state_dict" and args:
        return _call(ast.Attribute(args[0], "state_dict", ast.Load()))
    if method == "global_len" and args:
        return _call(ast.Name("len", ast.Load()), args[0])
    if method == "draw" and args:
        return _call(args[0], *args[1:])
    if method == "print":
        return ast.Call(ast.Name("print", ast.Load()), args, node.keywords)
    return node


def _launched(node: ast.Call) -> ast.Call:
    """`notebook_launcher(partial(train, lr=0.1), (3,))` -> `train(3, lr=0.1)`."""
    function, arguments = node.args[0], node.args[1] if len(node.args) > 1 else ast.Tuple([], ast.Load())
    if not isinstance(arguments, ast.Tuple):
        return node
    if isinstance(function, ast.Call) and _last_name(function.func) == "partial" and function.args:
        return ast.Call(function.args[0], [*function.args[1:], *arguments.elts], function.keywords)
    return _call(function, *arguments.elts)


def _call(function: ast.expr, *args: ast.expr) -> ast.Call:
    return ast.Call(function, list(args), [])


def _is_maker(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _last_name(node.func) in MAKERS


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""
