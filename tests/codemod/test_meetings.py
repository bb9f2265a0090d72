"""Gathered rows and rows of one process do not meet."""

from __future__ import annotations

from accel_migrate.migrate import migrate
from accel_migrate.result import Options
from codemod.marked import STEP, script
from codemod.memory import after, program

NAMED = """\
scores = {}
for x, y, names in loader:
    optimizer.zero_grad()
    out = model(x)
    loss = F.cross_entropy(out, y)
    loss.backward()
    optimizer.step()
    for name, score in zip(names, out.detach().softmax(1)[:, 0].cpu().numpy()):
        scores[name] = float(score)
"""
TAUGHT = """\
teacher = nn.Linear(8, 2)
taught = []
for x, y in loader:
    output = teacher(x).data.cpu().numpy()
    taught.append(output)
for i, (x, y) in enumerate({loader}):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), torch.from_numpy(taught[i]))
    loss.backward()
    optimizer.step()
"""
POOLED = """\
pool = []
def push_and_pop(rows):
    taken = []
    for row in rows.detach():
        pool.append(row.cpu())
        taken.append(pool[random.randrange(len(pool))])
    return torch.stack(taken)
for x, y in loader:
    optimizer.zero_grad()
    loss = F.mse_loss(model(push_and_pop(x)), y)
    loss.backward()
    optimizer.step()
"""


def migrated(code: str) -> tuple[str, list[str]]:
    result = migrate(program(script("import numpy as np\nimport random\n" + code), {}), Options())
    return after(result), [finding.rule for finding in result.findings]


def test_names_beside_gathered_rows_are_gathered() -> None:
    text, findings = migrated(NAMED)
    assert "zip(accelerator.gather_for_metrics(names), accelerator.gather_for_metrics(" in text
    assert findings == []


def test_names_under_a_condition_of_their_own_are_reported() -> None:
    lines = NAMED.replace("zip(names, out.detach().softmax(1)[:, 0].cpu().numpy())", "zip(names, kept)")
    lines = lines.replace("    for name", "    kept = out.detach().softmax(1)[:, 0].cpu().numpy()\n    if random.random() < 0.5:\n     for name")
    text, findings = migrated(lines)
    assert "kept-rows" in findings
    assert "gather_for_metrics" not in text


def test_rows_read_by_the_number_of_their_batch_stay_on_their_process() -> None:
    text, findings = migrated(TAUGHT.format(loader="loader"))
    assert "gather" not in text
    assert findings == []


def test_rows_read_in_another_loader_are_reported() -> None:
    _text, findings = migrated("other = DataLoader(dataset, batch_size=16)\n" + TAUGHT.format(loader="other"))
    assert "kept-rows" in findings


def test_rows_gathered_in_an_evaluation_loop_and_read_in_training_are_reported() -> None:
    kept = TAUGHT.format(loader="loader").replace("output = teacher(x).data.cpu().numpy()", "output = teacher(x)")
    text, findings = migrated(kept.replace("torch.from_numpy(taught[i])", "taught[i].detach()"))
    assert "kept-rows" in findings or "gather" not in text


def test_an_order_of_the_rows_stays_that_of_its_process() -> None:
    step = STEP.replace("    loss.backward", "    order = np.argsort(y.cpu().numpy())\n    loss = F.cross_entropy(out[order[:9]], y[order[:9]])\n    loss.backward")
    text, findings = migrated(step)
    assert "kept-rows" in findings
    assert "np.argsort(y.cpu().numpy())" in text


def test_a_figure_of_gathered_rows_may_meet_rows() -> None:
    text, findings = migrated(STEP + "    share = y.cpu().numpy().mean()\n    print((y > share).float().mean().item())\n")
    assert "accelerator.gather_for_metrics(y.cpu()).numpy().mean()" in text
    assert "kept-rows" not in findings


def test_a_table_of_all_samples_is_filled_for_the_whole_batch() -> None:
    text, findings = migrated("bank = torch.zeros(96, 2)\n" + STEP + "    with torch.no_grad():\n        bank[y] = 0.5 * bank[y] + 0.5 * out\n")
    assert "bank[accelerator.gather_for_metrics(y)] = 0.5 * accelerator.gather_for_metrics(bank[y]) + 0.5 * accelerator.gather_for_metrics(out)" in text
    assert "kept-rows" not in findings


ONE_HOT = """\
def one_hot(y, classes):
    table = np.zeros((y.shape[0], classes))
    table[range(y.shape[0]), y] = 1.0
    return torch.FloatTensor(table)


for x, y in loader:
    optimizer.zero_grad()
    target = one_hot(y.numpy(), 2)
    loss = F.mse_loss(model(x), target)
    loss.backward()
    optimizer.step()
"""


def test_an_entry_of_each_row_is_found_on_its_process() -> None:
    text, findings = migrated(ONE_HOT)
    assert "gather" not in text
    assert findings == []


def test_pooled_rows_are_followed_through_a_model_of_the_program() -> None:
    judge = "class Judge(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.layer = nn.Linear(2, 1)\n\n    def forward(self, x):\n        return self.layer(x)\n\n\njudge = Judge()\n"
    judge += "critic = torch.optim.SGD(judge.parameters(), lr=0.1)\n"
    pool = "class Pool:\n    def __init__(self):\n        self.rows = []\n\n    def exchange(self, rows):\n        taken = []\n        for row in rows.data:\n            row = torch.unsqueeze(row, 0)\n            self.rows.append(row)\n"
    pool += "            taken.append(self.rows[random.randrange(len(self.rows))])\n        return torch.cat(taken)\n\n\npool = Pool()\n"
    step = "    old = pool.exchange(out)\n    fault = F.mse_loss(judge(old.detach()), torch.zeros(x.size(0), 1))\n    critic.zero_grad()\n    fault.backward()\n    critic.step()\n"
    text, findings = migrated("import random\n" + judge + pool + STEP + step)
    assert "kept-rows" in findings
    assert "pool.exchange(out)" in text
