"""Ways to break a right migration, and what `accel verify` must say of each on two processes.

`verified/after.py` is the migration of `verified/before.py`; a mutation replaces text of it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """`replaced` are pairs of old and new text; `kind` of a difference and a pattern in the `reason` (or in the difference)
    must be reported; an empty kind means that the runtime makes the mutation harmless."""

    name: str
    replaced: tuple[tuple[str, str], ...]
    kind: str
    reason: str = ""


_PREPARE = "model, optimizer, loader, held_out, scheduler = accelerator.prepare(\n    model, optimizer, loader, held_out, scheduler\n)\n"
_LOOP = "        optimizer.zero_grad()\n"
_RANK = "accelerator.process_index"
_PRINT = "    accelerator.print("


def _prepare(left_out: str) -> tuple[tuple[str, str], ...]:
    names = ", ".join(name for name in ("model", "optimizer", "loader", "held_out", "scheduler") if name != left_out)
    return ((_PREPARE, f"{names} = accelerator.prepare({names})\n"),)


MUTATIONS = (
    Mutation("loader not prepared", _prepare("loader"), "samples", "the loader is not prepared"),
    Mutation("nothing prepared", ((_PREPARE, ""),), "samples", "the loader is not prepared"),
    Mutation("model not prepared", _prepare("model"), "loss", "BatchNorm takes its statistics over each process's part"),
    Mutation("optimizer not prepared", _prepare("optimizer"), ""),
    Mutation(
        "only the loader prepared",
        ((_PREPARE, "loader = accelerator.prepare(loader)\n"),),
        "replicas",
        "gradients are not averaged",
    ),
    Mutation("evaluation not gathered", (("accelerator.gather_for_metrics((model(x), y))", "model(x), y"),), "lines", "one process's samples"),
    Mutation("evaluation loader not prepared", _prepare("held_out"), "lines", "the loader of the evaluation is not prepared: every process reads all of its 68 samples"),
    Mutation("local loss printed", (("accelerator.global_mean(loss).item()", "loss.item()"),), "lines", "one process's samples"),
    Mutation("printed by all", (("accelerator.print(", "print("),), "lines", "printed by every process"),
    Mutation(
        "saved by all",
        (("accelerator.save(", "torch.save("),),
        "files",
        "written by every process",
    ),
    Mutation("raw backward", (("accelerator.backward(loss)", "loss.backward()"),), "gradient", r"unequal parts of the batch of step 6 \(13 and 12 samples\)"),
    Mutation(
        "divided by the number of processes",
        (("accelerator.backward(loss)", "accelerator.backward(loss / accelerator.num_processes)"),),
        "gradient",
        "1/2 times the original's: divided by the number of processes",
    ),
    Mutation(
        "summed as if it were a mean",
        (("accelerator.backward(loss)", 'accelerator.backward(loss, reduction="sum")'),),
        "gradient",
        "2 times the original's: multiplied by the number of processes",
    ),
    Mutation(
        "learning rate scaled",
        (("lr=0.1,", "lr=0.1 * accelerator.num_processes,"),),
        "learning-rate",
        "starts at 0.2 instead of 0.1",
    ),
    Mutation(
        "scheduler steps on every process's account",
        (("        scheduler.step()\n", "        for _ in range(accelerator.num_processes):\n            scheduler.step()\n"),),
        "learning-rate",
        "it steps too often",
    ),
    Mutation(
        "scheduler stepped per epoch",
        (("        scheduler.step()\n", ""), (_PRINT, "    scheduler.step()\n" + _PRINT)),
        "learning-rate",
        "leaves the original's at step 5",
    ),
    Mutation("BatchNorm not synchronised", (("(split_batches=True)", "(split_batches=True, sync_batchnorm=False)"),), "loss", "BatchNorm takes its statistics"),
    Mutation("batches per process", (("(split_batches=True)", "()"),), "batch-size", "64 samples in a step where the original has 32 .the batch size counts per process"),
    Mutation("batches cut twice", (("batch_size=32", "batch_size=32 // accelerator.num_processes"),), "steps", "batches are cut twice"),
    Mutation(
        "no synchronisation",
        (("        accelerator.backward(loss)\n", "        with accelerator.no_sync(model):\n            accelerator.backward(loss)\n"),),
        "replicas",
        "no_sync covers the last backward",
    ),
    Mutation(
        "weights reset on one process",
        ((_PREPARE, _PREPARE + f"if {_RANK}:\n    model[3].bias.data.fill_(0.1)\n"),),
        "replicas",
        "not made equal at the start",
    ),
    Mutation(
        "gradients clipped on one process",
        (("        optimizer.step()\n", f"        if {_RANK}:\n            nn.utils.clip_grad_norm_(model.parameters(), 0.01)\n        optimizer.step()\n"),),
        "replicas",
        "gradients are not averaged",
    ),
    Mutation(
        "early break on one process",
        ((_LOOP, f"        if {_RANK} and epoch and scheduler.last_epoch == 8:\n            break\n" + _LOOP),),
        "hang|crash",
        "out of step|nothing goes on|process 1",
    ),
    Mutation(
        "collective for the main process only",
        ((_PRINT, "    if accelerator.is_main_process:\n        accelerator.gather(torch.ones(1))\n" + _PRINT),),
        "hang|crash",
        r"process 0 .*after.py:",
    ),
    Mutation(
        "barrier for the main process only",
        ((_PRINT, "    if accelerator.is_main_process:\n        accelerator.wait_for_everyone()\n" + _PRINT),),
        "hang|crash",
        r"process [01] .*after.py:",
    ),
    Mutation(
        "exception on one process",
        ((_LOOP, f'        if {_RANK}:\n            raise KeyError("sample 7")\n' + _LOOP),),
        "crash",
        r"process 1 failed at after.py:\d+ .*KeyError: 'sample 7'",
    ),
    Mutation(
        "endless wait on one process",
        ((_LOOP, f"        if {_RANK}:\n            import time\n            time.sleep(600)\n" + _LOOP),),
        "hang",
        r"process 1 stands at after.py:\d+",
    ),
    Mutation(
        "wrapped keys saved",
        (("accelerator.get_state_dict(model)", '{f"module.{k}": v for k, v in accelerator.get_state_dict(model).items()}'),),
        "files",
        "keys begin with 'module.'",
    ),
    Mutation(
        "local generator shuffles",
        (("shuffle=True)", f"sampler=torch.utils.data.RandomSampler(range(185), generator=torch.Generator().manual_seed({_RANK})))"),),
        "order",
        "the samples come in another order",
    ),
    Mutation(
        "another data order",
        (("shuffle=True)", "shuffle=True, generator=torch.Generator().manual_seed(5))"),),
        "order",
        "the samples come in another order",
    ),
    Mutation("gradients kept", (("        optimizer.zero_grad()\n", ""),), "gradient", "gradient"),
    Mutation(
        "other inputs",
        (("TensorDataset(features[:185], labels[:185])", "TensorDataset(features[:185].roll(1, 0), labels[:185])"),),
        "loss",
        "first forward pass",
    ),
)
