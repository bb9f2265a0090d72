"""Grade a folder: `python -m tests.skill.grade SCENARIO FOLDER`, from the repository. Without arguments the scenarios and their tasks.

Exit status: 0 passed, 1 failed, 2 wrong usage.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("codemod", "runtime", "tests")]


def main(argv: Sequence[str] | None = None) -> int:
    """Grade, and print why not."""
    from skill.grading import FOLDER, grade, grader, names

    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments:
        for name in names():
            print(f"{name}: {' '.join((FOLDER / name / 'task.md').read_text().split())}")
        return 0
    if len(arguments) != 2 or arguments[0] not in names() or not Path(arguments[1]).is_dir():
        print(
            f"usage: python -m tests.skill.grade SCENARIO FOLDER; the scenarios are {', '.join(names())}",
            file=sys.stderr,
        )
        return 2
    with tempfile.TemporaryDirectory() as scratch, grader(Path(scratch)) as runner:
        wrong = grade(arguments[0], Path(arguments[1]).resolve(), runner)
    print(
        "\n".join([f"{arguments[0]}: failed", *(f"  {line}" for line in wrong)]) if wrong else f"{arguments[0]}: passed"
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
