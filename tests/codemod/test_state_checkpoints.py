"""`--checkpoint state`: what becomes of checkpoints written by hand, and what keeps them as they are."""

from __future__ import annotations

import pytest

from accel_migrate.edits import Finding
from accel_migrate.migrate import migrate
from accel_migrate.result import Options, Result
from codemod.memory import after, program

START = """\
import argparse
import os
import shutil

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--resume")
args = parser.parse_args()
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(99, 8), torch.randint(2, (99,))), batch_size=8)
"""
LOAD = """\
start_epoch = 0
if args.resume:
    checkpoint = torch.load(args.resume)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    start_epoch = checkpoint["epoch"] + 1
"""
LOOP = """\
for epoch in range(start_epoch, 9):
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
"""
SAVE = (
    '    torch.save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, args.resume)\n'
)


def converted(code: str, start: str = START) -> Result:
    return migrate(program(start + code), Options(checkpoint="state"))


def found(result: Result) -> list[Finding]:
    return [finding for finding in result.findings if finding.rule == "state-checkpoint"]


def test_files_keep_their_format_unless_asked_for() -> None:
    text = after(migrate(program(START + LOAD + LOOP + SAVE), Options()))
    assert "accelerator.save({" in text and "checkpoint = torch.load(args.resume)" in text


def test_a_result_is_left_alone() -> None:
    text = after(converted(LOAD + LOOP + SAVE))
    assert "accelerator.counters.update(epoch=epoch)\n    accelerator.save_state(args.resume)\n" in text
    again = converted(text, "")
    assert (again.status, found(again)) == ("unchanged", [])


UNDER_THE_SAME_NAME = """\
    checkpoint = {"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(checkpoint, args.resume)
"""


def test_what_is_saved_may_have_the_name_of_what_was_loaded() -> None:
    result = converted(LOAD + LOOP + UNDER_THE_SAME_NAME)
    assert found(result) == [] and "accelerator.load_state(args.resume)" in after(result) and "torch.load" not in after(result)
    again = LOAD.replace("if args.resume", "while args.resume") + "    args.resume = checkpoint['next']\n    checkpoint = {}\n"
    assert found(converted(again + LOOP + SAVE)), "the next turn may see either"


HINDRANCES = {
    "a condition": (
        LOAD.replace("    optimizer.load", "    if not args.tune:\n        optimizer.load") + LOOP + SAVE,
        "a condition decides",
    ),
    "a part": (LOAD.replace('["model"])', '["model"], strict=False)') + LOOP + SAVE, "only a part of the state"),
    "the whole": (LOAD.replace("    start", "    print(checkpoint)\n    start") + LOOP + SAVE, "used as a whole"),
    "changed weights": (
        LOAD.replace('checkpoint["model"])', '{k[7:]: v for k, v in checkpoint["model"].items()})') + LOOP + SAVE,
        "'model' is read and no checkpoint",
    ),
    "another object": (
        LOAD.replace(
            'optimizer.load_state_dict(checkpoint["optimizer"])', 'optimizer.load_state_dict(checkpoint["opt"])'
        )
        + LOOP
        + SAVE,
        "'opt' is not saved from the object",
    ),
    "a file that is moved": (
        LOAD + LOOP + SAVE + '    os.replace(args.resume, "best.pt")\n',
        "is moved, copied or removed",
    ),
    "an old one removed": (LOAD + LOOP + SAVE + "    os.remove(args.resume)\n", "is moved, copied or removed"),
    "a dictionary in use": (
        LOAD
        + LOOP
        + '    state = {"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}\n'
        + "    torch.save(state, args.resume)\n    upload(state)\n",
        "is used for more than to save it",
    ),
    "no dictionary": (
        LOAD
        + LOOP
        + "    torch.save(dict(epoch=epoch, model=model.state_dict(), optimizer=optimizer.state_dict()), args.resume)\n",
        "is not written down as a dictionary",
    ),
    "states of several": (
        LOAD + LOOP + SAVE.replace('"epoch": epoch', '"epoch": epoch, "all": [m.state_dict() for m in [model]]'),
        "the states in 'all' are not those of one object",
    ),
}


@pytest.mark.parametrize("case", HINDRANCES)
def test_what_keeps_checkpoints_as_they_are_is_said(case: str) -> None:
    code, message = HINDRANCES[case]
    result = converted(code)
    (finding,) = found(result)
    assert message in finding.message and "save_state" not in after(result) and "accelerator.save(" in after(result)


def test_the_block_goes_below_the_preparation() -> None:
    lines = START.splitlines(keepends=True)
    early = "".join(lines[:-1]) + LOAD + lines[-1]
    text = after(converted(LOOP + SAVE, early))
    assert text.index("accelerator.prepare(") < text.index("if args.resume:") < text.index("accelerator.load_state(")


