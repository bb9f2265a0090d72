"""`accel env`: what to paste into a bug report."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from .. import __version__
from ..doctor.machine import Machine, look
from ..launch_arguments import PROJECT_FILE
from . import shell

_PROGRAM = "accel env"
_VARIABLES = (
    "ACCELERATE_",
    "FSDP_",
    "NCCL_",
    "GLOO_",
    "TORCH",
    "OMP_",
    "CUDA_",
    "MASTER_",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_",
    "PARALLELISM_",
)
_SECRET = ("TOKEN", "KEY", "SECRET", "PASSWORD")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; 0, or 2 for wrong usage."""
    return shell.guarded(_PROGRAM, lambda: _run(argv))


def _run(argv: Sequence[str] | None) -> int:
    parser = shell.Parser(prog=_PROGRAM, description="Print what to paste into a bug report.")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument(
        "--config_file",
        "--config-file",
        metavar="FILE",
        default=PROJECT_FILE,
        help=f"the configuration to show; default: {PROJECT_FILE}",
    )
    options = parser.parse_args(argv)
    facts = dict(described(look()))
    if Path(options.config_file).is_file():
        facts[options.config_file] = _settings(Path(options.config_file))
    print(json.dumps(facts, indent=2) if options.json else _text(facts))
    return 0


def described(machine: Machine) -> Iterator[tuple[str, str]]:
    """Heading and value of each fact."""
    torch = machine.torch
    yield "accel_runtime", __version__
    yield "system", machine.system
    yield "python", f"{sys.version.split()[0]} ({sys.executable})"
    yield (
        "torch",
        torch["error"].strip().splitlines()[-1] if "error" in torch else f"{torch['version']} ({torch['file']})",
    )
    if "error" not in torch:
        yield (
            "built for",
            f"CUDA {torch['cuda']}" if torch.get("cuda") else f"ROCm {torch['hip']}" if torch.get("hip") else "CPU",
        )
        yield "devices", torch.get("accelerator", "none")
        yield "nccl", torch.get("nccl_version") or ("yes" if torch.get("nccl") else "no")
    yield "nvidia driver", machine.driver or machine.driver_error.partition("\n")[0] or "none"
    for number, gpu in enumerate(machine.gpus):
        tf32 = "with" if gpu.capability >= (8, 0) else "without"
        yield f"gpu {number}", f"{gpu.name}, {gpu.memory} MiB, sm_{gpu.capability[0]}{gpu.capability[1]}, {tf32} tf32"
    yield "cpu cores", str(machine.cores)
    yield "memory", f"{machine.memory / (1 << 30):.1f} GiB"
    if machine.shared_memory:
        yield (
            "shared memory",
            f"{machine.shared_memory[0] / (1 << 30):.1f} of {machine.shared_memory[1] / (1 << 30):.1f} GiB free",
        )
    yield "open files", str(machine.open_files)
    for name, version in machine.packages.items():
        if name != "torch":
            yield name, version
    for name, value in sorted(machine.environment.items()):
        if name.startswith(_VARIABLES) and not any(word in name for word in _SECRET):
            yield name, value


def _settings(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return f"cannot be read: {error}"


def _text(facts: dict[str, str]) -> str:
    """A block for Markdown; values of several lines are indented below their heading."""
    lines = ["```text"]
    for name, value in facts.items():
        inner = value.rstrip().splitlines()
        lines += [f"{name}: {value}"] if len(inner) <= 1 else [f"{name}:", *(f"  {line}" for line in inner)]
    return "\n".join([*lines, "```"])


if __name__ == "__main__":
    sys.exit(main())
