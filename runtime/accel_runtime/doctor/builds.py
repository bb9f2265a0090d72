"""Which build of torch runs on which driver and GPU, and the line that installs it.

Least drivers: NVIDIA's table of CUDA minor version compatibility
(https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html).
"""

from __future__ import annotations

import re

_LEAST_DRIVER = {11: (450, 80), 12: (525, 60), 13: (580, 65)}
"""Major version of CUDA -> the oldest driver for Linux that runs it."""
_WHEELS = {11: "cu118", 12: "cu126", 13: "cu130"}
"""Major version of CUDA -> the wheels of torch that serve most GPUs with it."""
_FIRST_OF_BLACKWELL, _BLACKWELL = (10, 0), "cu128"


def version(text: str) -> tuple[int, int]:
    """The first two numbers of a version."""
    major, minor, *_ = [*map(int, re.findall(r"\d+", text)), 0, 0]
    return major, minor


def least_driver(cuda: str) -> tuple[int, int] | None:
    """The oldest driver that runs this version of CUDA, None if it is not known."""
    return _LEAST_DRIVER.get(version(cuda)[0])


def install(driver: str, capability: tuple[int, int] = (0, 0)) -> str:
    """Which build of torch is right for this driver and GPU, and where its line stands."""
    runs = [major for major, least in _LEAST_DRIVER.items() if version(driver) >= least]
    if not runs:
        return "install a newer NVIDIA driver (525 or later), then: pip install torch"
    wheels = _WHEELS[max(runs)]
    if capability >= _FIRST_OF_BLACKWELL and wheels == "cu126":
        wheels = _BLACKWELL
    if (0, 0) < capability < (7, 5):  # CUDA 13 knows no GPU before Turing
        wheels = _WHEELS[min(max(runs), 12)]
    return f"install the build of torch for {wheels} over this one, by the line that https://pytorch.org/get-started/locally gives"


def supports(architectures: list[str], capability: tuple[int, int]) -> bool:
    """Whether a torch built for `architectures` (`sm_90`, `compute_90`) has kernels for a GPU of this capability.

    Code for `sm_XY` runs on GPUs of the same major version from that minor version on; `compute_XY` is compiled when it
    is needed, for anything newer.
    """
    for name in architectures:
        found = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", name)
        if found is None:
            continue
        built = int(found[2]), int(found[3])
        if found[4]:
            suits = built == capability
        elif found[1] == "compute":
            suits = built <= capability
        else:
            suits = built[0] == capability[0] and built <= capability
        if suits:
            return True
    return False
