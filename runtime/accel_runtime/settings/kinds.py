"""Kinds of settings: each reads the text of a command line or a file, or says in a ValueError what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@dataclass(frozen=True)
class Kind:
    """How a setting's value is read.

    Attributes:
        read: from text to the value; raises ValueError with what is allowed.
        shown: what stands for the value in `--help`.
        choices: the values that there are, if they can be counted.
        flag: the option takes no value on the command line; its presence says yes.
    """

    read: Callable[[str], Any]
    shown: str
    choices: tuple[str, ...] = ()
    flag: bool = False


def integer(least: int) -> Kind:
    """An integer from `least` up."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or int(text) < least:
            raise ValueError(f"{text!r} is not an integer from {least} up")
        return int(text)

    return Kind(read, "N")


def choice(*values: str) -> Kind:
    """One of `values`, in any case."""
    by_lower = {value.lower(): value for value in values}

    def read(text: str) -> str:
        if text.lower() not in by_lower:
            raise ValueError(f"{text!r} is not one of {', '.join(values)}")
        return by_lower[text.lower()]

    return Kind(read, "|".join(values), choices=values)


def _port(text: str) -> int | None:
    """0 is any free one, as if none was given."""
    port = integer(0).read(text)
    if port > 65535:
        raise ValueError(f"{text!r} is not a port from 0 to 65535")
    return port or None


def _seconds(text: str) -> float:
    value = _float(text)
    if not 0 < value < float("inf"):
        raise ValueError(f"{text!r} is not a number of seconds above 0")
    return value


def _positive(text: str) -> float:
    value = _float(text)
    if not 0 < value < float("inf"):
        raise ValueError(f"{text!r} is not a number above 0")
    return value


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _devices(text: str) -> str:
    parts = [part.strip() for part in text.split(",")]
    if text != "all" and not all(parts):
        raise ValueError(f"{text!r} is neither 'all' nor numbers of devices with commas between them")
    return ",".join(parts)


def _yes_or_no(text: str) -> bool:
    if text.lower() not in _YES + _NO:
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() in _YES


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    return text


COUNT, NUMBER = integer(1), integer(0)
PORT = Kind(_port, "PORT")
SECONDS = Kind(_seconds, "SECONDS")
POSITIVE = Kind(_positive, "X")
DEVICES = Kind(_devices, "all|0,1,...")
TEXT = Kind(_text, "TEXT")
FILE = Kind(_text, "FILE")
YES_NO = Kind(_yes_or_no, "true|false", choices=("true", "false"))
FLAG = Kind(_yes_or_no, "", choices=("true", "false"), flag=True)
