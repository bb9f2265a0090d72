"""What was recognised in a program and why, in sentences: `--explain`."""

from __future__ import annotations

from collections.abc import Iterator

from accel_migrate.explain.figures import figures, losses
from accel_migrate.explain.loops import loops
from accel_migrate.explain.objects import missing, objects
from accel_migrate.explain.said import Said
from accel_migrate.facts.facts import Facts


def explain(facts: Facts) -> str:
    """Who was taken for what, and why; which loops train; what the losses are; which values are of one process only."""
    sections = {
        "What the program works with": [*objects(facts), *missing(facts)],
        "Its loops over data": list(loops(facts)),
        "Its losses": list(losses(facts)),
        **figures(facts),
    }
    return "\n\n".join("\n".join(_section(title, said)) for title, said in sections.items() if said)


def _section(title: str, said: list[Said]) -> Iterator[str]:
    yield f"{title}:"
    lines = dict.fromkeys(f"  {item}" for item in sorted(said, key=lambda item: item.order))
    yield from lines
