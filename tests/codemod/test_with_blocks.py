"""What is made and used inside a `with` block is prepared there."""

from __future__ import annotations

from codemod.marked import STEP, script
from codemod.memory import after, migrated

VALIDATE = """\
def validate(model, rows):
    total = 0.0
    with torch.no_grad():
        fresh = DataLoader(rows, batch_size=4)
        for x, y in fresh:
            total += F.cross_entropy(model(x), y).item()
    return total


print(validate(model, dataset))
"""


def test_a_loader_made_in_a_block_is_prepared_before_its_loop() -> None:
    text = after(migrated(script(STEP + "\n\n" + VALIDATE)))
    assert text.index("fresh = accelerator.prepare(fresh)") < text.index("for x, y in fresh:")
