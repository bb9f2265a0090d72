"""What becomes of checkpoints when the file system fails: a full disk, errors of every call, slowness, read-only folders, damage.

    python benchmarks/checkpoint_faults.py [--processes 2]

Each row injects one kind of fault in as many places as there are: in the first call of its kind while a checkpoint is saved, in the
second, and so on. A good checkpoint is there before. A row of the table: how many faults; after how many of them the save told all
processes; how many saves went well in spite of it; after how many the newest complete checkpoint loads, with the weights it was saved
with; how often something was left behind; and lost checkpoints, of which there must be none.
"""

from __future__ import annotations

import argparse
import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from forked import results
from timing import ROOT, table

sys.path[:0] = [str(ROOT / "runtime"), str(ROOT / "codemod")]

import torch  # noqa: E402
import torch._dynamo  # noqa: E402  (the first optimizer imports it: once here instead of in every child)
from torch import nn  # noqa: E402

MANY = 200
Fault = Callable[[int, Path], Any]


class Counted:
    """Lets call number `at` of a kind fail, or be slow; counts the calls."""

    def __init__(self, at: int, number: int) -> None:
        self.at, self.number, self.calls = at, number, 0

    def __call__(self, *unused: Any) -> None:
        self.calls += 1
        if self.calls == self.at + 1:
            if self.number == 0:
                time.sleep(0.2)
                return
            raise OSError(self.number, os.strerror(self.number))


@contextmanager
def replaced(owner: Any, name: str, check: Counted) -> Iterator[Counted]:
    plain = getattr(owner, name)

    def checked(*args: Any, **kwargs: Any) -> Any:
        check()
        return plain(*args, **kwargs)

    setattr(owner, name, checked)
    try:
        yield check
    finally:
        setattr(owner, name, plain)


@contextmanager
def writing(number: int, at: int, folder: Path) -> Iterator[Counted]:
    """Writing a piece of a file."""
    from accel_runtime.checkpoint import tensor_files

    with replaced(tensor_files, "_write_all", Counted(at, number)) as check:
        yield check


@contextmanager
def calling(name: str, number: int, at: int, folder: Path) -> Iterator[Counted]:
    """A call of the system."""
    with replaced(os, name, Counted(at, number)) as check:
        yield check


_AUDITED: list[tuple[Path, Counted]] = []


def _audit(event: str, args: Any) -> None:
    if (
        event == "open"
        and _AUDITED
        and isinstance(args[0], str)
        and args[0].startswith(str(_AUDITED[0][0]))
        and args[1] not in (None, "r", "rb")
    ):
        _AUDITED[0][1]()


@contextmanager
def opening(number: int, at: int, folder: Path) -> Iterator[Counted]:
    """Opening a file to write."""
    check = Counted(at, number)
    _AUDITED[:] = [(folder, check)]
    try:
        yield check
    finally:
        _AUDITED.clear()


@contextmanager
def limited(at: int, folder: Path) -> Iterator[Counted]:
    """No file may become larger than so many kilobytes."""
    check = Counted(at, 0)
    check.calls = 0 if at > 40 else at + 1
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (at * 1024, hard))
    try:
        yield check
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class Training:
    """A small model that is trained a step at a time."""

    def __init__(self, folder: Path) -> None:
        from accel_runtime import Accelerator, ProjectConfiguration

        project = ProjectConfiguration(str(folder), automatic_checkpoint_naming=True)
        self.accelerator = Accelerator(cpu=True, project_config=project)
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 1))
        self.model, self.optimizer = self.accelerator.prepare(model, torch.optim.AdamW(model.parameters()))

    def step(self) -> list[torch.Tensor]:
        self.optimizer.zero_grad()
        self.accelerator.backward(self.model(torch.randn(4, 64)).square().mean())
        self.optimizer.step()
        return [p.detach().clone() for p in self.model.parameters()]

    def holds(self, weights: list[torch.Tensor]) -> bool:
        return all(torch.equal(p, w) for p, w in zip(self.model.parameters(), weights, strict=True))


def inject(folder: Path, fault: Callable[[int, Path], Any], where: int) -> dict[str, int]:
    """Save under each fault of a kind, on process `where`, until there is no such call any more."""
    from accel_runtime.checkpoint.errors import CheckpointError

    training = Training(folder)
    rank = training.accelerator.process_index
    good = training.step()
    training.accelerator.save_state()
    training.accelerator.wait_for_checkpoint()
    found = dict.fromkeys(("faults", "told", "saved", "loaded", "left", "lost"), 0)
    for at in range(MANY):
        then = training.step()
        check, told = Counted(-2, 0), False
        try:
            with fault(at, folder) if rank == where else nullcontext(check) as check:
                training.accelerator.save_state()
                training.accelerator.wait_for_checkpoint()
        except CheckpointError:
            told = True
        hit = training.accelerator.reduce(torch.tensor(float(check.calls > at and rank == where)), "sum").item()
        if not hit:
            break
        good = good if told else then
        training.step()
        training.accelerator.load_state()
        fine = training.holds(good)
        found["faults"] += 1
        found["told"] += told
        found["saved"] += not told
        found["loaded"] += fine
        found["lost"] += not fine
        found["left"] += any(path.name.startswith(".") for path in (folder / "checkpoints").iterdir())
        training.accelerator.wait_for_everyone()
    return found


