"""Gradients with respect to the rows of a batch: where their size matters they get the scale of the global batch."""

from __future__ import annotations

import pytest

from accel_migrate.result import Options
from codemod.marked import script
from codemod.memory import after, migrated

STEP = """\
{functions}for x, y in loader:
    x.requires_grad_()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    {use}
    optimizer.step()
"""
SIGN = "def attack(x, gradient):\n    return x + 0.1 * gradient.sign()\n\n\n"


def attacked(use: str, functions: str = "", target: str = "accel_runtime") -> str:
    """The lines of the step after the backward pass."""
    text = after(migrated(script(STEP.format(functions=functions, use=use.replace("\n", "\n    "))), Options(target=target)))
    return text.partition("accelerator.backward(loss)\n")[2].partition("\n    optimizer.step()")[0].replace("\n    ", "\n").strip()


@pytest.mark.parametrize(
    "use",
    [
        "x = x + 0.1 * x.grad.sign()",
        "x = x + 0.1 * torch.sign(x.grad)",
        "data_grad = x.grad.data\nx = attack(x, data_grad)",
        "g = x.grad.detach()\nx = x + g.sign()",
        "x.grad.zero_()",
        "x.grad = None",
        "assert x.grad is not None",
    ],
)
def test_where_only_the_sign_counts_nothing_changes(use: str) -> None:
    assert attacked(use, SIGN) == use


@pytest.mark.parametrize(
    ("use", "becomes"),
    [
        ("x = x + 0.1 * x.grad", "x = x + 0.1 * (x.grad / accelerator.num_processes)"),
        ("g = x.grad.data.clone()", "g = x.grad.data.clone() / accelerator.num_processes"),
        ("n = x.grad.flatten(1).norm(dim=1)", "n = (x.grad / accelerator.num_processes).flatten(1).norm(dim=1)"),
    ],
)
@pytest.mark.parametrize("target", ["accel_runtime", "accelerate"])
def test_elsewhere_it_is_that_of_the_global_batch(use: str, becomes: str, target: str) -> None:
    assert attacked(use, target=target) == becomes


@pytest.mark.parametrize("loss", ["F.cross_entropy(model(x), y, reduction='sum')", "model(x).sum()", "model(x)[:, 0], x, torch.ones_like(x[:, 0])"])
def test_gradients_of_sums_and_of_outputs_stay(loss: str) -> None:
    call = f"g, = torch.autograd.grad({loss}{'' if ', x,' in loss else ', x'})"
    assert attacked(call) == call


def test_a_mean_gets_its_share() -> None:
    assert attacked("g = torch.autograd.grad(loss, [x])[0]") == "g = torch.autograd.grad(loss * (len(x) / accelerator.global_len(x)), [x])[0]"


def test_gradients_of_parameters_are_not_meant() -> None:
    assert attacked("n = model[0].weight.grad.norm()") == "n = model[0].weight.grad.norm()"


def test_a_denominator_that_is_no_number_of_rows_is_reported() -> None:
    code = STEP.format(functions="", use="g, = torch.autograd.grad(F.cross_entropy(model(x), y, ignore_index=0), x)")
    assert "input-gradients" in {finding.rule for finding in migrated(script(code)).findings}


def test_outputs_with_a_gradient_for_each_row_add_up() -> None:
    code = "for x, y in loader:\n    scores = model(x)[:, 0]\n    scores.backward(torch.ones_like(scores))\n    optimizer.step()"
    assert 'accelerator.backward(scores, reduction="sum", gradient=torch.ones_like(scores))' in after(migrated(script(code)))
