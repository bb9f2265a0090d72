"""From the scripts on the command line to the jobs that run them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from accel_migrate.errors import UserError
from accel_migrate.notebook.notebook import read_notebook
from accel_migrate.verify.job import OF_NOTEBOOK, Job
from accel_migrate.verify.warm import PRELOADED

_WORTH_PRELOADING = ("sklearn.datasets", "scipy", "pandas", "torchvision", "tqdm", "torch.utils.tensorboard", "accelerate", "transformers", "datasets", "matplotlib")
_DISTRIBUTED = re.compile(r"\binit_process_group\s*\(")
_STARTS = re.compile(r"\bspawn\s*\(|\b(?:notebook|debug)_launcher\s*\(|\bstart_processes\s*\(")
_STARTS_ONE = re.compile(r"\bProcess\s*\(\s*(?:target|$)", re.MULTILINE)
_HANDLED = re.compile(r"^\s*(?:from|import)\s+(?:accel_runtime|accelerate)\b", re.MULTILINE)


def job_for(script: Path, args: Sequence[str], module: str = "", changed: Mapping[Path, str] | None = None, home: str = ".") -> Job:
    """The script in a copy of the working directory, or of its own folder if it lies elsewhere.

    `changed` are other texts for files; `home` is the folder that holds the module.

    Raises:
        UserError: it cannot be run so.
    """
    if script.is_dir():
        raise UserError(f"{script}: is a folder; give the script that is run")
    if not script.is_file():
        raise UserError(f"{script}: there is no such file")
    place, here = Path(os.path.abspath(script)), Path.cwd()
    folder = here if place.is_relative_to(here) else place.parent
    texts = {_inside(path, folder): text for path, text in (changed or {}).items()}
    name = place.relative_to(folder).as_posix()
    text = texts.get(name) or _text(place)
    if place.suffix == ".ipynb":
        texts.pop(name, None)
        name = f"{name.removesuffix('.ipynb')}{OF_NOTEBOOK}"
        texts[name] = text
    makes_group = bool(_DISTRIBUTED.search(text))
    starts = bool(_STARTS.search(text)) or (makes_group and bool(_STARTS_ONE.search(text)))
    distributed = starts or (makes_group and not _HANDLED.search(text))
    return Job(folder, name, tuple(args), module=module, home=home, changed=texts, distributed=distributed, starts_processes=starts)


def _text(script: Path) -> str:
    """Of a script, or of a notebook as a script.

    Raises:
        UserError: it is no notebook.
    """
    if script.suffix != ".ipynb":
        return script.read_text(encoding="utf-8", errors="replace")
    notebook = read_notebook(script, script.read_bytes())
    return notebook.marked_script(notebook.text)


def _inside(path: Path, folder: Path) -> str:
    place = Path(os.path.abspath(path))
    if not place.is_relative_to(folder):
        raise UserError(f"{path}: lies outside of {folder}, which is copied to run the script; run the command from a folder that holds both")
    return place.relative_to(folder).as_posix()


def preloads(jobs: Sequence[Job]) -> tuple[str, ...]:
    """What to import once for all runs: torch, and large libraries that the scripts name."""
    text = "\n".join(part for job in jobs for part in (*job.changed.values(), _text_of(job)))
    return (*PRELOADED, *(name for name in _WORTH_PRELOADING if re.search(rf"\b{re.escape(name.split('.')[-1])}\b", text)))


def _text_of(job: Job) -> str:
    path = job.folder / job.script
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
