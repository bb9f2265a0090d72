"""Environment variables: read, set for a while, cleaned up."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

_TRUE = ("y", "yes", "t", "true", "on", "1")
_FALSE = ("n", "no", "f", "false", "off", "0")

logger = logging.getLogger(__name__)


def str_to_bool(value: str, to_bool: bool = False) -> int | bool:
    """1 or 0 (with `to_bool` True or False) for the usual spellings of yes and no.

    Raises:
        ValueError: another text.
    """
    lowered = value.lower()
    if lowered not in _TRUE + _FALSE:
        raise ValueError(f"{value!r} is neither yes nor no: it must be one of {', '.join(_TRUE + _FALSE)}")
    return lowered in _TRUE if to_bool else int(lowered in _TRUE)


def parse_flag_from_env(key: str, default: bool = False) -> bool:
    """Whether the variable `key` says yes."""
    return bool(str_to_bool(os.environ.get(key, str(default))))


def parse_choice_from_env(key: str, default: str = "no") -> str:
    """The text of the variable `key`."""
    return os.environ.get(key, default)


def get_int_from_env(env_keys: Sequence[str], default: int) -> int:
    """The first of the variables that holds a number from 0 up."""
    found = (int(os.environ.get(key, -1)) for key in env_keys)
    return next((value for value in found if value >= 0), default)


def are_libraries_initialized(*library_names: str) -> list[str]:
    """Those of the libraries that have been imported."""
    return [name for name in library_names if name in sys.modules]


def is_port_in_use(port: int | None = None) -> bool:
    """Whether something listens at `port` (default 29500) of this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(("localhost", 29500 if port is None else port)) == 0


def convert_dict_to_env_variables(current_env: dict[str, Any]) -> list[str]:
    """Lines `NAME=value` for a shell; what could be read as something else is left out with a warning."""
    lines = []
    for key, value in current_env.items():
        if all(char not in f"{key}{value}" for char in "\n;&|<> "):
            lines.append(f"{key}={value}\n")
        else:
            logger.warning("left out %s=%s: the shell would not read it as one value", key, value)
    return lines


@contextmanager
def clear_environment() -> Iterator[None]:
    """Empty the environment for a while."""
    saved = dict(os.environ)
    os.environ.clear()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)


@contextmanager
def patch_environment(**kwargs: Any) -> Iterator[None]:
    """Set environment variables, by their names in any case, for a while."""
    saved = {key.upper(): os.environ.get(key.upper()) for key in kwargs}
    os.environ.update({key.upper(): str(value) for key, value in kwargs.items()})
    try:
        yield
    finally:
        _restore(saved)


@contextmanager
def _accelerate_variables_kept() -> Iterator[None]:
    saved = {key: value for key, value in os.environ.items() if key.startswith("ACCELERATE_")}
    try:
        yield
    finally:
        _restore({key: saved.get(key) for key in list(os.environ) + list(saved) if key.startswith("ACCELERATE_")})


def _restore(saved: dict[str, str | None]) -> None:
    for key, value in saved.items():
        if value is None:
            os.environ.pop(key, None)
        else:
            os.environ[key] = value


def purge_accelerate_environment(func_or_cls: Any) -> Any:
    """Decorator of a function, or of a class's test methods (and its subclasses'): `ACCELERATE_*` variables are put back."""
    if not isinstance(func_or_cls, type):
        return _purged(func_or_cls)
    _purge_tests(func_or_cls)
    func_or_cls.__init_subclass__ = classmethod(lambda cls, **kwargs: _purge_tests(cls))  # type: ignore[assignment]
    return func_or_cls


def _purged(function: Any) -> Any:
    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with _accelerate_variables_kept():
            return function(*args, **kwargs)

    wrapper._purged = True  # type: ignore[attr-defined]
    return wrapper


def _purge_tests(cls: type) -> None:
    for name in dir(cls):
        method = getattr(cls, name)
        if name.startswith("test") and callable(method) and not hasattr(method, "_purged"):
            setattr(cls, name, _purged(method))
