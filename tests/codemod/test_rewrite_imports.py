"""Imports added in isort's place and dropped when nothing reads them."""

from __future__ import annotations

import pytest

from codemod.editing import Edits, edited


def _accelerator(*names: str) -> Edits:
    return lambda s: [s.add_import("accel_runtime", *names or ("Accelerator", "set_seed"))]


LINE = "from accel_runtime import Accelerator, set_seed\n"

ADD: dict[str, tuple[str, Edits, str]] = {
    "plain imports of a block stay on top": (
        "import os\n\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n\nx\n",
        _accelerator(),
        f"import os\n\nimport torch\nimport torch.nn.functional as F\n{LINE}from torch import nn\n\nx\n",
    ),
    "a block of plain imports": (
        "import numpy as np\nimport torch\n\nx\n",
        _accelerator(),
        f"import numpy as np\nimport torch\n{LINE}\nx\n",
    ),
    "a block of from imports, its heading stays on top": (
        "import os\n\n# third party\nfrom torch import nn\nx\n",
        _accelerator(),
        f"import os\n\n# third party\n{LINE}from torch import nn\nx\n",
    ),
    "plain and from imports mixed by name": (
        "from PIL import Image\nimport torch\nfrom torch import nn\nimport tqdm\n",
        _accelerator(),
        f"{LINE}from PIL import Image\nimport torch\nfrom torch import nn\nimport tqdm\n",
    ),
    "the standard library in the same block": (
        "from __future__ import annotations\nimport argparse\nimport torch\nimport torch.nn as nn\n"
        "from torchvision import datasets\nfrom torch.optim import SGD\n",
        _accelerator(),
        "from __future__ import annotations\nimport argparse\nimport torch\nimport torch.nn as nn\n"
        f"{LINE}from torchvision import datasets\nfrom torch.optim import SGD\n",
    ),
    "project modules in a block of their own": (
        "import torch\n\nfrom models import Net\n",
        _accelerator(),
        f"import torch\n{LINE}\nfrom models import Net\n",
    ),
    "relative imports below": (
        "import torch\nfrom . import models\n",
        _accelerator(),
        f"import torch\n{LINE}from . import models\n",
    ),
    "only the standard library": (
        '"""Doc."""\n\nimport os\nimport sys\n\n\ndef f(): pass\n',
        _accelerator(),
        f'"""Doc."""\n\nimport os\nimport sys\n\n{LINE}\n\ndef f(): pass\n',
    ),
    "no imports": (
        '#!/bin/env python\n"""Doc."""\nfrom __future__ import annotations\nx = 1\n',
        _accelerator(),
        f'#!/bin/env python\n"""Doc."""\nfrom __future__ import annotations\n\n{LINE}\nx = 1\n',
    ),
    "nothing above": ("x = 1\n", _accelerator(), f"{LINE}\nx = 1\n"),
    "not below code that runs first": (
        "import torch\nx = torch.tensor(1)\nfrom torch import nn\n",
        _accelerator(),
        f"import torch\n{LINE}x = torch.tensor(1)\nfrom torch import nn\n",
    ),
    "merged, sorted": (
        "from accel_runtime import Accelerator, get_logger\n",
        _accelerator("set_seed", "DataLoaderConfiguration", "Accelerator"),
        "from accel_runtime import Accelerator, DataLoaderConfiguration, get_logger, set_seed\n",
    ),
    "merged into brackets": (
        "from accel_runtime import (\n    Accelerator,\n    get_logger,\n)\n",
        _accelerator("set_seed", "broadcast"),
        "from accel_runtime import (\n    Accelerator,\n    broadcast,\n    get_logger,\n    set_seed,\n)\n",
    ),
    "merged into an unsorted one at its end": (
        "from accel_runtime import set_seed, Accelerator as A\n",
        _accelerator("Accelerator"),
        "from accel_runtime import set_seed, Accelerator as A, Accelerator\n",
    ),
    "already there": (LINE, _accelerator(), LINE),
    "several edits, one import": (
        "import torch\n",
        lambda s: [s.add_import("accel_runtime", "set_seed"), s.add_import("accel_runtime", "Accelerator", "set_seed")],
        f"import torch\n{LINE}",
    ),
    "too long for a line": (
        "import torch\n",
        _accelerator("Accelerator", "DataLoaderConfiguration", "GradientAccumulationPlugin", "set_seed"),
        "import torch\nfrom accel_runtime import (\n    Accelerator,\n    DataLoaderConfiguration,\n"
        "    GradientAccumulationPlugin,\n    set_seed,\n)\n",
    ),
    "a plain import": (
        "import os\n\nimport torch\n",
        lambda s: [s.add_import("numpy"), s.add_import("torch"), s.add_import("numpy")],
        "import os\n\nimport numpy\nimport torch\n",
    ),
    "the standard library's beside its own, above code that the installed packages need": (
        '"""Doc."""\nimport json\nimport sys\nfrom dataclasses import fields\n\nsys.path.insert(0, "src")\n\nimport torch\nimport yaml\n',
        lambda s: [s.add_import("logging"), s.add_import("contextlib", "nullcontext")],
        '"""Doc."""\nimport json\nimport logging\nimport sys\nfrom contextlib import nullcontext\nfrom dataclasses import fields\n\n'
        'sys.path.insert(0, "src")\n\nimport torch\nimport yaml\n',
    ),
    "the standard library's above the others": (
        '"""Doc."""\n\n# third party\nimport torch\n\nfrom models import Net\n',
        lambda s: [s.add_import("logging")],
        '"""Doc."""\n\nimport logging\n\n# third party\nimport torch\n\nfrom models import Net\n',
    ),
    "the standard library's first of all": (
        "import torch\nx\n",
        lambda s: [s.add_import("logging")],
        "import logging\n\nimport torch\nx\n",
    ),
    "the standard library's where nothing is imported": (
        '"""Doc."""\nx = 1\n',
        lambda s: [s.add_import("logging")],
        '"""Doc."""\n\nimport logging\n\nx = 1\n',
    ),
    "next to a deleted and a wrapped statement": (
        "import torch\nx\ny\n",
        lambda s: [s.add_import("accel_runtime", "Accelerator"), s.delete("x"), s.wrap("if m:", "y")],
        "import torch\nfrom accel_runtime import Accelerator\nif m:\n    y\n",
    ),
}

