"""The few lines that assistants always read: they name the commands, since a skill alone may not be thought of."""

from __future__ import annotations

from accel_migrate.assistants.table import Assistant

BEGIN, END = "<!-- accel-migrate: begin -->", "<!-- accel-migrate: end -->"
POINTER = """\
To make PyTorch training run on several GPUs or processes, or to find out why it hangs or differs there, use the skill
`single-gpu-to-accelerate`. Do not rewrite by hand what these do:
- `accel-migrate train.py --output migrated` rewrites (`--explain`: what it recognised; without `--output` or `--write` nothing is written)
- `accel check migrated/train.py` finds what goes wrong on several processes
- `accel verify train.py migrated/train.py -- ARGS` runs both, and says whether they train the same
"""
_TITLE = "How to make PyTorch training run on several GPUs or processes"
_GLOBS = "**/*train*.py,**/*.ipynb"
_HEADS = {
    "plain": "",
    "globs": f"---\ndescription: {_TITLE}\nglobs: {_GLOBS}\nalwaysApply: false\n---\n\n",
    "codebuddy": f"---\ndescription: {_TITLE}\nalwaysApply: false\nenabled: true\n---\n\n",
}


def block() -> str:
    """The block for files which hold more than it; at most 8 lines."""
    return f"{BEGIN}\n{POINTER}{END}\n"


def own_file(assistant: Assistant) -> str:
    """The file in the assistant's folder of rules, in its format."""
    return _HEADS[assistant.rules_format] + POINTER
