"""Scripts whose whole program stands under `if __name__ == "__main__":`."""

from __future__ import annotations

import textwrap

from codemod.marked import START
from codemod.memory import after, migrated

BODY = """\
args = parser.parse_args()
logging.basicConfig(level=logging.INFO)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model.to(device)
scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
for x, y in loader:
    with torch.autocast("cuda", enabled=args.amp):
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


def test_settings_read_there_are_known_where_the_accelerator_is_made() -> None:
    imports, _, makers = START.partition("dataset = ")
    head = f'import argparse\nimport logging\n{imports}\nparser = argparse.ArgumentParser()\nparser.add_argument("--amp", action="store_true")\n'
    body = BODY.replace("model.to(device)\n", f"dataset = {makers}model.to(device)\n")
    text = after(migrated(head + '\nif __name__ == "__main__":\n' + textwrap.indent(body, "    ")))
    assert "mixed_precision=" in text and "args.amp" in text.partition("Accelerator(")[2].partition("\n")[0]
    assert text.index("args = parser") < text.index("= Accelerator(")