DROP: dict[str, tuple[str, Edits, str]] = {
    "unused": (
        "import os\nimport torch\n\nx = torch.y\n",
        lambda s: [s.drop_import("os")],
        "import torch\n\nx = torch.y\n",
    ),
    "still read": ("import os\nx = os.y\n", lambda s: [s.drop_import("os")], "import os\nx = os.y\n"),
    "no longer read after the edits": (
        "import os\n\nx = os.y\n",
        lambda s: [s.drop_import("os"), s.replace("os.y", "1")],
        "x = 1\n",
    ),
    "read by what the edits brought": (
        "import os\n\nx = 1\n",
        lambda s: [s.drop_import("os"), s.replace("1", "os.y")],
        "import os\n\nx = os.y\n",
    ),
    "one of several names": (
        "from a import b, c, d\nb, d\n",
        lambda s: [s.drop_import("c")],
        "from a import b, d\nb, d\n",
    ),
    "names in brackets": (
        "from a import (\n    b,\n    c,  # why\n)\nb\n",
        lambda s: [s.drop_import("c")],
        "from a import (\n    b,\n)\nb\n",
    ),
    "a dotted module binds its root": (
        "import os.path\nimport a.b as c\nimport a.b\na.b\n",
        lambda s: [s.drop_import("os"), s.drop_import("c"), s.drop_import("a")],
        "import a.b\na.b\n",
    ),
    "an alias, not the name behind it": (
        "from torch.nn.parallel import DistributedDataParallel as DDP\nx\n",
        lambda s: [s.drop_import("DDP"), s.drop_import("DistributedDataParallel")],
        "x\n",
    ),
    "__all__ reads": (
        "from a import b, c\n__all__ = ['b']\n",
        lambda s: [s.drop_import("b"), s.drop_import("c")],
        "from a import b\n__all__ = ['b']\n",
    ),
    "quoted annotations read, other strings do not": (
        "from a import b, c\ndef f(x: 'list[b]'): print('c')\n",
        lambda s: [s.drop_import("b"), s.drop_import("c")],
        "from a import b\ndef f(x: 'list[b]'): print('c')\n",
    ),
    "probes in try stay, imports in functions go": (
        "try:\n    import apex\nexcept ImportError:\n    pass\ndef f():\n    import dist\n    x\n",
        lambda s: [s.drop_import("apex"), s.drop_import("dist")],
        "try:\n    import apex\nexcept ImportError:\n    pass\ndef f():\n    x\n",
    ),
    "the future stays": (
        "from __future__ import annotations\n",
        lambda s: [s.drop_import("annotations")],
        "from __future__ import annotations\n",
    ),
    "on a shared line": ("import os; import sys; sys\n", lambda s: [s.drop_import("os")], "import sys; sys\n"),
}

ALL = {f"{kind}: {name}": case for kind, cases in (("add", ADD), ("drop", DROP)) for name, case in cases.items()}


@pytest.mark.parametrize("case", ALL.values(), ids=ALL.keys())
def test_edits_imports(case: tuple[str, Edits, str]) -> None:
    before, edits, after = case
    assert edited(before, edits) == after
