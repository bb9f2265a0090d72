"""Objects made by class methods, by one factory for all roles, and made anew under the same names."""

from __future__ import annotations

from accel_migrate.migrate import migrate
from accel_migrate.result import Options
from codemod.memory import after, migrated, program

TRAINING = """\
for x, y in loader:
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
ANEW = f"""\
import torch
from torch import nn
from torch.utils.data import DataLoader

loader = DataLoader(data, batch_size=4)
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
{TRAINING}
net = nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
{TRAINING}"""


def test_what_is_made_anew_after_a_training_is_prepared_each_time() -> None:
    text = after(migrated(ANEW))
    assert "net, opt, loader = accelerator.prepare(net, opt, loader)" in text
    assert "\nnet, opt = accelerator.prepare(net, opt)" in text


def test_a_model_that_is_wrapped_after_a_training_is_the_same_one() -> None:
    text = after(migrated(ANEW.rpartition("net = nn.Linear(4, 2)")[0] + "net = torch.compile(net)\n" + TRAINING))
    assert "net, opt, loader = accelerator.prepare(net, opt, loader)" in text and text.count(".prepare(") == 1


FACTORY = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
import loaders
import nets


class Settings:
    def __init__(self, values):
        self.values = values

    @classmethod
    def read(cls, path):
        return cls(open(path).read())

    def make(self, kind, module, *args):
        return getattr(module, self.values[kind])(*args)


settings = Settings.read("settings")
loader = settings.make("loader", loaders)
net = settings.make("net", nets)
opt = settings.make("optimizer", torch.optim, net.parameters())
for x, y in loader:
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
NETS = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        return self.layer(x)
"""
LOADERS = """\
from torch.utils.data import DataLoader


class Loader(DataLoader):
    def __init__(self):
        super().__init__(range(90), batch_size=8)
"""


def test_one_factory_makes_loader_model_and_optimizer() -> None:
    text = after(migrate(program(FACTORY, {"nets": NETS, "loaders": LOADERS}), Options()))
    assert "net, opt, loader = accelerator.prepare(net, opt, loader)" in text


METRICS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


def accuracy(output, target):
    correct = 0
    correct += (output.argmax(1) == target).sum().item()
    return correct / len(target)


def top(output, target, k=2):
    best = output.topk(k, 1)[1]
    correct = 0
    for i in range(k):
        correct += (best[:, i] == target).sum().item()
    return correct / len(target)


def rows(output, target):
    return target.dim()


def main():
    loader = DataLoader(data, batch_size=4)
    net = nn.Linear(4, 3)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    kept = []
    for x, y in loader:
        out = net(x)
        loss = nn.functional.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        for metric in [accuracy, top, rows]:
            kept.append(metric(out, y))
    print(sum(kept))


main()
"""


def test_metrics_in_a_list_all_take_the_accelerator_once_and_return_global_rates() -> None:
    result = migrated(METRICS)
    text = after(result)
    assert not result.findings
    assert "kept.append(metric(out, y, accelerator=accelerator))" in text
    assert "def accuracy(output, target, accelerator):" in text and "def rows(output, target, accelerator):" in text
    assert text.count("return correct / accelerator.global_len(target)") == 2


LABELLED = """\
import torch
import transformers
from torch.utils.data import DataLoader

model = transformers.GPT2LMHeadModel.from_pretrained("gpt2")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(data, batch_size=4)
total = 0
for x in loader:
    loss, logits = model(input_ids=x, labels=x)[:2]
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.item()
print(total)
"""


def test_the_first_output_of_a_model_that_was_given_labels_is_its_loss() -> None:
    result = migrated(LABELLED)
    assert not result.findings and "total += accelerator.global_mean(loss).item()" in after(result)


def test_the_level_of_a_logger_from_a_table_of_levels_stays_one_of_logging() -> None:
    text = METRICS.replace("import torch\n", "import logging\nimport torch\n", 1).replace(
        "    kept = []\n", "    kept = []\n    logging.getLogger('run').setLevel(LEVELS[1])\n"
    )
    assert 'setLevel(LEVELS[1] if accelerator.is_main_process else "WARNING")' in after(migrated(text))
