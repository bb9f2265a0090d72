"""Which files belong to a training program, and which files of a folder are programs."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from accel_migrate.command.discover import discover, entries
from accel_migrate.errors import UserError
from accel_migrate.project import Reader, load_project

MakeTree = Callable[..., Path]


@pytest.fixture
def tree(tmp_path: Path) -> MakeTree:
    """Write files given as `path=text` pairs (or a dict) below a fresh folder."""

    def make(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return make


IMPORTS = {
    "absolute": ("import data", ["data", "train"]),
    "with another name": ("import data as d", ["data", "train"]),
    "of names": ("from data import load", ["data", "train"]),
    "of everything": ("from data import *", ["data", "train"]),
    "of a module from a package": ("from pkg import model", ["pkg", "pkg.model", "train"]),
    "of a dotted module": ("import pkg.model", ["pkg", "pkg.model", "train"]),
    "of a module in a folder that is no package": ("from plain import thing", ["plain.thing", "train"]),
    "in a function": ("def main():\n    import data", ["data", "train"]),
    "in an if": ("if True:\n    import data", ["data", "train"]),
    "in a try": ("try:\n    import data\nexcept ImportError:\n    pass", ["data", "train"]),
    "of installed packages": ("import torch, numpy.linalg, sklearn.datasets", ["train"]),
    "of the standard library": ("import os.path\nfrom json import loads", ["train"]),
    "of what does not exist": ("import nowhere.at.all", ["train"]),
}


@pytest.mark.parametrize("case", IMPORTS)
def test_every_form_of_import_is_followed(case: str, tree: MakeTree) -> None:
    text, expected = IMPORTS[case]
    root = tree(
        {
            "train.py": text + "\n",
            "data.py": "x = 1\n",
            "pkg/__init__.py": "",
            "pkg/model.py": "x = 1\n",
            "plain/thing.py": "x = 1\n",
            "unused.py": "x = 1\n",
        }
    )
    project = load_project(root / "train.py")
    assert sorted(project.sources) == expected
    assert project.entry is project.sources["train"]
    assert project.root == root
    assert not project.notes


def test_imports_are_followed_transitively_and_relatively(tree: MakeTree) -> None:
    root = tree(
        {
            "train.py": "from pkg.engine import fit\n",
            "pkg/__init__.py": "from .models import Net\n",
            "pkg/engine.py": "from . import data\nfrom .models.net import Net\n",
            "pkg/data.py": "from .. import train\n",
            "pkg/models/__init__.py": "from .net import *\n",
            "pkg/models/net.py": "from ..data import load\nimport train\n",
        }
    )
    project = load_project(root / "train.py")
    assert sorted(project.sources) == ["pkg", "pkg.data", "pkg.engine", "pkg.models", "pkg.models.net", "train"]


def test_a_module_run_with_dash_m_has_its_dotted_name(tree: MakeTree) -> None:
    root = tree(
        {
            "repo/pyproject.toml": "",
            "repo/app/pkg/__init__.py": "",
            "repo/app/pkg/train.py": "from .model import Net\nfrom pkg import data\nimport helpers\n",
            "repo/app/pkg/model.py": "",
            "repo/app/pkg/data.py": "",
            "repo/helpers.py": "",
        }
    )
    project = load_project(root / "repo/app/pkg/train.py")
    assert sorted(project.sources) == ["helpers", "pkg", "pkg.data", "pkg.model", "pkg.train"]
    assert project.entry.module == "pkg.train"
    assert project.root == root / "repo"


def test_source_layout_is_found(tree: MakeTree) -> None:
    root = tree({"setup.py": "", "scripts/train.py": "import lib.net\n", "src/lib/__init__.py": "", "src/lib/net.py": ""})
    assert sorted(load_project(root / "scripts/train.py").sources) == ["lib", "lib.net", "train"]


SEARCHED = {
    "appended": 'sys.path.append("core")',
    "appended, above the script": 'sys.path.append("..")',
    "inserted": 'sys.path.insert(0, "./core")',
    "extended": 'sys.path.extend(["nowhere", "core"])',
    "added": 'sys.path += ["core"]',
    "put in front": 'sys.path = ["core"] + sys.path',
    "of a site": 'import site\nsite.addsitedir("core")',
    "beside the file": 'sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "core"))',
    "above the file": "sys.path.append(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))",
    "by pardir": "sys.path.insert(0, os.path.join(os.path.dirname(__file__), os.path.pardir))",
    "by pathlib": "sys.path.append(str(Path(__file__).resolve().parents[1]))",
    "by parent and a slash": 'sys.path.append(str(Path(__file__).parent / "core"))',
    "by the working directory": 'sys.path.append(os.path.join(os.getcwd(), "core"))',
    "by names": 'FILE = Path(__file__).resolve()\nROOT = FILE.parents[1]\nif str(ROOT) not in sys.path:\n    sys.path.append(str(ROOT))',
    "by a function": 'def add(path):\n    if path not in sys.path:\n        sys.path.insert(0, path)\n\nadd(f"{os.path.dirname(__file__)}/core")',
    "in a loop": 'for name in ("nowhere", "core"):\n    sys.path.append(name)',
}


@pytest.mark.parametrize("case", SEARCHED)
def test_folders_added_to_the_search_path_are_searched(case: str, tree: MakeTree) -> None:
    lines = f"import os, sys\nfrom pathlib import Path\n{SEARCHED[case]}\nimport net\n"
    root = tree({"project/train.py": lines, "project/core/net.py": "import parts.block\n", "project/core/parts/block.py": ""})
    tree({"net.py": "import parts.block\n", "parts/block.py": ""} if any(w in case for w in ("above", "pardir", "pathlib", "names")) else {})
    project = load_project(root / "project/train.py")
    assert sorted(project.sources) == ["net", "parts.block", "train"]
    assert project.root == (root if (root / "net.py").exists() else root / "project")


def test_a_module_may_add_the_folder_where_others_find_theirs(tree: MakeTree) -> None:
    root = tree({"train.py": "import _paths\nimport net\n", "_paths.py": 'import sys\nsys.path.insert(0, "lib")\n', "lib/net.py": ""})
    assert sorted(load_project(root / "train.py").sources) == ["_paths", "net", "train"]


def test_what_cannot_be_computed_adds_nothing(tree: MakeTree) -> None:
    root = tree({"train.py": "import sys\nplace = place\nsys.path.append(place)\nsys.path.append(input())\nimport net\n", "lib/net.py": ""})
    assert sorted(load_project(root / "train.py").sources) == ["train"]


def test_an_ancestor_folder_named_like_a_library_is_not_that_library(tree: MakeTree) -> None:
    root = tree({"setup.py": "", "torch/__init__.py": "", "json.py": "", "scripts/train.py": "import torch, json\n"})
    assert sorted(load_project(root / "scripts/train.py").sources) == ["train"]


def test_ancestors_are_searched_no_further_than_the_project(tree: MakeTree) -> None:
    root = tree({"data.py": "", "project/setup.cfg": "", "project/train.py": "import data\n"})
    assert sorted(load_project(root / "project/train.py").sources) == ["train"]


def test_a_file_with_two_names_is_read_once(tree: MakeTree) -> None:
    root = tree({"pkg/__init__.py": "", "pkg/train.py": "import model\nfrom pkg import model as m\n", "pkg/model.py": ""})
    project = load_project(root / "pkg/train.py")
    assert sorted(project.sources) == ["model", "pkg", "pkg.train"]
    assert project.find("pkg.model") is project.find("model") is project.sources["model"]
    assert project.find("elsewhere") is None


def test_a_broken_local_module_is_a_note(tree: MakeTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree({"train.py": "import bad, good\n", "bad.py": "x = (\n", "good.py": ""}))
    project = load_project(Path("train.py"))
    assert sorted(project.sources) == ["good", "train"]
    assert project.notes == ["bad.py:1: syntax error: '(' was never closed (imported as bad; not looked into)"]


def test_a_broken_script_is_an_error(tree: MakeTree) -> None:
    with pytest.raises(UserError, match=r"train\.py:1: syntax error"):
        load_project(tree({"train.py": "x = (\n"}) / "train.py")


def test_modules_lie_beside_the_real_script(tree: MakeTree) -> None:
    root = tree({"real/train.py": "import data\n", "real/data.py": "", "data.py": "wrong = 1\n"})
    (root / "link.py").symlink_to(root / "real/train.py")
    project = load_project(root / "link.py")
    assert project.sources["data"].path == root / "real/data.py"
    assert project.entry.path == root / "link.py"


def test_paths_are_relative_where_the_script_is(tree: MakeTree, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree({"a/train.py": "import data\n", "a/data.py": "", "b/x": ""})
    monkeypatch.chdir(root / "b")
    assert load_project(Path("../a/train.py")).sources["data"].path == Path("../a/data.py")


def test_replaced_texts_are_parsed_anew(tree: MakeTree) -> None:
    root = tree({"train.py": "import data\n", "data.py": "x = 1\n"})
    project = load_project(root / "train.py")
    assert project.entry.tree.body
    changed = project.with_texts({root / "train.py": "import data, sys\n"})
    assert len(changed.entry.tree.body[0].names) == 2  # type: ignore[attr-defined]
    assert changed.entry is changed.sources["train"]
    assert changed.sources["data"] is project.sources["data"]


TRAINING = "import torch\nloss.backward()\n"


def test_discovery_skips_what_is_not_training(tree: MakeTree) -> None:
    root = tree(
        {
            "train.py": TRAINING,
            "sub/gan.py": "import torch\nfrom torch.utils.data import DataLoader\n",
            "notes.txt": TRAINING,
            "plot.py": "import matplotlib\n",
            ".hidden/train.py": TRAINING,
            "env/pyvenv.cfg": "",
            "env/lib/train.py": TRAINING,
            "__pycache__/train.py": TRAINING,
            "lib/site-packages/train.py": TRAINING,
        }
    )
    assert [str(path.relative_to(root)) for path in discover([root])] == ["train.py", "sub/gan.py"]
    assert discover([root / "plot.py", root, root / "train.py"])[0] == root / "plot.py"
    assert len(discover([root / "plot.py", root, root / "train.py"])) == 3


def test_programs_are_what_is_run_not_what_is_imported(tree: MakeTree) -> None:
    guard = "if __name__ == '__main__':\n    pass\n"
    root = tree(
        {
            "engine.py": TRAINING,
            "train.py": TRAINING + "import engine, other\n",
            "other.py": TRAINING + guard,
            "circle_a.py": TRAINING + "import circle_b\n",
            "circle_b.py": TRAINING + "import circle_a\n",
        }
    )
    projects = [load_project(path) for path in discover([root])]
    names = [project.entry.path.stem for project in entries(projects)]
    assert names == ["circle_a", "circle_b", "other", "train"]


def test_a_shared_file_is_read_once_for_all_programs(tree: MakeTree) -> None:
    root = tree({"a.py": "import c, bad\n", "b.py": "import c, bad\n", "c.py": "", "bad.py": "x = (\n"})
    reader = Reader()
    first, second = (load_project(root / name, reader) for name in ("a.py", "b.py"))
    assert first.sources["c"] is second.sources["c"]
    assert first.notes == second.notes != []


def test_a_large_tree_is_searched_quickly(tree: MakeTree) -> None:
    root = tree({f"d{number}/m{number}.py": "import os\nx = 1\n" * 200 for number in range(300)})
    start = time.process_time()
    assert discover([root]) == []
    assert time.process_time() - start < 2


def test_packages_beside_an_installed_script_are_not_its_project(tree: MakeTree) -> None:
    root = tree({"site-packages/tool.py": "import other, tool\n", "site-packages/other.py": ""})
    assert set(load_project(root / "site-packages/tool.py").sources) == {"tool"}
