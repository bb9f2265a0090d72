"""Shell scripts beside the training script that start it on several processes: what they should say now."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Iterator
from pathlib import Path

from accel_migrate.facts.rank_names import LAUNCHER_ARGUMENTS
from accel_migrate.facts.ranks import argument_name
from accel_migrate.project import Project

LAUNCHERS = ("torchrun", "torch.distributed.run", "torch.distributed.launch", "multiproc")
WORDS = (*LAUNCHERS, "--local_rank", "--local-rank", "--multiprocessing-distributed", "--world-size", "--world_size", "--dist-url", "--dist_url", "mpirun", "srun")
RENAMED = {
    "nproc_per_node": "num_processes", "nnodes": "num_machines", "node_rank": "machine_rank",
    "master_addr": "main_process_ip", "master_port": "main_process_port",
}  # fmt: skip
MOST_FILES = 50


def launch_notes(before: Project, after: Project, command: str) -> list[str]:
    """One line for each command in a shell script nearby that starts the program with processes of its own."""
    gone = (_arguments(before) - _arguments(after)) | set(LAUNCHER_ARGUMENTS)
    notes = []
    for path in _scripts(before.entry.path):
        for number, line in _commands(path):
            words = _split(line)
            place = next((i for i, w in enumerate(words) if w.rpartition("/")[2] == before.entry.path.name), None)
            if place is not None and any(word in line for word in WORDS):
                notes.append(f"{path}:{number} starts it with processes of its own; write: {_rewritten(words, place, gone, command)}")
    return notes


def _scripts(entry: Path) -> Iterator[Path]:
    folders = [entry.parent, entry.parent / "scripts"]
    found = [p for folder in folders if folder.is_dir() for p in sorted(folder.iterdir()) if p.suffix in {".sh", ".slurm", ".sbatch", ".bash"}]
    return iter(found[:MOST_FILES])


def _commands(path: Path) -> Iterator[tuple[int, str]]:
    """Line number and text of each command, continuation lines joined."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    start, text = 0, ""
    for number, line in enumerate(lines, start=1):
        start = start if text else number
        text += line.rstrip("\\") + " " if line.endswith("\\") else line
        if not line.endswith("\\"):
            if text.strip() and not text.lstrip().startswith("#"):
                yield start, text.strip()
            text = ""


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return line.split()


def _rewritten(words: list[str], place: int, gone: set[str], command: str) -> str:
    options = _options(words[:place])
    nodes = options.get("nnodes", "1")
    processes = options.pop("nproc_per_node", "N")
    if processes.isdecimal() and nodes.isdecimal():
        processes = str(int(processes) * int(nodes))
    new = [f"--num_processes {processes}", *(f"--{RENAMED[key]} {value}" for key, value in options.items() if key in RENAMED and (key, value) != ("nnodes", "1"))]
    return " ".join([command, *new, words[place], *_kept(words[place + 1 :], gone)])


def _options(words: list[str]) -> dict[str, str]:
    """`--name value` and `--name=value` of a launcher."""
    found: dict[str, str] = {}
    for index, word in enumerate(words):
        name, equals, value = word.lstrip("-").replace("-", "_").partition("=")
        if word.startswith("-") and name in RENAMED:
            found[name] = value if equals else (words[index + 1] if index + 1 < len(words) else "")
    return found


def _kept(words: list[str], gone: set[str]) -> list[str]:
    """The script's own arguments without those that it has no more, values included."""
    kept: list[str] = []
    dropping = False
    for word in words:
        if word.startswith("--"):
            dropping = word.lstrip("-").partition("=")[0].replace("-", "_") in gone
        elif word.startswith("-") or word in {"&", "&&", "|", ">", ">>", ";"}:
            dropping = False
        if not dropping:
            kept.append(word if word.startswith("$") else shlex.quote(word) if " " in word else word)
    return kept


def _arguments(project: Project) -> set[str]:
    sources = {project.entry, *project.sources.values()}
    return {name for s in sources for n in s.index.of_kind(ast.Call) if (name := argument_name(n))}
