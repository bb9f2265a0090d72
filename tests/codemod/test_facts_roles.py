"""Who is taken for what. Evidence beats names: first what a name alone must not make of a value."""

from __future__ import annotations

import pytest

from accel_migrate.facts.values import Role
from codemod.marked import STEP, marked, script
from codemod.memory import migrated

MODULE = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def forward(self, x):
        return self.layer(x)

"""
NOTHING = {
    "a number named model": "model = 3\n«model»",
    "a string named device": "device = 'train'\n«device»",
    "a list named loader": "loader = [1, 2, 3]\n«loader»",
    "a function named optimizer": "def optimizer():\n    return 1\n«optimizer()»",
    "a dict named scheduler": "scheduler = {'step': 3}\n«scheduler['step']»",
    "a tensor": "«torch.ones(3)»",
    "a data set": "«len(dataset)»",
    "the parameter of a function that nobody calls": "def f(model):\n    «model»",
    "an import of nothing known": "from somewhere import thing\n«thing»",
    "a class, not its instance": MODULE + "«Net»",
    "the name of an activation function": "«F.relu»",
}
OTHER_ROLE = {
    "an optimizer named model": ("model = torch.optim.Adam(net.parameters())\n«model»", Role.OPTIMIZER),
    "a model named optimizer": ("optimizer = nn.Linear(2, 2)\n«optimizer»", Role.MODEL),
    "a loader named model": ("model = DataLoader(dataset)\n«model»", Role.LOADER),
    "a criterion named model": ("model = nn.MSELoss()\n«model»", Role.CRITERION),
}
ROLES = {
    "a layer": ("«nn.Linear(2, 2)»", Role.MODEL),
    "a module of the project": (MODULE + "net = Net()\n«net»", Role.MODEL),
    "a module that derives from one of the project": (MODULE + "class Wide(Net):\n    pass\nnet = Wide()\n«net»", Role.MODEL),
    "a module after .to": ("net = nn.Linear(2, 2).to('cuda')\n«net»", Role.MODEL),
    "a module after .train()": ("net = nn.Linear(2, 2)\nnet = net.train()\n«net»", Role.MODEL),
    "a compiled module": ("net = torch.compile(nn.Linear(2, 2))\n«net»", Role.MODEL),
    "a wrapped module": ("net = nn.DataParallel(nn.Linear(2, 2))\n«net»", Role.MODEL),
    "a module from a list": ("nets = [nn.Linear(2, 2), nn.Linear(2, 2)]\n«nets[1]»", Role.MODEL),
    "a module from a dict": ("nets = {'g': nn.Linear(2, 2)}\n«nets['g']»", Role.MODEL),
    "a module from torchvision": ("import torchvision\nnet = torchvision.models.resnet18()\n«net»", Role.MODEL),
    "something unknown whose parameters are trained": (
        "from somewhere import build\nnet = build()\noptimizer = torch.optim.SGD(net.parameters())\n«net»",
        Role.MODEL,
    ),
    "a module from a factory of the project": ("def build():\n    return nn.Linear(2, 2)\nnet = build()\n«net»", Role.MODEL),
    "a module by way of a parameter": ("def f(anything):\n    «anything»\nf(nn.Linear(2, 2))", Role.MODEL),
    "a module by way of *args": ("def f(*anything):\n    «anything»\nf(nn.Linear(2, 2))", Role.MODEL),
    "a module by way of a default": ("def f(net=nn.Linear(2, 2)):\n    «net»\nf()", Role.MODEL),
    "a module in an attribute": (
        "class Trainer:\n    def __init__(self, net):\n        self.net = net\n    def run(self):\n        «self.net»\nTrainer(nn.Linear(2, 2)).run()",
        Role.MODEL,
    ),
    "a module in a dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass Parts:\n    net: nn.Module\nparts = Parts(nn.Linear(2, 2))\n«parts.net»",
        Role.MODEL,
    ),
    "an optimizer chosen by name": ("optimizer = getattr(torch.optim, name)(model.parameters())\n«optimizer»", Role.OPTIMIZER),
    "an optimizer from a dict of classes": (
        "kinds = {'sgd': torch.optim.SGD, 'adam': torch.optim.Adam}\noptimizer = kinds[name](model.parameters())\n«optimizer»",
        Role.OPTIMIZER,
    ),
    "an optimizer with its own import": ("from torch.optim import AdamW as Best\n«Best(model.parameters())»", Role.OPTIMIZER),
    "an optimizer of the project": (
        "class Lion(torch.optim.Optimizer):\n    pass\noptimizer = Lion(model.parameters())\n«optimizer»",
        Role.OPTIMIZER,
    ),
    "an optimizer in a tuple": ("def make():\n    return model, torch.optim.SGD(model.parameters())\na, b = make()\n«b»", Role.OPTIMIZER),
    "a scheduler": ("scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)\n«scheduler»", Role.SCHEDULER),
    "a scheduler that looks at a metric": (
        "scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\n«scheduler»",
        Role.METRIC_SCHEDULER,
    ),
    "a scheduler of transformers": (
        "from transformers import get_linear_schedule_with_warmup\ns = get_linear_schedule_with_warmup(optimizer, 1, 2)\n«s»",
        Role.SCHEDULER,
    ),
    "a loader": ("«loader»", Role.LOADER),
    "a loader of the project": ("class Mine(DataLoader):\n    pass\nmine = Mine(dataset)\n«mine»", Role.LOADER),
    "one of two loaders": ("train, test = DataLoader(dataset), DataLoader(dataset)\n«test»", Role.LOADER),
    "a loader from a comprehension": ("loaders = {k: DataLoader(dataset) for k in ('train', 'test')}\n«loaders['test']»", Role.LOADER),
    "a scaler": ("scaler = torch.amp.GradScaler('cuda')\n«scaler»", Role.SCALER),
    "a device": ("device = torch.device('cpu')\n«device»", Role.DEVICE),
    "a device in a string": ("device = 'cuda:0'\n«device»", Role.DEVICE),
    "a device by condition": ("device = 'cuda' if torch.cuda.is_available() else 'cpu'\n«device»", Role.DEVICE),
    "a loss module": ("criterion = nn.CrossEntropyLoss()\n«criterion»", Role.CRITERION),
    "a writer": ("from torch.utils.tensorboard import SummaryWriter\nw = SummaryWriter()\n«w»", Role.WRITER),
    "a progress bar": ("from tqdm import tqdm\nbar = tqdm(loader)\n«bar»", Role.PROGRESS),
    "a logger": ("import logging\nlog = logging.getLogger(__name__)\n«log»", Role.LOGGER),
}


@pytest.mark.parametrize("code", NOTHING.values(), ids=NOTHING)
def test_is_nothing_that_trains(code: str) -> None:
    assert marked(script(code)).roles <= {Role.OBJECT}


@pytest.mark.parametrize(("code", "role"), OTHER_ROLE.values(), ids=OTHER_ROLE)
def test_is_what_it_is_and_not_what_it_is_called(code: str, role: Role) -> None:
    assert marked(script(f"net = nn.Linear(2, 2)\n{code}")).roles == {role}


@pytest.mark.parametrize(("code", "role"), ROLES.values(), ids=ROLES)
def test_has_the_role(code: str, role: Role) -> None:
    assert role in marked(script(code)).roles


def test_both_branches_count() -> None:
    assert marked(script("thing = model if flag else loader\n«thing»")).roles == {Role.MODEL, Role.LOADER}


def test_a_teacher_that_no_optimizer_knows_is_not_trained() -> None:
    found = marked(script("teacher = nn.Linear(8, 2)\n«teacher»\n" + STEP))
    (teacher,) = found.facts.of(found.node)
    assert teacher.site not in found.facts.trained_models()
    assert len(found.facts.trained_models()) == 1


def test_a_partial_of_itself_ends() -> None:
    code = "from functools import partial\ndef build(layer):\n    layer = partial(layer, 8)\n    return layer(2)\nbuild(build(build(nn.Linear)))\nlayer = nn.Linear\nfor _ in range(3):\n    layer = partial(layer, 8)\n    layer(2)"
    assert migrated(script(code)).status == "refused"