def test_what_reads_between_keeps_the_block_and_is_reported() -> None:
    lines = START.splitlines(keepends=True)
    early = "".join(lines[:-1]) + LOAD + "seen = start_epoch * 2\n" + lines[-1]
    result = converted(LOOP + SAVE, early)
    (finding,) = found(result)
    assert "line 21 needs `start_epoch` before" in finding.message
    assert after(result).index("accelerator.load_state(") < after(result).index("accelerator.prepare(")


def test_a_load_without_a_condition_goes_below_too() -> None:
    lines = START.splitlines(keepends=True)
    load = LOAD.replace("if args.resume:\n", "").replace("    ", "")
    text = after(converted(LOOP + SAVE, "".join(lines[:-1]) + load + lines[-1]))
    assert (
        "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\n"
        'accelerator.load_state(args.resume)\nstart_epoch = accelerator.counters["epoch"] + 1\n'
    ) in text


def test_files_of_weights_stay_files() -> None:
    best = '    torch.save(model.state_dict(), "best.pt")\n    torch.save({"model": model.state_dict(), "names": 3}, "m.pt")\n'
    text = after(converted(LOAD + LOOP + SAVE + best))
    assert text.count("accelerator.save(") == 2 and text.count("save_state(") == 1


def test_weights_from_a_state_and_looks_for_it() -> None:
    test = 'if os.path.isfile("last.pt"):\n    best = torch.load("last.pt")\n    model.load_state_dict(best["model"])\n'
    code = (
        (LOAD + LOOP + SAVE)
        .replace("args.resume)", '"last.pt")')
        .replace("if args.resume", 'if os.path.isfile("last.pt")')
    )
    text = after(converted(code + test))
    assert text.count('os.path.exists("last.pt")') == 2
    assert text.endswith('if os.path.exists("last.pt"):\n    accelerator.load_model(model, "last.pt")\n')


def test_a_state_of_mid_epoch_goes_on_in_its_epoch() -> None:
    save = "".join(f"    {line}\n" for line in ["    if step % 9 == 0:", f"        {SAVE.strip()}"])
    loop = LOOP.replace("for x, y in loader", "for step, (x, y) in enumerate(loader)")
    text = after(converted(LOAD + loop + save))
    assert 'start_epoch = accelerator.counters["epoch"]\n' in text
    assert "for step, (x, y) in enumerate(loader, loader.batches_seen):" in text
    assert "for epoch in accelerator.epochs(9, start_epoch):" in text
    result = converted(LOAD + loop + save.replace('"epoch": epoch', '"epoch": epoch + 1'))
    assert "may be the epoch after" in found(result)[0].message


def test_keys_that_are_no_names_and_long_ones() -> None:
    save = SAVE.replace('"epoch": epoch', '"epoch": epoch, "best acc": 0.5')
    assert 'accelerator.counters.update({"epoch": epoch, "best acc": 0.5})' in after(converted(LOAD + LOOP + save))
    long = SAVE.replace('"epoch": epoch', f'"epoch": epoch, "name": "{"x" * 90}"')
    expected = f'    accelerator.counters.update(\n        epoch=epoch,\n        name="{"x" * 90}",\n    )\n'
    assert expected in after(converted(LOAD + LOOP + long))


def test_what_nothing_loads_is_told() -> None:
    (finding,) = found(converted("start_epoch = 0\n" + LOOP + SAVE))
    assert "nothing loads the state" in finding.message


def test_another_target_is_refused(tmp_path, capsys) -> None:
    from accel_migrate.command.cli import main

    script = tmp_path / "train.py"
    script.write_text(START + LOAD + LOOP + SAVE)
    assert main([str(script), "--checkpoint", "state", "--target", "accelerate"]) == 2
    assert "--checkpoint state needs --target accel_runtime" in capsys.readouterr().err


def test_a_scaler_that_may_be_off_comes_back_with_the_state() -> None:
    start = START + 'parser.add_argument("--amp", action="store_true")\nscaler = torch.amp.GradScaler(enabled=args.amp)\n'
    load = LOAD + '    scaler.load_state_dict(checkpoint["scaler"])\n'
    loop = LOOP.replace("loss.backward()", "scaler.scale(loss).backward()").replace("optimizer.step()", "scaler.step(optimizer)\n        scaler.update()")
    text = after(converted(load + loop + SAVE.replace('"epoch": epoch', '"epoch": epoch, "scaler": scaler.state_dict()'), start))
    assert "    accelerator.load_state(args.resume)\n    start_epoch = " in text and "scaler" not in text.split("prepare(")[1]
