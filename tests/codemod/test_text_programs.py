"""Kinds of code in text and mixed-precision programs: the emitted lines and the findings."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from accel_migrate.migrate import migrate
from accel_migrate.project import load_project
from accel_migrate.result import Options, Result
from codemod.conftest import Files

SCRIPT = """\
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

{top}
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
{setup}
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randint(0, 2, (8,))), batch_size=4, shuffle=True{collate})
model = nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{before}
for x, y in loader:
    x, y = x.to(device), y.to(device)
{step}
"""
STEP = """
loss = F.cross_entropy(model(x), y)
optimizer.zero_grad()
loss.backward()
optimizer.step()
"""


def migrated(files: Files, top: str = "", setup: str = "", before: str = "", step: str = STEP, collate: str = "", ignore: str = "") -> Result:
    parts = {"top": dedent(top), "setup": dedent(setup), "before": dedent(before), "step": indent(dedent(step), "    ")}
    folder = files({"train.py": SCRIPT.format(collate=f", collate_fn={collate}" if collate else "", **parts)})
    return migrate(load_project(folder / "train.py"), Options(ignore=frozenset({ignore} - {""})))


def text_of(result: Result) -> str:
    assert result.status == "changed", result.reason
    return result.changes[0].after


def rules_of(result: Result) -> list[str]:
    return sorted({finding.rule for finding in result.findings})


AMP = """
with torch.autocast(device_type=device.type, dtype={dtype}, enabled={enabled}):
    loss = F.cross_entropy(model(x), y)
