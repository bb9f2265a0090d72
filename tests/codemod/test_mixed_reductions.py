"""A loss whose terms have different reductions, and that is not to be computed from the whole batch: what to write for it, and its global value in logs."""

from __future__ import annotations

import pytest

from accel_migrate.result import Options, Result
from codemod.marked import script
from codemod.memory import after, migrated

STEP = """\
for x, y in loader:
    out = model(x)
    ce = F.cross_entropy(out, y, ignore_index=-1)
    aux = out.pow(2).mean()
    {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""
WEIGHT = "weight=(y != -1).sum()"
LATER = "sync=False, retain_graph=True"


def local(loss: str) -> Result:
    """The step with this loss of each process's own rows."""
    text = script(STEP.format(loss=loss.replace("\n", "\n    ")))
    return migrated(text, Options(ignore=frozenset({"whole-batch-loss"})))


def advice(loss: str) -> str:
    """What the finding at the backward pass says to write."""
    found = [f for f in local(loss).findings if f.rule == "mixed-reduction"]
    assert len(found) == 1
    return found[0].advice


@pytest.mark.parametrize(
    ("loss", "lines"),
    [
        ("loss = ce + 0.1 * aux", f"accelerator.backward(ce, {WEIGHT}, {LATER}); accelerator.backward(0.1 * aux)"),
        ("loss = 0.1 * aux\nloss += ce", f"accelerator.backward(ce, {WEIGHT}, {LATER}); accelerator.backward(0.1 * aux)"),
        ("loss = aux - out.sum()", f'accelerator.backward(-out.sum(), reduction="sum", {LATER}); accelerator.backward(aux)'),
        ("loss = 2 * (ce + aux)", f"accelerator.backward(2 * ce, {WEIGHT}, {LATER}); accelerator.backward(2 * aux)"),
        ("norm = model[0].weight.norm()\nloss = ce + aux + norm", f"accelerator.backward(ce, {WEIGHT}, {LATER}); accelerator.backward(aux + norm)"),
    ],
)
def test_the_lines_to_write_are_given(loss: str, lines: str) -> None:
    assert advice(loss) == f"write {lines}"


@pytest.mark.parametrize("loss", ["loss = (ce + aux).sqrt()", "loss = ce\nif aux > 1:\n    loss += aux", "loss = ce + out.max()"])
def test_where_the_terms_cannot_be_told_apart_it_says_what_to_do(loss: str) -> None:
    assert advice(loss).startswith("call accelerator.backward on each term")


def test_what_is_logged_is_the_sum_of_the_global_terms() -> None:
    result = after(local("loss = ce - 0.1 * aux"))
    assert f"accelerator.print((accelerator.global_mean(ce, {WEIGHT}) - accelerator.global_mean(0.1 * aux)).item())" in result


def test_terms_that_would_be_computed_again_are_reported_instead() -> None:
    result = local("loss = F.cross_entropy(out, y) + out.sum()")
    assert "local-figure" in {finding.rule for finding in result.findings}
