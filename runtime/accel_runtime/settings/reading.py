"""Read a configuration file: every value checked, every problem with its line.

Files are YAML or JSON mappings with Accelerate's names; files of its earlier versions are understood.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import LaunchError
from .foreign import NOTHING, OF_DEEPSPEED, OLD_VALUES, RENAMED, UNUSED, UNUSED_IN_DEEPSPEED
from .offered import SECTIONS, SWITCH_OF
from .table import SETTINGS, Setting

if TYPE_CHECKING:
    from yaml import Node

_BY_PLACE = {setting.place: setting for setting in SETTINGS.values() if setting.in_file}


@dataclass(frozen=True)
class Remark:
    """Something about one line of a file."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


@dataclass
class Content:
    """What a file says.

    Attributes:
        values: by the settings' names; only what the file gives.
        problems: what must be mended before the file can be used.
        unused: what was asked for and is not done, since it has no meaning here.
        old: keys and values that a file of today writes differently, or leaves out.
        lines: setting -> the number of its line.
    """

    values: dict[str, Any] = field(default_factory=dict)
    problems: list[Remark] = field(default_factory=list)
    unused: list[Remark] = field(default_factory=list)
    old: list[Remark] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)


def read(path: Path) -> Content:
    """The content of the file at `path`, problems included.

    Raises:
        LaunchError: it cannot be read, is no YAML mapping, or is a configuration of something else.
    """
    return _Reader(path).content


def usable(path: Path) -> Content:
    """The content of the file at `path`.

    Raises:
        LaunchError: with the first problem, and how many more there are.
    """
    content = read(path)
    if content.problems:
        more = len(content.problems) - 1
        raise LaunchError(f"{content.problems[0]}{f' ({more} more: accel config check {path})' if more else ''}")
    return content


