"""The figures that a script prints, by the words in front of them."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORD = r"[A-Za-z][\w@./-]*"
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|\bnan\b|[-+]?\binf\b"
_PAIR = re.compile(rf"(?P<name>{_WORD}(?: {_WORD})?)[\"']?\s*[:=|]?\s*(?P<value>{_NUMBER})(?=(?P<after>\s*\S{{0,4}}))")
_KEEPS_BOOKS = re.compile(
    r"\b(epochs?|steps?|iter\w*|batch\w*|lr|rate|seed|rank|process\w*|time|took|secs?|seconds|minutes|eta|elapsed|samples?|params?|parameters|size|device|in|of)\b|_(steps?|time|lr|rate|size)\b",
    re.IGNORECASE,
)
_OF_TIME = re.compile(r"\s*(s|ms|sec|min|it/s|it)\b")
_OF_QUALITY = re.compile(
    r"acc|f1|auc|iou|bleu|rouge|wer|ppl|perplex|precision|recall|error|score|psnr|map|top|val|eval|test|dice|corr|r2",
    re.IGNORECASE,
)


def printed_figures(lines: Iterable[str]) -> dict[str, float]:
    """The last value of each figure, by its name in lower case; numbers of epochs, times and the like are left out."""
    found: dict[str, float] = {}
    for line in lines:
        for match in _PAIR.finditer(line):
            name = match["name"].lower()
            if not _KEEPS_BOOKS.search(name) and not _OF_TIME.match(match["after"]):
                found[name] = float(match["value"])
    return found


def tells_quality(name: str) -> bool:
    """Whether a figure of this name says how good the model is, rather than how the training goes."""
    return bool(_OF_QUALITY.search(name))
