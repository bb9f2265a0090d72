"""Names and ids of samples are lists of texts: gathered, and on no device."""

from __future__ import annotations

import pytest

from codemod.marked import STEP, script
from codemod.memory import after, migrated

ROWS = """\
class Error(nn.Module):
    def forward(self, out):
        return out.pow(2).mean()


device = torch.device("cuda")


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 30

    def __getitem__(self, i):
        return {sample}


loader = DataLoader(Rows(), batch_size=8)
"""


@pytest.mark.parametrize(
    ("sample", "head", "kept", "becomes"),
    [
        ('{"x": torch.randn(8), "id": f"row_{i}"}', "batch", 'batch["id"]', 'accelerator.gather_for_metrics(batch["id"])'),
        ('torch.randn(8), "row %d" % i', "x, names", "names", "accelerator.gather_for_metrics(names)"),
        ('{"x": torch.randn(8), "id": torch.tensor(i)}', "batch", 'batch["id"]', 'accelerator.gather_for_metrics(batch["id"]).cpu()'),
    ],
)
def test_texts_of_a_batch_are_gathered_as_a_list(sample: str, head: str, kept: str, becomes: str) -> None:
    rows = 'batch["x"]' if head == "batch" else "x"
    evaluation = f"kept, total, error = [], 0.0, Error()\nwith torch.no_grad():\n    for {head} in loader:\n        total += error(model({rows}.to(device))).item() if total < 9 else 0\n        kept.extend({kept})\nprint(kept)\n"
    step = STEP.replace("x, y in", f"{head} in").replace("(x)", f"({rows}.to(device))").replace("F.cross_entropy(out, y)", "out.pow(2).mean()")
    result = migrated(script(ROWS.replace("{sample}", sample) + step + evaluation))
    assert f"        kept.extend({becomes})\n" in after(result)