class _Reader:
    def __init__(self, path: Path) -> None:
        self.path = path
        text = _text(path)
        self.lines = text.splitlines()
        self.content = Content()
        pairs = self._pairs(_compose(path, text), "")
        self._refuse_other_formats({key for key, _, _ in pairs}, pairs)
        for key, line, value in pairs:
            if key in SECTIONS:
                self._read_section(key, line, value)
            else:
                self._read_entry("", key, line, value)
        self._conclude()

    def _refuse_other_formats(self, keys: set[str], pairs: list[tuple[str, int, Node]]) -> None:
        if keys & OF_DEEPSPEED and "distributed_type" not in keys:
            raise LaunchError(
                f"{self.path} is DeepSpeed's own configuration: pass it as --use_deepspeed --deepspeed_config_file {self.path}"
            )
        environment = next((value.value for key, _, value in pairs if key == "compute_environment"), "LOCAL_MACHINE")
        if environment not in ("LOCAL_MACHINE", "null", ""):
            raise LaunchError(
                f"{self.path}: compute_environment is {environment}: only LOCAL_MACHINE can be launched from here"
            )

    def _pairs(self, node: Node | None, where: str) -> list[tuple[str, int, Node]]:
        """Key, line and value of each entry of a mapping; a key that stands twice is a problem."""
        found: dict[str, tuple[str, int, Node]] = {}
        for key, value in node.value if node is not None else ():
            name, line = str(key.value), key.start_mark.line + 1
            if name in found:
                self._problem(line, f"{name} stands in line {found[name][1]} already")
            found[name] = (name, line, value)
        return list(found.values())

    def _read_section(self, section: str, line: int, node: Node) -> None:
        if node.id == "mapping":
            for key, inner_line, value in self._pairs(node, section):
                self._read_entry(section, key, inner_line, value)
        elif not (node.id == "scalar" and node.value.lower() in NOTHING):
            self._problem(line, f"{section} must be a mapping, with its settings indented below it")

    def _read_entry(self, section: str, key: str, line: int, node: Node) -> None:
        setting = self._setting(section, key, line)
        if setting is None:
            self._without_meaning(section, key, line, node)
        elif node.id == "sequence" and all(item.id == "scalar" for item in node.value) and setting.kind.shown == "TEXT":
            self._take(setting, line, ",".join(item.value for item in node.value))
        elif node.id != "scalar":
            self._problem(line, f"{key} must be one value")
        elif not _is_null(node):
            self._take(setting, line, node.value)

    def _setting(self, section: str, key: str, line: int) -> Setting | None:
        setting = _BY_PLACE.get((section, key))
        if setting is not None:
            return setting
        name = RENAMED.get((section, key)) or (f"fsdp_{key}" if section == "fsdp_config" else key)
        setting = SETTINGS.get(name)
        if setting is None or not setting.in_file or not (section or key == "gradient_clipping"):
            return None
        self._old(line, f"{key} is now {'.'.join(filter(None, setting.place))}")
        return setting

    def _take(self, setting: Setting, line: int, text: str) -> None:
        now = OLD_VALUES.get(setting.name, {}).get(text, text)
        if now != text:
            self._old(line, f"{setting.place[1]}: {text} is now {now}")
        try:
            self.content.values[setting.name] = setting.kind.read(now)
            self.content.lines[setting.name] = line
        except ValueError as error:
            self._problem(line, f"{setting.place[1]}: {error}")

    def _without_meaning(self, section: str, key: str, line: int, node: Node) -> None:
        asks = _asks(node)
        if not section and key == "fp16":
            self._old(line, "fp16 is now mixed_precision: fp16")
            if asks:
                self.content.values.setdefault("mixed_precision", "fp16")
        elif not section and key in UNUSED:
            self._old(line, f"{key} has no meaning here")
            if asks and UNUSED[key]:
                self.content.unused.append(self._remark(line, f"{key} is not used: {UNUSED[key]}"))
        elif section == "deepspeed_config" and key in UNUSED_IN_DEEPSPEED:
            self._old(line, f"{key} has no meaning here")
            if asks:
                self.content.unused.append(
                    self._remark(line, f"{key} is not used: the machines are started by hand or by a scheduler")
                )
        else:
            self._problem(line, f"there is no {key}{f' in {section}' if section else ''}{_likely(section, key)}")

    def _conclude(self) -> None:
        values = self.content.values
        kind = values.get("distributed_type", "NO" if "num_processes" not in values else None)
        if "distributed_type" in values and kind == "NO":
            values.setdefault("num_processes", 1)
        if kind == "MULTI_CPU":
            values["cpu"] = True
        if kind in SWITCH_OF:
            values[SWITCH_OF[kind]] = True
        if kind == "XLA" and values.pop("num_processes", 1) > 1:
            line = self.content.lines["num_processes"]
            self.content.unused.append(self._remark(line, "num_processes is not used: one process drives all devices of a TPU"))
        if any(SETTINGS[name].section == "parallelism_config" for name in values):
            values["use_parallelism_config"] = True
        off = {section for section, switch in SECTIONS.items() if not values.get(switch)}
        self.content.values = {name: value for name, value in values.items() if SETTINGS[name].section not in off}

    def _problem(self, line: int, text: str) -> None:
        self.content.problems.append(self._remark(line, f"{text}: in `{self.lines[line - 1].strip()}`"))

    def _old(self, line: int, text: str) -> None:
        self.content.old.append(self._remark(line, text))

    def _remark(self, line: int, text: str) -> Remark:
        return Remark(str(self.path), line, text)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise LaunchError(f"cannot read {path}: {reason}") from error


def _compose(path: Path, text: str) -> Node | None:
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where, shown = (f":{mark.line + 1}", _line(text, mark.line)) if mark else ("", "")
        raise LaunchError(f"{path}{where}: not valid YAML: {error.problem}{shown}") from error
    except yaml.YAMLError as error:
        raise LaunchError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    if node is not None and node.id != "mapping":
        raise LaunchError(f"{path}:1: the file must hold a YAML mapping such as `num_processes: 2`")
    return node


def _line(text: str, number: int) -> str:
    lines = text.splitlines()
    return f": in `{lines[number].strip()}`" if number < len(lines) and lines[number].strip() else ""


def _is_null(node: Any) -> bool:
    return node.tag == "tag:yaml.org,2002:null"


def _asks(node: Any) -> bool:
    """Whether a value asks for something at all."""
    if node.id == "scalar":
        return _is_null(node) is False and node.value.lower() not in NOTHING
    if node.id == "mapping":  # compile modes and the like matter only with a backend, which is the first to be set
        values = [value for key, value in node.value if key.value.endswith(("backend", "hostfile"))] or [
            value for _, value in node.value
        ]
        return any(_asks(value) for value in values)
    return bool(node.value)


def _likely(section: str, key: str) -> str:
    here = [name for place, name in _BY_PLACE if place == section] + ([*SECTIONS] if not section else [])
    elsewhere = next((place for place, name in _BY_PLACE if name == key), None)
    if elsewhere is not None:
        return f" (it stands in {elsewhere})" if elsewhere else " (it stands outside of it)"
    near = difflib.get_close_matches(key, here, n=1, cutoff=0.7)
    return f" (did you mean {near[0]}?)" if near else ""
