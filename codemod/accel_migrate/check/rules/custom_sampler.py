"""A sampler that draws from each process's own stream: the processes cut different orders, and samples are seen twice or never."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.facts.classes import ancestry
from accel_migrate.facts.values import ClassValue, Instance, Role
from accel_migrate.quoting import quote

ID = "custom-sampler"
TITLE = "A sampler draws from each process's own random stream"
SEVERITY = Severity.WARNING
LIBRARIES = frozenset({"accelerate"})

_SAMPLERS = (
    "torch.utils.data.Sampler",
    "torch.utils.data.BatchSampler",
    "torch.utils.data.sampler.Sampler",
    "torch.utils.data.sampler.BatchSampler",
)
_DRAWING = {"torch.randperm", "torch.randint", "torch.rand", "torch.multinomial", "random.shuffle", "random.sample", "random.choice", "random.choices", "random.random",
            "numpy.random.permutation", "numpy.random.shuffle", "numpy.random.choice"}  # fmt: skip


def check(program: Program) -> Iterator[Alarm]:
    for site in program.prepared_sites(Role.LOADER):
        for keyword in site.keywords if isinstance(site, ast.Call) else ():
            if keyword.arg not in {"sampler", "batch_sampler"}:
                continue
            for value in program.facts.of(keyword.value):
                draw = _own_draw(program, value.cls) if isinstance(value, Instance) else None
                if draw is not None:
                    yield Alarm(
                        keyword.value,
                        f"`{quote(keyword.value)}` draws its order from each process's own stream (`{quote(draw)}`, line {draw.lineno}): the processes cut different orders, so that samples are seen twice or never",
                        "give it an attribute `generator`, a torch.Generator that is seeded alike on all processes, and draw from that",
                    )


def _own_draw(program: Program, cls: ClassValue) -> ast.Call | None:
    """A draw without a generator in a sampler of the project's."""
    if not any(base in _SAMPLERS for base in ancestry(program.facts, cls.node)):
        return None
    methods = [m for m in cls.node.body if isinstance(m, ast.FunctionDef) and m.name in {"__iter__", "__next__"}]
    for node in (n for m in methods for n in program.reach.calls(m)):
        if ast.unparse(node.func).startswith("self."):
            continue  # a generator of its own
        drawn = program.facts.external.get(node) in _DRAWING and not any(k.arg == "generator" for k in node.keywords)
        if drawn and not any(
            isinstance(n, ast.Call) and "seed" in program.method(n) for m in methods for n in ast.walk(m)
        ):
            return node
    return None
