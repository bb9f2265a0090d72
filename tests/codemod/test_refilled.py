"""Tensors that are made once and filled with each batch, and what else is known of losses out of sight."""

from __future__ import annotations

from codemod.marked import STEP, script
from codemod.memory import after, migrated

FILL = """\
image = torch.zeros(1)
label = torch.zeros(1)


def fill(place, rows):
    place.data.resize_(rows.size()).copy_(rows)


for x, y in loader:
    optimizer.zero_grad()
    image.resize_as_(x).copy_(x)
    fill(label, y)
    loss = F.cross_entropy(model(image), label)
    loss.backward()
    optimizer.step()
    print(loss.item())
"""


def test_a_tensor_that_is_filled_with_the_batch_holds_its_rows() -> None:
    result = migrated(script(FILL))
    assert "accelerator.global_mean(loss).item()" in after(result)
    assert not result.findings


def test_an_unknown_loss_over_the_number_of_rows_is_told() -> None:
    code = STEP.replace("F.cross_entropy(out, y)", "strange(7) / len(x)")
    result = migrated(script("from somewhere import strange\n" + code))
    assert {f.rule for f in result.findings} == {"unknown-reduction"}


def test_what_an_assertion_complains_of_is_the_figure_of_its_process() -> None:
    code = STEP + "    assert x.numel() > 8, 'only {} numbers'.format(x.numel())\n"
    assert "'only {} numbers'.format(x.numel())" in after(migrated(script(code)))
