"""`delta[: len(x)]` of a tensor that outlives the batch: a row meets what an earlier batch left at its place. A finding."""

from __future__ import annotations

from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Severity
from accel_migrate.facts.by_place import read_by_place, root
from accel_migrate.quoting import quote

ID = "places-in-batch"
TITLE = "Find tensors that are kept from batch to batch by the places of the rows"
WHY = "the first row of a process is not the first row of the batch"


def apply(context: Context) -> Iterator[Edit | Finding]:
    seen: set[str | None] = set()
    for node in read_by_place(context.facts) if not context.distributed else ():
        name = root(node)
        if name not in seen:
            seen.add(name)
            yield Finding(
                source=context.source(node), node=node, rule=ID, severity=Severity.ERROR,
                message=f"`{name}` is kept from batch to batch, and `{quote(node)}` takes its first rows on every process, where the rows of the batch are others",
                advice="start it anew in each batch (torch.zeros_like(x)), or keep a row for each sample of the data set, found by its index",
            )  # fmt: skip
