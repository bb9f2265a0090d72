"""Moves that go, with the comments and conditions that were there for them, and moves that stay."""

from __future__ import annotations

from codemod.marked import STEP, in_step, script
from codemod.memory import after, migrated

HEAD = "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"


def loop(code: str) -> str:
    """A training loop that begins with `code`."""
    lines = STEP.splitlines()
    return after(
        migrated(script(HEAD + "\n".join([lines[0], *("    " + line for line in code.splitlines()), *lines[1:]])))
    )


def test_a_comment_about_moves_goes_with_them() -> None:
    text = loop("# move the batch to the device\nx = x.to(device)\ny = y.to(device)\n\n")
    assert "# move" not in text


def test_a_comment_about_something_else_stays() -> None:
    text = loop("# x: a batch of rows\nx = x.to(device)\n\n# to the GPU, then on\ny = y.to(device)")
    assert "# x: a batch" in text
    assert "# to the GPU, then on\n    optimizer" in text


def test_branches_that_only_moved_the_model_go() -> None:
    code = """\
name = 'vgg'
if torch.cuda.device_count() > 8:
    print('many')
elif device.type == 'cuda':
    # all of them
    if name.startswith('vgg'):
        model[0] = nn.DataParallel(model[0])
        model.cuda()
    else:
        model = nn.DataParallel(model).cuda()
else:
    model.to(device)
"""
    text = after(migrated(script(HEAD + code + STEP)))
    assert "elif" not in text and "pass" not in text and "all of them" not in text


def test_a_model_that_was_parked_on_the_cpu_comes_back() -> None:
    code = "model.eval().cpu()\ntorch.save(model.state_dict(), 'net.pt')\nmodel.to(accelerated).train()"
    text = after(migrated(in_step(code).replace("for x, y", "accelerated = torch.device('cuda')\nfor x, y", 1)))
    assert "model.to(accelerator.device).train()" in text


def test_the_index_of_the_device_is_the_accelerators_choice() -> None:
    assert "set_device" not in after(migrated(script("torch.accelerator.set_device_index(0)\n" + STEP)))


def test_a_batch_that_is_reshaped_first_is_on_the_device_too() -> None:
    text = loop("x = x.view(x.size(0), -1).float().to(device)\ny = y.reshape(-1).to(device)")
    assert "x = x.view(x.size(0), -1).float()\n    y = y.reshape(-1)\n" in text


def test_rows_that_became_an_array_on_the_host_still_do() -> None:
    code = (
        STEP
        + "with torch.no_grad():\n    for x, y in loader:\n        out = model(x.to(device)).argmax(1)\n        show(out.cpu().numpy() == y.view(-1).numpy())\n"
    )
    text = after(migrated(script("from somewhere import show\n" + HEAD + code)))
    assert "y.cpu().view(-1).numpy()" in text


def test_the_index_goes_with_the_choice_of_the_device() -> None:
    code = """\
if torch.accelerator.is_available():
    if index is not None:
        torch.accelerator.set_device_index(index)
    device = torch.accelerator.current_accelerator()
else:
    device = torch.device("cpu")
model.to(device)
"""
    text = after(migrated(script("from somewhere import index\n" + code + STEP)))
    assert "set_device_index" not in text and "backward(loss)" in text