optimizer.zero_grad()
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
"""


@pytest.mark.parametrize(
    ("setup", "dtype", "enabled", "expected"),
    [
        ("dtype = torch.bfloat16", "dtype", "True", 'mixed_precision="bf16"'),
        ("", "torch.float16", 'device.type == "cuda"', 'mixed_precision="fp16" if torch.cuda.is_available() else "no"'),
        ("use_amp = device.type != 'cpu'", "torch.float16", "use_amp", 'mixed_precision="fp16" if torch.cuda.is_available() else "no"'),
        (
            "dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16", "dtype", "True",
            'mixed_precision="bf16" if torch.cuda.is_bf16_supported() else "fp16"',
        ),
    ],
)  # fmt: skip
def test_the_precision_is_known_where_the_accelerator_is_made(files: Files, setup: str, dtype: str, enabled: str, expected: str) -> None:
    before = f"scaler = torch.amp.GradScaler(enabled={enabled})"
    text = text_of(migrated(files, setup=setup, before=before, step=AMP.format(dtype=dtype, enabled=enabled)))
    assert expected in text
    assert "scaler" not in text


def test_a_scaler_passed_on_goes_with_its_parameter(files: Files) -> None:
    top = """
    def update(loss, scaler, optimizer):
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    """
    text = text_of(migrated(files, top=top, before="scaler = torch.cuda.amp.GradScaler()", step="update(F.cross_entropy(model(x), y), scaler, optimizer)"))
    assert "def update(loss, optimizer)" in text or "def update(loss, optimizer, accelerator)" in text
    assert "scaler" not in text


def test_options_of_the_scaler_are_reported(files: Files) -> None:
    result = migrated(files, before="scaler = torch.amp.GradScaler(init_scale=1024)", step="scaler.scale(F.cross_entropy(model(x), y)).backward()")
    assert rules_of(result) == ["native-amp"]


@pytest.mark.parametrize(
    ("step", "rule"),
    [
        ("loss = F.mse_loss(model(x)[:, :1].squeeze(), y.float())\nloss.backward()", "squeeze-rows"),
        ("try:\n    F.cross_entropy(model(x), y).backward()\nexcept RuntimeError:\n    continue", "swallowed-exception"),
    ],
)
def test_what_needs_a_decision_is_reported(files: Files, step: str, rule: str) -> None:
    assert rules_of(migrated(files, step=step)) == [rule]


@pytest.mark.parametrize(
    ("step", "rule"),
    [
        ("h = model(x)\nloss = F.cross_entropy(h @ h.T, torch.arange(len(x), device=device))\nloss.backward()", "batch-coupling"),
        ("loss = torch.cdist(model(x), model(x)).mean()\nloss.backward()", "batch-coupling"),
        ("h = model(x)\nloss = F.cosine_similarity(h.unsqueeze(1), h.unsqueeze(0), dim=-1).mean()\nloss.backward()", "batch-coupling"),
        ("loss = torch.sqrt(F.mse_loss(model(x)[:, 0], y.float()))\nloss.backward()", "mixed-reduction"),
        ("p = model(x).sigmoid()[:, 0]\nloss = 1 - 2 * (p * y).sum() / (p.sum() + y.sum())\nloss.backward()", "mixed-reduction"),
    ],
)
def test_a_loss_of_the_whole_batch_is_computed_from_it(files: Files, step: str, rule: str) -> None:
    result = migrated(files, step=step)
    assert rules_of(result) == []
    assert "accelerator.gather_with_grad(" in text_of(result)
    assert rules_of(migrated(files, step=step, ignore="whole-batch-loss")) == [rule]


@pytest.mark.parametrize(
    "step",
    [
        "attention = model(x).unsqueeze(2) @ model(x).unsqueeze(1)\nloss = attention.mean()\nloss.backward()",
        "loss = F.mse_loss(model(x)[:, :1].squeeze(-1), y.float())\nloss.backward()",
        "try:\n    F.cross_entropy(model(x), y).backward()\nexcept RuntimeError as error:\n    print(error)\n    raise",
        "losses = {'a': F.cross_entropy(model(x), y), 'b': F.cross_entropy(model(x), y)}\nloss = sum(losses.values())\nloss.backward()",
    ],
)
def test_what_is_right_goes_without_a_word(files: Files, step: str) -> None:
    result = migrated(files, step=step)
    assert rules_of(result) == []
    assert "reduction=" not in text_of(result)


@pytest.mark.parametrize(
    ("body", "is_global"),
    [
        ("return nn.utils.rnn.pad_sequence([x for x, _ in batch], batch_first=True), torch.stack([y for _, y in batch])", True),
        ("return torch.stack([x for x, _ in batch]), torch.stack([y for _, y in batch])", False),
    ],
)
def test_whole_batches_are_collated_where_samples_depend_on_each_other(files: Files, body: str, is_global: bool) -> None:
    result = migrated(files, top=f"def collate(batch):\n    {body}\n", collate="collate")
    assert rules_of(result) == []
    assert ('collate="global"' in text_of(result)) is is_global


def test_samples_along_another_dimension_are_reported(files: Files) -> None:
    body = "return nn.utils.rnn.pad_sequence([x for x, _ in batch]), torch.stack([y for _, y in batch])"
    assert rules_of(migrated(files, top=f"def collate(batch):\n    {body}\n", collate="collate")) == ["batch-layout"]


def test_a_question_about_a_loss_is_about_the_global_one(files: Files) -> None:
    text = text_of(migrated(files, step="loss = F.cross_entropy(model(x), y)\nif not torch.isfinite(loss):\n    continue\nloss.backward()"))
    assert "if not torch.isfinite(accelerator.global_mean(loss)):" in text


def test_marks_of_ignored_targets_count(files: Files) -> None:
    text = text_of(migrated(files, step="y[x[:, 0] > 0] = -100\nloss = F.cross_entropy(model(x), y.view(-1))\nloss.backward()"))
    assert "accelerator.backward(loss, weight=(y != -100).sum())" in text


def test_branches_around_moves_go(files: Files) -> None:
    text = text_of(migrated(files, setup="use_cuda = torch.cuda.is_available()", before="if use_cuda:\n    model = model.cuda()"))
    assert "use_cuda" not in text
    assert "pass" not in text


def test_a_set_seed_of_another_kind_stays(files: Files) -> None:
    text = text_of(migrated(files, top="def set_seed(args):\n    torch.manual_seed(args['seed'])\n", before="set_seed({'seed': 1})"))
    assert "torch.manual_seed(args['seed'])" in text


@pytest.mark.parametrize(
    "save",
    [
        "torch.save(model.state_dict(), 'out/best.pt')",
        "import os\ntorch.save(model.state_dict(), 'tmp')\nos.replace('tmp', os.path.join('out', 'best.pt'))",
    ],
)
def test_a_file_of_this_run_is_waited_for(files: Files, save: str) -> None:
    text = text_of(migrated(files, step=f"{STEP}\n{save}\nname = 'best.pt'\nmodel.load_state_dict(torch.load('out/' + name))"))
    assert "    accelerator.wait_for_everyone()\n    model.load_state_dict(" in text


def test_a_constant_switch_decides_the_precision(files: Files) -> None:
    before = "use_amp = False\nscaler = torch.amp.GradScaler(enabled=use_amp)"
    assert "mixed_precision" not in text_of(migrated(files, before=before, step="scaler.scale(F.cross_entropy(model(x), y)).backward()"))


def test_the_denominator_inside_a_library_model_is_asked_for(files: Files) -> None:
    top = "from transformers import AutoModelForCausalLM, DataCollatorForLanguageModeling\nnet = AutoModelForCausalLM.from_pretrained('gpt2')\n"
    before = "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)"
    result = migrated(files, top=top, before=before, step="loss = net(input_ids=x, labels=y).loss\nloss.backward()")
    assert rules_of(result) == ["weighted-mean"]


@pytest.mark.parametrize("name", ["tqdm.write", "bar.write"])
def test_lines_above_a_progress_bar_are_written_once(files: Files, name: str) -> None:
    step = f'{STEP}{name}(f"loss {{loss.item()}}")'
    text = text_of(migrated(files, top="from tqdm import tqdm", before="bar = tqdm(range(2))", step=step))
    assert "    global_loss = accelerator.global_mean(loss).item()\n    if accelerator.is_main_process:\n" in text
    assert f'        {name}(f"loss {{global_loss}}")' in text


def test_a_model_returns_no_rows_where_it_is_given_none(files: Files) -> None:
    top = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x, y=None):
            out = self.layer(x)
            return out, None if y is None else F.cross_entropy(out, y)
    """
    step = """
    logits, loss = net(x, y)
    loss.backward()
    optimizer.step()
    """
    loop = "net = Net().to(device)\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\nbatches = iter(loader)"
    end = 'z = torch.zeros(1, 4)\nlogits, _ = net(z)\nz = torch.cat((z, logits), 1)\nprint(z[0].tolist(), logits.tolist())\n'
    script = SCRIPT.format(top=dedent(top), setup="", before=loop, step=indent(dedent(step), "    ") + end, collate="")
    script = script.replace("for x, y in loader:", "for _ in range(2):\n    x, y = next(batches)")
    folder = files({"train.py": script})
    assert "print(z[0].tolist(), logits.tolist())" in text_of(migrate(load_project(folder / "train.py"), Options()))
