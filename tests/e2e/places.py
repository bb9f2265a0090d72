"""Where the packages are, and what the scripts of these tests import."""

from __future__ import annotations

import os
from pathlib import Path

from accel_migrate.verify.warm import PRELOADED

REPOSITORY = Path(__file__).resolve().parents[2]
PYTHON_PATH = os.pathsep.join(str(REPOSITORY / part) for part in ("codemod", "runtime", "tests"))
PRELOAD = (*PRELOADED, "sklearn.datasets", "torch.utils.tensorboard", "tqdm")