def damaged(folder: Path, harm: Callable[[Path], None]) -> dict[str, int]:
    """Damage each file of the newest of two checkpoints; the one before has to be loaded, with a warning."""
    training = Training(folder)
    good = training.step()
    training.accelerator.save_state()
    training.accelerator.wait_for_checkpoint()
    training.step()
    newest = Path(training.accelerator.save_state())
    training.accelerator.wait_for_checkpoint()
    found = dict.fromkeys(("faults", "told", "saved", "loaded", "left", "lost"), 0)
    for path in sorted(newest.iterdir()):
        content = path.read_bytes() if training.accelerator.is_main_process else b""
        training.accelerator.wait_for_everyone()
        if training.accelerator.is_main_process:
            harm(path)
        training.accelerator.wait_for_everyone()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            training.accelerator.load_state()
        found["faults"] += 1
        found["told"] += (
            any("passing over" in str(w.message) for w in caught) or not training.accelerator.is_main_process
        )
        found["loaded"] += training.holds(good)
        found["lost"] += not training.holds(good)
        training.accelerator.wait_for_everyone()
        if training.accelerator.is_main_process:
            path.write_bytes(content)
        training.accelerator.wait_for_everyone()
    return found


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)


def shorten(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


@contextmanager
def mounted(size: str) -> Iterator[Path | None]:
    """A file system of its own in memory; None where mounting is not allowed."""
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True)
    try:
        yield folder if mount.returncode == 0 else None
    finally:
        if mount.returncode == 0:
            subprocess.run(["umount", str(folder)], check=False)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def filled(at: int, folder: Path) -> Iterator[Counted]:
    """All but so many times 4 KB of the disk are taken."""
    check, filler = Counted(at, 0), folder / "filler"
    check.calls = 0 if at > 24 else at + 1
    left = os.statvfs(folder)
    with open(filler, "wb") as file:
        file.write(b"\0" * max(left.f_bavail * left.f_frsize - at * 4096, 0))
    try:
        yield check
    finally:
        filler.unlink()


@contextmanager
def read_only(at: int, folder: Path) -> Iterator[Counted]:
    """The file system is mounted read-only."""
    check = Counted(at, 0)
    check.calls = int(at == 0)
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    try:
        yield check
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)


def rows() -> Iterator[tuple[str, Callable[[Path], dict[str, int]], str]]:
    """Name, experiment, and the size of a file system of its own."""
    kinds: dict[str, Fault] = {
        "no space (ENOSPC) in the n-th write": lambda at, folder: writing(errno.ENOSPC, at, folder),
        "error (EIO) in the n-th write": lambda at, folder: writing(errno.EIO, at, folder),
        "EIO in the n-th fsync": lambda at, folder: calling("fsync", errno.EIO, at, folder),
        "EIO in the n-th open": lambda at, folder: opening(errno.EIO, at, folder),
        "read-only (EROFS) in the n-th open": lambda at, folder: opening(errno.EROFS, at, folder),
        "EIO in the n-th rename": lambda at, folder: calling("rename", errno.EIO, at, folder),
        "EIO in the n-th replace": lambda at, folder: calling("replace", errno.EIO, at, folder),
        "the n-th write is slow": lambda at, folder: writing(0, at, folder),
        "the n-th fsync is slow": lambda at, folder: calling("fsync", 0, at, folder),
        "files of at most n KB": lambda at, folder: limited(at, folder),
    }
    for name, fault in kinds.items():
        for where in (0, 1):
            yield f"{name}, process {where}", lambda folder, fault=fault, where=where: inject(folder, fault, where), ""
    yield "a disk with n x 4 KB left", lambda folder: inject(folder, filled, 0), "2m"
    yield "a disk that becomes read-only", lambda folder: inject(folder, read_only, 0), "64m"
    yield "a bit flips in the n-th file", lambda folder: damaged(folder, flip), ""
    yield "the n-th file loses a byte", lambda folder: damaged(folder, shorten), ""
    yield "the n-th file is lost", lambda folder: damaged(folder, Path.unlink), ""


def measure(experiment: Callable[[Path], dict[str, int]], size: str, processes: int) -> dict[str, int] | None:
    if not size:
        with tempfile.TemporaryDirectory(prefix="faults-") as name:
            return results(lambda: experiment(Path(name)), processes)[0]
    with mounted(size) as folder:
        return results(lambda: experiment(folder), processes)[0] if folder is not None else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    sys.addaudithook(_audit)
    lines = []
    for name, experiment, size in rows():
        if name.endswith("process 1") and options.processes == 1:
            continue
        found = measure(experiment, size, options.processes)
        lines.append(
            [name, *(str(n) for n in found.values())]
            if found is not None
            else [name, "not allowed to mount", *[""] * 5]
        )
    header = ["fault", "faults", "told on all", "saved all the same", "newest whole one loads", "left behind", "lost"]
    for line in table(header, lines):
        print(line)


if __name__ == "__main__":
    main()
