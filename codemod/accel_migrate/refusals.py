"""Programs that are not migrated, and why."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from accel_migrate.edits import Finding
from accel_migrate.facts import catalog
from accel_migrate.facts.accelerated import accelerator_calls, binding_of_accelerator, is_half_done
from accel_migrate.facts.classes import ancestry
from accel_migrate.facts.distributed import spawns
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.outside import batches_from_outside
from accel_migrate.facts.unshared import why_no_batch
from accel_migrate.project import Project
from accel_migrate.result import Status
from accel_migrate.source import PYTHON_SUFFIXES, Source

OWN_PARALLELISM = {
    "torch.distributed.fsdp.": "FSDP", "torch.distributed._composable.fsdp": "FSDP", "torch.distributed.tensor.": "tensor parallelism",
    "torch.distributed._tensor.": "tensor parallelism", "torch.distributed.device_mesh.": "a device mesh", "torch.distributed.pipelining": "pipelining",
    "torch.distributed.rpc": "RPC", "deepspeed.": "DeepSpeed", "horovod.": "Horovod", "fairscale.": "FairScale", "colossalai.": "ColossalAI",
}  # fmt: skip
"""Beginnings of names of libraries that spread training over processes in another way than DistributedDataParallel."""

NO_LOOP = "no training loop found: nothing calls backward()"


@dataclass(frozen=True)
class Refusal:
    """`unchanged` where nothing needs to be done, else `refused`."""

    status: Status
    reason: str
    findings: list[Finding] = field(default_factory=list)


_TRAINS = re.compile("backward|ccelerat|ightning|Trainer|import_module|spawn|distributed|deepspeed|horovod|fairscale|colossalai")
"""What a program that trains, or leaves it to a library, has somewhere in its text."""


def plain_refusal(project: Project) -> Refusal | None:
    """Why a program is left alone that by its imports and its text alone trains nothing."""
    imported = _imported(node for source in project.sources.values() for node in source.index.of_kind(ast.Import, ast.ImportFrom))
    if not any(name.split(".")[0] == "torch" for name in imported):
        return _without_torch(project.entry, imported)
    if not any(_TRAINS.search(source.text) for source in project.sources.values()):
        return Refusal("refused", NO_LOOP)
    return None


def reason_to_refuse(facts: Facts) -> Refusal | None:
    """Why the program is left alone; None if it can be migrated."""
    if accelerator_calls(facts):
        if not is_half_done(facts):
            return Refusal("unchanged", "already accelerated: it makes an Accelerator")
        if binding_of_accelerator(facts) is None:
            return Refusal("unchanged", "it makes an Accelerator, but does not call its backward or prepare", [_unfinished(facts)])
    framework = _framework(facts)
    if framework is not None:
        return framework
    own = _own_parallelism(facts)
    if own is not None:
        return own
    if spawns(facts) is not None:
        return Refusal("refused", "it starts its own training processes (torch.multiprocessing): call the worker once, start the script with torchrun, then migrate it")
    if not facts.backwards:
        return Refusal("refused", NO_LOOP)
    if not any(b.with_loader for b in facts.backwards.values()):
        given = batches_from_outside(facts)
        if given is not None:
            return Refusal("refused", f"it trains on `{given}`, which nothing here passes: run the tool on the script that does, and the modules it imports come along")
        why = why_no_batch(facts)
        return Refusal("refused", "no data parallel meaning: it trains without a data loader, so there is no batch to share out" + (f" ({why})" if why else ""))
    if not any(isinstance(site, ast.Call) for site in facts.optimized):
        return Refusal("refused", "no optimizer from torch.optim found: nothing says which models are trained")
    return None


def _own_parallelism(facts: Facts) -> Refusal | None:
    """A program that shards its model, or averages its gradients, by another library."""
    for call, name in facts.external.items():
        for start, what in OWN_PARALLELISM.items():
            if name.startswith(start) and not facts.is_dead(call):
                return Refusal("refused", f"it trains with {what} itself (`{ast.unparse(call.func)}`): take that out, down to the plain training loop, then migrate it")
    return None


def _unfinished(facts: Facts) -> Finding:
    call = accelerator_calls(facts)[0]
    return Finding(
        source=facts.source(call), node=call, rule="accelerator",
        message="this accelerator trains nothing: plain loss.backward() averages no gradients, and what is not prepared is not shared out",
        advice="name it `accelerator` and run the tool again, or write accelerator.prepare(model, optimizer, loader) and accelerator.backward(loss)",
    )  # fmt: skip


def _without_torch(entry: Source, imported: set[str]) -> Refusal:
    for name in sorted(imported):
        if name.startswith(catalog.LIGHTNING_PREFIXES):
            return Refusal("refused", "Lightning runs the training loop: set devices and strategy on its Trainer instead")
    if entry.path.suffix not in PYTHON_SUFFIXES:
        return Refusal("refused", f"not a Python file: its name ends in {entry.path.suffix}")
    return Refusal("refused", "not a PyTorch training script: torch is not imported")


def _imported(nodes: Iterable[ast.AST]) -> set[str]:
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif node.module and not node.level:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
            names.add(node.module)
    return names


def _framework(facts: Facts) -> Refusal | None:
    called = set(facts.external.values())
    classes = {base for node in facts.bases for base in ancestry(facts, node) if isinstance(base, str)}
    if not facts.backwards:
        if any(n.startswith(catalog.LIGHTNING_PREFIXES) for n in called | classes):
            return Refusal("refused", "Lightning runs the training loop: set devices and strategy on its Trainer instead")
        if any(n.startswith(catalog.HF_TRAINERS) for n in called | classes):
            return Refusal("refused", "the Hugging Face Trainer runs the training loop and accelerates it itself: start it with torchrun")
    return None
