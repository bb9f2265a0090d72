"""Figures that are kept as tensors beyond their batch become global where they are kept."""

from __future__ import annotations

import pytest

from codemod.marked import STEP, in_step, script
from codemod.memory import after, migrated


def step(code: str, before: str = "", behind: str = "") -> str:
    """What becomes of lines at the end of each training step."""
    lines = code.replace("\n", "\n    ")
    text = after(migrated(script(f"{before}\n{STEP}    {lines}\n{behind}")))
    return text.partition("    optimizer.step()\n    ")[2].replace("\n    ", "\n").strip()


@pytest.mark.parametrize(
    ("before", "code", "behind", "becomes"),
    [
        ("", "last = loss.detach()", "print(last)", "last = accelerator.global_mean(loss)"),
        ("", "last = loss.detach().clone().cpu()", "print(last)", "last = accelerator.global_mean(loss.detach().clone().cpu())"),
        ("", "hits = (out.argmax(1) == y).sum()", "print(hits)", "hits = accelerator.global_sum((out.argmax(1) == y).sum())"),
        ("best = 9", "if step:\n    best = loss.data", "print(best)", "if step:\n    best = accelerator.global_mean(loss)"),
        ("mean = 0", "mean = 0.9 * mean + 0.1 * loss.detach()", "", "mean = 0.9 * mean + 0.1 * accelerator.global_mean(loss)"),
        ("low = torch.ones(())", "low = torch.minimum(low, loss.detach())", "", "low = torch.minimum(low, accelerator.global_mean(loss))"),
        ("low = torch.ones(())", "low = torch.min(loss.detach(), low)", "", "low = torch.min(accelerator.global_mean(loss), low)"),
        ("seen = torch.zeros(9)", "seen[step] = loss.detach()", "", "seen[step] = accelerator.global_mean(loss)"),
        ("seen = torch.zeros(9)", "seen[step] = loss", "", "seen[step] = accelerator.global_mean(loss)"),
        ("seen = {}", "seen[step] = loss.detach()", "", "seen[step] = accelerator.global_mean(loss)"),
        ("total = torch.zeros(())", "total.add_(loss.detach())", "", "total.add_(accelerator.global_mean(loss))"),
    ],
)
def test_it_is_global_from_there_on(before: str, code: str, behind: str, becomes: str) -> None:
    assert step(code, before, behind).startswith(becomes)


@pytest.mark.parametrize(
    ("before", "code", "behind"),
    [
        ("", "last = loss.detach()\nscale = last * 2", ""),
        ("", "if step:\n    last = loss.detach()\n    scale = last * 2", ""),
        ("", "last = loss.detach()", "last = 3\nprint(last)"),
        ("", "last = loss", "pass"),
    ],
)
def test_what_ends_with_the_batch_stays(before: str, code: str, behind: str) -> None:
    assert "global" not in step(code, before, behind)


def test_what_a_backward_pass_starts_from_stays() -> None:
    code = "weights = torch.ones(2)\nfor x, y in loader:\n    loss = F.cross_entropy(model(x), y) * weights[0]\n    weights[0] = loss\n    loss.backward()\n    optimizer.step()"
    assert "weights[0] = loss\n" in after(migrated(script(code)))


def test_attributes_that_somebody_reads() -> None:
    head = "class Run:\n    def step(self, x, y):\n        loss = F.cross_entropy(model(x), y)\n        loss.backward()\n        self.last = loss.detach()\n        self.idle = loss.detach()\n\n\nrun = Run()\n"
    text = after(migrated(script(f"{head}for x, y in loader:\n    run.step(x, y)\n    optimizer.step()\nprint(run.last.item())")))
    assert "self.last = accelerator.global_mean(loss)\n        self.idle = loss.detach()" in text
    assert "accelerator.print(run.last.item())" in text


def test_figures_in_a_dict_call_are_global() -> None:
    assert "global_mean" in after(migrated(in_step("state = dict(loss=loss.detach())\nprint(state['loss'])")))


@pytest.mark.parametrize(
    ("code", "becomes"),
    [
        ("kept.append(out.detach())", "kept.append(accelerator.gather_for_metrics(out.detach()))"),
        ("kept.append(out.argmax(1))", "kept.append(accelerator.gather_for_metrics(out.argmax(1)))"),
        ("kept.append(y)", "kept.append(accelerator.gather_for_metrics(y))"),
        ("kept.append((x, y))", "kept.append((x, y))"),
        ("kept.append(out)", "kept.append(out)"),
    ],
)
def test_rows_kept_in_training_are_those_of_the_global_batch(code: str, becomes: str) -> None:
    assert step(code, "kept = []", "total = torch.cat(kept).float().mean()\nprint(total)").startswith(becomes)


def test_a_bank_of_rows_is_that_of_the_global_batches() -> None:
    code = "bank = []\nfor x, y in loader:\n    out = model(x)\n    bank.append(out.detach())\n    loss = F.cross_entropy(out, y) + torch.cat(bank).mean()\n    loss.backward()\n    optimizer.step()"
    assert "bank.append(accelerator.gather_for_metrics(out.detach()))" in after(migrated(script(code)))


def test_a_running_mean_that_enters_the_loss_is_global() -> None:
    code = "base = 0\nfor x, y in loader:\n    rows = F.cross_entropy(model(x), y, reduction='none')\n    loss = ((rows.detach() - base) * rows).mean()\n    base = 0.9 * base + 0.1 * rows.detach().mean()\n    loss.backward()\n    optimizer.step()"
    assert "base = 0.9 * base + 0.1 * accelerator.global_mean(rows.detach().mean())" in after(migrated(script(code)))


@pytest.mark.parametrize("bound", ["32", "batch_size", "args.batch_size"])
def test_a_batch_is_left_out_by_its_global_size(bound: str) -> None:
    assert step(f"if x.size(0) < {bound}:\n    continue", "batch_size = 32").startswith(f"if accelerator.global_len(x) < {bound}:")


@pytest.mark.parametrize("model", ["model", "unknown.net", "unknown.make()"])
def test_the_loss_itself_stays_even_of_unknown_models(model: str) -> None:
    code = f"import unknown\nfor x, y in loader:\n    loss = F.cross_entropy({model}(x), y)\n    loss.backward()\n    optimizer.step()\nprint(loss.item())"
    assert f"    loss = F.cross_entropy({model}(x), y)\n    accelerator.backward(loss)" in after(migrated(script(code)))
