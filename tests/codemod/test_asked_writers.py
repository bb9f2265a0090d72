"""Writers that every process asks for their folder; classes that take whatever they are given; models looked for in a wrapper."""

from __future__ import annotations

from codemod.marked import STEP, in_step, script
from codemod.memory import after, migrated

HEAD = "import os\nfrom torch.utils.tensorboard import SummaryWriter\n"


def test_a_writer_that_is_asked_for_its_folder_stays() -> None:
    code = 'writer = SummaryWriter("runs")\n'
    told = after(migrated(HEAD + code + in_step('writer.add_scalar("loss", loss.item(), 0)')))
    asked = after(
        migrated(HEAD + code + in_step('torch.save(model.state_dict(), os.path.join(writer.log_dir, "last.pt"))'))
    )
    assert 'SummaryWriter("runs") if accelerator.is_main_process else None' in told
    assert 'writer = SummaryWriter("runs")\n' in asked


TRAINER = """\
class Trainer:
    def __init__(self, *args, **kwargs):
        self.model = kwargs["model"]
        self.optimizer = kwargs["optimizer"]

    def train(self, loader):
        for x, y in loader:
            loss = F.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimizer.step()


def main():
    loader = DataLoader(dataset, batch_size=8)
    model = nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = Trainer(model=model, optimizer=optimizer)
    trainer.train(loader)


main()
"""
IMPORTS = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n\nfrom data import dataset\n\n\n"


def test_a_class_that_takes_whatever_it_is_given_gets_the_accelerator_by_name() -> None:
    text = after(migrated(IMPORTS + TRAINER))
    assert "def __init__(self, *args, accelerator, **kwargs):\n        self.accelerator = accelerator\n" in text
    assert "Trainer(model=model, optimizer=optimizer, accelerator=accelerator)" in text


SAVED = """\
model = nn.DataParallel(model)
if hasattr(model, "module"):
    state = model.module.state_dict()
else:
    state = model.state_dict()
torch.save(state, "last.pt")
"""


def test_a_model_taken_out_of_its_wrapper_has_no_prefix() -> None:
    assert "wrapped-keys" not in [f.rule for f in migrated(script(STEP + SAVED)).findings]


def test_a_lambda_that_makes_a_model_has_no_block() -> None:
    code = "make = lambda width: nn.Sequential(nn.Linear(8, width))\n\n\ndef build():\n    model = make(2)\n    return model, torch.optim.SGD(model.parameters(), lr=0.1)\n\n\nrun = lambda: build()\nmodel, optimizer = run()\n"
    assert "accelerator.backward(loss)" in after(migrated(script(code + STEP)))
