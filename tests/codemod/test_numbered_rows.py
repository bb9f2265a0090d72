"""Boxes that bear the number of their image in the batch are not gathered: each process would number its own from 0 on."""

from __future__ import annotations

from codemod.marked import STEP, script
from codemod.memory import after, migrated

COLLATE = """\
def collate(batch):
    images, boxes = zip(*batch)
    for i, each in enumerate(boxes):
        each[:, 0] = i
    return torch.stack(images), torch.cat(boxes, 0)


val_loader = DataLoader(dataset, batch_size=8, collate_fn=collate)
"""
EVALUATION = """\
hits = 0
with torch.no_grad():
    for images, boxes in val_loader:
        out = model(images)
        for i in range(len(out)):
            hits += (boxes[boxes[:, 0] == i] > out[i]).sum().item()
print(hits)
"""


def test_every_process_evaluates_all_and_it_is_said() -> None:
    result = migrated(script(COLLATE + STEP + EVALUATION))
    assert [f.rule for f in result.findings] == ["collate"]
    assert "gather" not in after(result)
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in after(result)
