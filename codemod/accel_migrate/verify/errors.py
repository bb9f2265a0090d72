"""Well-known errors of several processes, and what they mean."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from accel_migrate.verify.job import Run

_MEANT = (
    (r"can't use batches of different size|Sizes of tensors must match.*\n.*dispatch", "the main process reads the batches of all and puts them together, but they have different shapes: pad all to one length, or let each process read for itself (dispatch_batches=False)"),
    (r"DistributedDataParallel' object has no attribute '(?P<name>\w+)'", "`{name}` belongs to the model, which is wrapped: ask the unwrapped one (accelerator.unwrap_model)"),
    (r"Batch size should be|batch_size.*needs to be a round multiple of|not divisible by", "the batch size is not a multiple of the number of processes, among which batches are split"),
    (r"Cannot re-initialize CUDA in forked subprocess", "the GPU is used before the processes are started"),
    (r"CUDA out of memory|OutOfMemoryError", "a process has not enough memory on its GPU"),
)
_UNUSED = re.compile(r"Parameters which did not receive grad for rank (?P<rank>\d+): (?P<names>[^\n]+)")
_UNFINISHED = "Expected to have finished reduction in the prior iteration"
_SHOWN = 4


def reasons_of_errors(run: Run, processes: int) -> Iterator[str]:
    """What the error output of the processes says, in other words."""
    texts = [_read(run.streams / f"rank{rank}.err") for rank in range(processes)]
    whole = "\n".join(texts)
    if _UNFINISHED in whole:
        yield _unused(whole)
    for pattern, meaning in _MEANT:
        found = re.search(pattern, whole)
        if found:
            yield meaning.format(**found.groupdict())


def hint(said: str, script: str) -> str:
    """What to do about an error of the original, if that is plain."""
    if "attempted relative import" in said:
        module = script.removesuffix(".py").replace("/", ".")
        above = "" if "." in module else ", from the folder above its package"
        return f" (it imports from its own package: run it as a module, -m {module if not above else 'PACKAGE.' + module}{above})"
    if "No module named 'torch'" in said:
        return " (--python names the interpreter that has it)"
    if "No such file" in said and "../" in said:
        return " (what lies outside of the working directory is not copied: run the command from a folder that holds it, too)"
    return " (the script's own arguments follow after --)" if "arguments are required" in said else ""


def _unused(text: str) -> str:
    """Parameters without a gradient; not the same ones on all processes where each decides for itself."""
    by_rank = {int(m["rank"]): tuple(m["names"].rstrip(". ").split(", ")) for m in _UNUSED.finditer(text)}
    advice = "leave them out of the model that is prepared, or pass find_unused_parameters=True"
    if len(set(by_rank.values())) > 1:
        each = "; ".join(f"process {rank}: {_listed(names)}" for rank, names in sorted(by_rank.items()))
        return f"the processes take different branches of the model, so that different parameters get no gradient ({each}): decide alike on all processes, and pass find_unused_parameters=True"
    names = next(iter(by_rank.values()), ())
    return f"{_listed(names) or 'some parameters'} get no gradient, and the processes wait for one: {advice}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
