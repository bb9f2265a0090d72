"""The checks of torch itself: against the driver, the GPUs and its companions."""

from __future__ import annotations

from collections.abc import Iterator

from . import builds
from .finding import FAIL, OK, WARN, Finding
from .known_errors import explain
from .machine import Machine

_LEAST_TORCH = (2, 6)


def torch(machine: Machine) -> Iterator[Finding]:
    error = machine.torch.get("error")
    if error is not None:
        known = explain(error)
        last = error.strip().splitlines()[-1]
        yield Finding(
            FAIL,
            f"torch cannot be imported: {known.text if known else last}",
            known.mend if known else "python -c 'import torch'  # shows the whole error",
        )
    elif builds.version(machine.torch["version"]) < _LEAST_TORCH:
        yield Finding(
            FAIL,
            f"torch {machine.torch['version']}: this runtime needs {'.'.join(map(str, _LEAST_TORCH))} or later",
            "python -m pip install --upgrade torch",
        )
    else:
        cuda, hip = machine.torch.get("cuda"), machine.torch.get("hip")
        yield Finding(
            OK,
            f"torch {machine.torch['version']} ({f'CUDA {cuda}' if cuda else f'ROCm {hip}' if hip else 'a build for the CPU'})",
        )


def driver(machine: Machine) -> Iterator[Finding]:
    if machine.driver_error:
        known = explain(machine.driver_error)
        text = known.text if known else machine.driver_error.splitlines()[0]
        yield Finding(
            FAIL,
            f"nvidia-smi fails: {text}",
            known.mend if known else "reinstall the NVIDIA driver; in a container: docker run --gpus all ...",
        )
    elif machine.gpus:
        names = ", ".join(f"{gpu.name} ({gpu.memory // 1024} GiB)" for gpu in machine.gpus)
        yield Finding(OK, f"NVIDIA driver {machine.driver}: {names}")
    elif not machine.amd:
        yield Finding(OK, "no NVIDIA GPU: trainings run on the CPU, or on what torch itself finds")


def build(machine: Machine) -> Iterator[Finding]:
    """Torch against driver and GPUs."""
    facts = machine.torch
    if "error" in facts:
        return
    if machine.amd and not facts.get("hip"):
        yield Finding(
            FAIL,
            "there is an AMD GPU and this torch is not a build for ROCm",
            "install the build of torch for ROCm over this one, by the line that https://pytorch.org/get-started/locally gives",
        )
    if not machine.gpus:
        return
    newest = max(gpu.capability for gpu in machine.gpus)
    mend = builds.install(machine.driver, newest)
    if not facts.get("cuda"):
        yield Finding(FAIL, "there are NVIDIA GPUs and this torch is a build without CUDA", mend)
        return
    least = builds.least_driver(facts["cuda"])
    if least and builds.version(machine.driver) < least:
        yield Finding(
            FAIL,
            f"the NVIDIA driver {machine.driver} is too old for the CUDA {facts['cuda']} of this torch, which needs {least[0]} or later",
            mend,
        )
        return
    for gpu in dict.fromkeys(machine.gpus):
        if not builds.supports(facts["architectures"], gpu.capability):
            name = "sm_" + "".join(map(str, gpu.capability))
            yield Finding(
                FAIL,
                f"this torch has no code for {gpu.name} ({name}): it was built for {', '.join(facts['architectures'])}",
                builds.install(machine.driver, gpu.capability),
            )
    if facts.get("cuda_error"):
        known = explain(facts["cuda_error"])
        last = facts["cuda_error"].strip().splitlines()[-1]
        yield Finding(
            FAIL,
            f"torch cannot use the GPUs: {known.text if known else last}",
            known.mend if known else "python -c 'import torch; torch.ones(1).cuda()'  # shows the whole error",
        )
    elif not facts.get("devices"):
        hidden = machine.environment.get("CUDA_VISIBLE_DEVICES")
        reason = f": CUDA_VISIBLE_DEVICES is {hidden!r}" if hidden is not None else ""
        yield Finding(
            FAIL,
            f"torch sees none of the {len(machine.gpus)} GPUs{reason}",
            "unset CUDA_VISIBLE_DEVICES" if reason else "python -c 'import torch; torch.ones(1).cuda()'  # shows why",
        )
    elif len({gpu.name for gpu in machine.gpus}) > 1:
        yield Finding(
            WARN,
            "the GPUs are of different kinds: each step takes as long as the slowest needs",
            "accel launch --gpu_ids 0,1 ...  # those of one kind",
        )


def packages(machine: Machine) -> Iterator[Finding]:
    """Torchvision 0.(N+15) is built for torch 2.N: its own table of versions."""
    torch, vision = machine.packages.get("torch"), machine.packages.get("torchvision")
    if torch and vision and builds.version(torch)[0] == 2:
        fits = builds.version(torch)[1] + 15
        if builds.version(vision) != (0, fits):
            yield Finding(
                FAIL,
                f"torchvision {vision} was not built for torch {torch}",
                f"python -m pip install 'torchvision==0.{fits}.*'",
            )
