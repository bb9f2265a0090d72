"""A resumed epoch that skips by counting: the order of the samples is drawn anew, so others are skipped than were seen."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.facts.values import Made, Prepared
from accel_migrate.quoting import quote

ID = "manual-skip-on-resume"
TITLE = "A resumed epoch skips batches by counting"
SEVERITY = Severity.WARNING

_RESUMING = ("resume", "start", "skip", "trained", "completed")


def check(program: Program) -> Iterator[Alarm]:
    loads = next(program.calls_of("load_state"), None) is not None
    for _, node in program.facts.nodes(ast.If):
        assert isinstance(node, ast.If)
        loop = program.loop_over(node)
        if not loads or loop is None or not loop.trains or not _skips(node) or not _shuffles(loop.loaders):
            continue
        if isinstance(loop.node, ast.For) and _counts(node.test, loop.node):
            yield Alarm(
                node,
                f"`{quote(node.test)}` skips batches of an order that is drawn from the restored random state: other samples are skipped than those that were seen, and some are trained on twice",
                "loader = accelerator.skip_first_batches(loader, n) in the first epoch only, with use_seedable_sampler=True; and keep epoch and step in the state (register_for_checkpointing)",
            )


def _skips(node: ast.If) -> bool:
    return bool(node.body) and isinstance(node.body[-1], ast.Continue)


def _counts(test: ast.expr, loop: ast.For) -> bool:
    """`step < resume_at`, of the loop's own counter."""
    counter = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) and loop.target.elts else None
    if not isinstance(counter, ast.Name):
        return False
    for node in ast.walk(test):
        if (
            isinstance(node, ast.Compare)
            and isinstance(node.ops[0], ast.Lt | ast.LtE)
            and isinstance(node.left, ast.Name)
            and node.left.id == counter.id
        ):
            return any(word in ast.unparse(node.comparators[0]).lower() for word in _RESUMING)
    return False


def _shuffles(loaders: set[object]) -> bool:
    if not any(isinstance(v, Prepared) for v in loaders):
        return False
    sites = [v.site for v in loaders if isinstance(v, Made) and isinstance(v.site, ast.Call)]
    return not sites or any(
        k.arg in {"shuffle", "sampler"} and ast.unparse(k.value) not in {"False", "None"}
        for s in sites
        for k in s.keywords
    )
