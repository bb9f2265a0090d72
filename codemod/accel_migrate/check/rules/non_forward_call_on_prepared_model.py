"""A method or attribute of the user's model, asked of the wrapper that `prepare` returns: it has none."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm, Fix
from accel_migrate.check.program import Program
from accel_migrate.check.rules.raw_backward import _name
from accel_migrate.edits import ReplaceExpression, Severity
from accel_migrate.quoting import quote

ID = "non-forward-call-on-prepared-model"
TITLE = "An attribute of the model is asked of the wrapper around it"
SEVERITY = Severity.ERROR
LIBRARIES = frozenset({"accelerate"})

MODULE = {
    "T_destination", "add_module", "apply", "backward", "bfloat16", "buffers", "call_super_init", "children", "compile", "cpu", "cuda", "double", "dump_patches", "eval", "extra_repr",
    "float", "forward", "get_buffer", "get_extra_state", "get_parameter", "get_submodule", "half", "ipu", "load_state_dict", "modules", "mtia", "named_buffers", "named_children",
    "named_modules", "named_parameters", "parameters", "register_backward_hook", "register_buffer", "register_forward_hook", "register_forward_pre_hook",
    "register_full_backward_hook", "register_full_backward_pre_hook", "register_load_state_dict_post_hook", "register_load_state_dict_pre_hook", "register_module",
    "register_parameter", "register_state_dict_post_hook", "register_state_dict_pre_hook", "requires_grad_", "set_extra_state", "set_submodule", "share_memory", "state_dict", "to",
    "to_empty", "train", "training", "type", "xpu", "zero_grad",
}  # fmt: skip
"""What every module has, the wrapper too."""
WRAPPER = {
    "module", "no_sync", "join", "register_comm_hook", "gradient_accumulation_steps", "clip_grad_norm_", "device", "device_ids", "find_unused_parameters", "logger", "reducer",
    "require_backward_grad_sync", "step", "save_checkpoint", "load_checkpoint", "is_gradient_accumulation_boundary", "set_gradient_accumulation_boundary", "optimizer", "_orig_mod",
    "save_16bit_model", "zero_gather_16bit_weights_on_model_save", "_zero3_consolidated_16bit_state_dict",
}  # fmt: skip
"""What the wrappers of DistributedDataParallel, FSDP and DeepSpeed have of their own."""
OF_SAVING = {"save_pretrained", "push_to_hub"}
"""What another rule reports."""


def check(program: Program) -> Iterator[Alarm]:
    if not program.wraps or _is_handed_on(program):
        return
    for _, node in program.facts.nodes(ast.Attribute):
        assert isinstance(node, ast.Attribute)
        if (
            node.attr in MODULE | WRAPPER
            or node.attr.startswith("__")
            or not program.is_prepared_model(node.value)
            or not _surely(program, node.value)
        ):
            continue
        if node.attr in OF_SAVING or not isinstance(node.ctx, ast.Load) or _asks_first(program, node):
            continue
        own, called = _name(program, node), _is_called(program, node)
        edit = ReplaceExpression(
            source=program.source(node),
            rule=ID,
            node=node.value,
            template=f"{own}.unwrap_model({{model}})",
            parts={"model": node.value},
        )
        trains = called and program.training_loop(node) is not None and not program.is_without_gradients(node)
        yield Alarm(
            node,
            f"`{quote(node)}`: on several processes `{quote(node.value)}` is a wrapper, which has no `{node.attr}`: AttributeError",
            "reach it through `forward` (`model(x, mode=...)`): called on the unwrapped model its gradients would not be averaged"
            if trains
            else f"accelerator.unwrap_model({quote(node.value)}).{node.attr}",
            Fix((edit,)) if own is not None and not trains and not isinstance(node.value, ast.Call) else None,
        )


def _surely(program: Program, node: ast.expr) -> bool:
    """Whether `node` holds nothing but the prepared model: what joins several makings may be the bare one."""
    sites = program.sites(node)
    return len(sites) == 1 or all(
        program.facts.role(v) is not None for v in program.facts.of(node) if hasattr(v, "site")
    )


def _is_called(program: Program, node: ast.expr) -> bool:
    parent = program.facts.parents.get(node)
    return isinstance(parent, ast.Call) and parent.func is node


def _asks_first(program: Program, node: ast.Attribute) -> bool:
    """`model.config if hasattr(model, "config") else model.module.config`"""
    if _is_unwrapped_by_class(program, node):
        return True
    if program.is_under(node, "distributed_type") or program.is_under(node, "num_processes"):
        return True
    for ancestor in program.facts.ancestors(node):
        test = ancestor.test if isinstance(ancestor, ast.If | ast.IfExp) else None
        if test is not None and (any(asking in ast.unparse(test) for asking in ("hasattr", "getattr", "isinstance")) or _has_wrapped_branch(program, ancestor, node)):
            return True
        if isinstance(ancestor, ast.Try | ast.FunctionDef | ast.AsyncFunctionDef):
            return isinstance(ancestor, ast.Try)
    return False


def _has_wrapped_branch(program: Program, choice: ast.AST, node: ast.Attribute) -> bool:
    """`model.module.encoder if is_distributed else model.encoder`, whatever the test is."""
    model = ast.unparse(node.value)
    branches = [part if isinstance(part, list) else [part] for part in (choice.body, choice.orelse)]  # type: ignore[attr-defined]
    others = [n for branch in branches if not any(program.facts.inside(node, part) for part in branch) for part in branch for n in ast.walk(part)]
    return any(_bares(program, n) == model for n in others)


def _bares(program: Program, node: ast.AST) -> str:
    """The wrapper of which `node` is the bare model, as text: `model` of `model.module` and of `accelerator.unwrap_model(model)`."""
    if isinstance(node, ast.Attribute) and node.attr == "module":
        return ast.unparse(node.value)
    unwraps = isinstance(node, ast.Call) and bool(node.args) and program.method(node) == "unwrap_model"
    return ast.unparse(node.args[0]) if unwraps else ""  # type: ignore[attr-defined]


def _is_unwrapped_by_class(program: Program, node: ast.AST) -> bool:
    """Whether a decorator of the class around `node` says that it unwraps the models of its instances."""
    classes = (a for a in program.facts.ancestors(node) if isinstance(a, ast.ClassDef))
    return any("unwrap" in ast.unparse(d) for c in classes for d in c.decorator_list)


def _is_handed_on(program: Program) -> bool:
    """Whether the script itself asks for DeepSpeed or FSDP, whose wrappers hand attributes on to the model."""
    plugins = (program.setting(name) for name in ("deepspeed_plugin", "deepspeed_plugins", "fsdp_plugin"))
    if any(p is not None and not (isinstance(p, ast.Constant) and p.value is None) for p in plugins):
        return True
    models = [p for p in program.preparations if program.is_model(p.argument)]
    stand_ins = {c for c in program.functions_of("DummyOptim")}
    return bool(models) and all(any(stand_ins & program.sites(a) for a in p.call.args) for p in models)
