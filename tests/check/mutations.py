"""Right scripts, and the faults that people put into them: what to replace by what, and which rule has to say so.

`PYTHONPATH=codemod:tests python -m check.mutations` prints how many of them each rule finds, and what else is reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from accel_migrate.check.check import Wanted, check
from accel_migrate.edits import Severity
from codemod.memory import program

FOLDER = Path(__file__).parent / "right"


@dataclass(frozen=True)
class Mutation:
    """One fault in one script."""

    script: str
    rule: str
    old: str
    new: str

    @property
    def text(self) -> str:
        """The script with the fault."""
        right = (FOLDER / f"{self.script}.py").read_text()
        assert right.count(self.old) == 1, (self.script, self.old, right.count(self.old))
        return right.replace(self.old, self.new)


GUARD = "collective-in-rank-guard"
FLAT = [
    ("accelerator-arguments", "gradient_accumulation_steps=2", "gradient_accumulation=2"),
    ("accelerator-arguments", "gradient_accumulation_steps=2", 'gradient_accumulation_steps=2, deepspeed_plugin={"zero_stage": 2}'),
    ("accelerator-arguments", "gradient_accumulation_steps=2", "gradient_accumulation_steps=2, split_batches=True"),
    (GUARD, '    accelerator.save_state("state")', '    if accelerator.is_main_process:\n        accelerator.save_state("state")'),
    (GUARD, '    accelerator.save_state("state")', '    if accelerator.process_index == 0 and epoch > 1:\n        accelerator.save_state("state")'),
    (GUARD, "accelerator.wait_for_everyone()\n", "if accelerator.is_local_main_process:\n    accelerator.wait_for_everyone()\n"),
    (GUARD, "        predictions, y = accelerator", "        if not accelerator.is_main_process:\n            continue\n        predictions, y = accelerator"),
    (GUARD, "accelerator.unwrap_model(model).state_dict()\nif", "None\nif accelerator.is_main_process:\n    state = accelerator.get_state_dict(model)\nif"),
    ("prepared-object-in-rank-guard", "        with torch.no_grad():\n            predictions", "        if accelerator.is_main_process:\n            predictions"),
    ("prepared-object-in-rank-guard", "            accelerator.backward(loss)", "            if accelerator.is_main_process:\n                accelerator.backward(loss)"),
    ("zero-grad-before-backward-in-accumulate", "            loss = F", "            optimizer.zero_grad()\n            loss = F"),
    ("double-loss-scaling", "F.cross_entropy(model(x), y)\n", "F.cross_entropy(model(x), y) / 2\n"),
    ("double-loss-scaling", "accelerator.backward(loss)", "accelerator.backward(loss / accelerator.gradient_accumulation_steps)"),
    ("forward-bypasses-wrapper", "F.cross_entropy(model(x), y)", "F.cross_entropy(accelerator.unwrap_model(model)(x), y)"),
    ("forward-bypasses-wrapper", "F.cross_entropy(model(x), y)", "F.cross_entropy(model.module(x), y)"),
    ("scheduler-length-mismatch", "scheduler = torch", "train_loader = accelerator.prepare(train_loader)\nscheduler = torch"),
    ("scheduler-step-not-synced", "test_loader, scheduler = accelerator.prepare(model, optimizer, train_loader, test_loader, scheduler)", "test_loader = accelerator.prepare(model, optimizer, train_loader, test_loader)"),
    ("loader-not-prepared", "model, optimizer, train_loader, test_loader, scheduler = accelerator.prepare(model, optimizer, train_loader, ", "model, optimizer, test_loader, scheduler = accelerator.prepare(model, optimizer, "),
    ("metric-without-gather", "        predictions, y = accelerator.gather_for_metrics((predictions, y))\n", ""),
    ("use-gather-for-metrics", "gather_for_metrics", "gather"),
    ("gather-over-unprepared-loader", "train_loader, test_loader, scheduler = accelerator.prepare(model, optimizer, train_loader, test_loader, ", "train_loader, scheduler = accelerator.prepare(model, optimizer, train_loader, "),
    ("rank-dependent-loop-exit", "        done += 1", "        done += 1\n        if time.time() - start > 60:\n            break"),
    ("rank-dependent-loop-exit", "        done += 1", "        done += 1\n        if loss.item() < 0.1:\n            break"),
    ("rank-dependent-loop-exit", "        done += 1", "        done += 1\n        if accelerator.is_main_process and done > 9:\n            break"),
    ("data-dependent-skip", "        done += 1", "        done += 1\n        if not torch.isfinite(x).all():\n            continue\n        accelerator.backward(model(x).sum())"),
    ("raw-backward", "accelerator.backward(loss)", "loss.backward()"),
    ("torch-clip", "accelerator.clip_grad_norm_", "torch.nn.utils.clip_grad_norm_"),
    ("clip-outside-sync", "            if accelerator.sync_gradients:\n                accelerator", "            accelerator"),
    ("save-without-unwrap", "accelerator.unwrap_model(model).state_dict()", "model.state_dict()"),
    ("unguarded-save", "if accelerator.is_main_process:\n    torch.save(", "torch.save("),
    ("load-state-before-prepare", "\nmodel, optimizer, train_loader, test", '\naccelerator.load_state("other")\nmodel, optimizer, train_loader, test'),
    ("non-forward-call-on-prepared-model", "    model.train()", "    model.train()\n    print(model.in_features)"),
    ("graph-edit-after-prepare", "accelerator.register", 'accelerator.unwrap_model(model).add_module("extra", nn.Linear(2, 2))\naccelerator.register'),
    ("rank-dependent-dataset-construction", "set_seed(7)", "set_seed(7 + accelerator.process_index)\ntorch.utils.data.random_split(range(9), [4, 5])"),
    ("hard-coded-device", "start = time", 'extra = torch.ones(1).to("cuda:0")\nstart = time'),
    ("hard-coded-device", "start = time", "torch.cuda.set_device(0)\nstart = time"),
    ("visible-devices-in-script", "import time\n", 'import os\nimport time\n\nos.environ["CUDA_VISIBLE_DEVICES"] = "0,1"\n'),
    ("manual-skip-on-resume", "        with accelerator.acc", "        if step < resume_step:\n            continue\n        with accelerator.acc"),
    ("prepared-twice", "accelerator.register", "train_loader = accelerator.prepare(train_loader)\naccelerator.register"),
    ("wrapper-left", "optimizer = torch.optim", "model = nn.DataParallel(model)\noptimizer = torch.optim"),
    ("main-process-side-effects", "start = time", 'import wandb\n\nwandb.init(project="x")\nstart = time'),
    ("swallowed-exception", "            accelerator.backward(loss)\n", "            try:\n                accelerator.backward(loss)\n            except RuntimeError:\n                torch.cuda.empty_cache()\n"),
    ("native-amp-left", "            accelerator.backward(loss)\n", '            scaler = torch.amp.GradScaler("cuda")\n            scaler.scale(loss).backward()\n            scaler.step(optimizer)\n'),
]
FUNCTIONS = [
    (GUARD, '            save(accelerator, model, "best.pt")', '            if accelerator.is_main_process:\n                save(accelerator, model, "best.pt")'),
    (GUARD, "    accelerator.wait_for_everyone()\n    if", "    if not accelerator.is_main_process:\n        return\n    accelerator.wait_for_everyone()\n    if"),
    (GUARD, "        accuracy = evaluate(", "        accuracy = accelerator.is_main_process and evaluate("),
    ("zero-grad-before-backward-in-accumulate", "            loss = F", "            optimizer.zero_grad()\n            loss = F"),
    ("double-loss-scaling", "accelerator.backward(loss)", "accelerator.backward(loss / accum_steps)"),
    ("forward-bypasses-wrapper", "F.cross_entropy(model(x), y)", "F.cross_entropy(model(x), y) + accelerator.unwrap_model(model).penalty(x)"),
    ("plateau-prepared", "optimizer, train_loader, test_loader = accelerator.prepare(model, optimizer,", "optimizer, plateau, train_loader, test_loader = accelerator.prepare(model, optimizer, plateau,"),
    ("metric-without-gather", "accelerator.gather_for_metrics(right)", "right"),
    ("use-gather-for-metrics", "gather_for_metrics", "gather"),
    ("save-without-unwrap", "accelerator.unwrap_model(model).state_dict()", "model.state_dict()"),
    ("unguarded-save", "    if accelerator.is_main_process:\n        torch.save", "    torch.save"),
    ("non-forward-call-on-prepared-model", "        accelerator.print(epoch, accuracy)", "        accelerator.print(epoch, accuracy, model.width)"),
    ("non-forward-call-on-prepared-model", "F.cross_entropy(model(x), y)", "F.cross_entropy(model(x), y) + model.penalty(x)"),
    ("clip-outside-sync", "            if accelerator.sync_gradients:\n                accelerator", "            accelerator"),
    ("random-control-flow", "        return self.head(self.body(x))", "        return self.head(self.body(x)) if torch.rand(1) < 0.5 else x[:, :2]"),
    ("double-sharding", "batch_size=8, shuffle=True)", "batch_size=8, sampler=torch.utils.data.DistributedSampler(dataset))"),
    ("raw-backward", "accelerator.backward(loss)", "loss.backward()"),
    ("graph-edit-after-prepare", "    best = 0.0", "    accelerator.unwrap_model(model).head = nn.Linear(16, 3)\n    best = 0.0"),
    ("gather-over-unprepared-loader", "train_loader, test_loader = accelerator.prepare(model, optimizer, train_loader, test_loader)", "train_loader = accelerator.prepare(model, optimizer, train_loader)"),
    ("swallowed-exception", "            accelerator.backward(loss)\n", "            try:\n                accelerator.backward(loss)\n            except torch.OutOfMemoryError:\n                continue\n"),
]
TRAINER = [
    (GUARD, '            self.accelerator.save_state("state")', '            if self.accelerator.is_main_process:\n                self.accelerator.save_state("state")'),
    (GUARD, 'trainer.save("model.pt")', 'if trainer.accelerator.is_main_process:\n    trainer.save("model.pt")'),
    (GUARD, "            self.accelerator.print(epoch, self.evaluate())", "            if self.accelerator.is_main_process:\n                print(epoch, self.evaluate())"),
    ("zero-grad-before-backward-in-accumulate", "            loss = F", "            self.optimizer.zero_grad()\n            loss = F"),
    ("double-loss-scaling", "F.cross_entropy(self.model(x), y)", "F.cross_entropy(self.model(x), y) / 2"),
    ("forward-bypasses-wrapper", "F.cross_entropy(self.model(x), y)", "F.cross_entropy(self.accelerator.unwrap_model(self.model)(x), y)"),
    ("rank-dependent-loop-exit", "                    self.accelerator.set_trigger()\n", "                    break\n"),
    ("ema-needs-unwrapped-model", "self.accelerator.unwrap_model(self.model).named_parameters()", "self.model.named_parameters()"),
    ("metric-without-gather", "            right = self.accelerator.gather_for_metrics(right)\n", ""),
    ("use-gather-for-metrics", "gather_for_metrics", "gather"),
    ("save-without-unwrap", "self.accelerator.unwrap_model(self.model).state_dict()", "self.model.state_dict()"),
    ("unguarded-save", "        if self.accelerator.is_main_process:\n            torch.save", "        torch.save"),
    ("repeated-forward-with-buffers", "F.cross_entropy(self.model(x), y)", "F.cross_entropy(self.model(x), y) + self.model(-x).mean()"),
    ("scheduler-step-not-synced", "self.test_loader, self.scheduler = self.accelerator.prepare(model, optimizer, train_loader, test_loader, scheduler)", "self.test_loader = self.accelerator.prepare(model, optimizer, train_loader, test_loader)\n        self.scheduler = scheduler"),
    ("clip-outside-sync", "            if self.accelerator.sync_gradients:\n                self", "            self"),
    ("loader-not-prepared", "self.model, self.optimizer, self.train_loader, self.test_loader, self.scheduler = self.accelerator.prepare(model, optimizer, train_loader, ", "self.train_loader = train_loader\n        self.model, self.optimizer, self.test_loader, self.scheduler = self.accelerator.prepare(model, optimizer, "),
    ("raw-backward", "self.accelerator.backward(loss)", "loss.backward()"),
    ("torch-clip", "self.accelerator.clip_grad_norm_", "nn.utils.clip_grad_norm_"),
    ("non-forward-call-on-prepared-model", "        self.model.eval()", "        self.model.eval()\n        print(self.model.config)"),
]
MUTATIONS = [Mutation(script, *rest) for script, group in (("flat", FLAT), ("functions", FUNCTIONS), ("trainer", TRAINER)) for rest in group]


def reported(text: str) -> set[str]:
    """The rules that report an error or a warning."""
    return {fault.rule for fault in check(program(text), Wanted()).faults if fault.severity is not Severity.INFO}


def _measured() -> Iterator[str]:
    found, total, others = Counter[str](), Counter[str](), Counter[str]()
    for mutation in MUTATIONS:
        rules = reported(mutation.text)
        total[mutation.rule] += 1
        found[mutation.rule] += mutation.rule in rules
        others.update(rules - {mutation.rule})
        if mutation.rule not in rules or rules - {mutation.rule}:
            yield f"{mutation.script}: {mutation.rule}: reported {sorted(rules)}: {mutation.new!r}"
    yield f"{sum(found.values())} of {sum(total.values())} found, {sum(others.values())} other reports"
    for rule in sorted(total):
        yield f"{rule}: {found[rule]} of {total[rule]} found, {others[rule]} reported where another fault is"


if __name__ == "__main__":
    print("\n".join(_measured()))
