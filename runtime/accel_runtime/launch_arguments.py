"""The command line of `accel launch`, and the configuration file that can stand in for it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

_DISTRIBUTED_TYPES = ("NO", "MULTI_CPU", "MULTI_GPU", "MULTI_NPU", "MULTI_XPU", "MULTI_HPU", "MULTI_MLU", "MULTI_MUSA")
_DEFAULTS: dict[str, Any] = {
    "num_machines": 1,
    "machine_rank": 0,
    "gpu_ids": "all",
    "rdzv_backend": "static",
    "max_restarts": 0,
    "monitor_interval": 0.1,
    "cpu": False,
    "debug": False,
}


class LaunchError(ValueError):
    """The command line or the configuration file asks for something impossible."""


class _Parser(argparse.ArgumentParser):
    """Reports what is wrong in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        if "required: training_script" in message:
            message = "no script was given: accel launch [options] SCRIPT [its arguments]"
        message = re.sub(r"^argument (--?\w+)\S*: ", r"\1: ", message)
        message = re.sub(r"^unrecognized arguments: (.*)", r"unknown option \1: the script's own options stand behind the script", message)
        raise LaunchError(f"{message} (all options: {self.prog} --help)")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of a launch: from the command line, else from its `--config_file`, else the defaults.

    Raises:
        LaunchError: the file cannot be read or asks for something that is not there.
    """
    made = parser()
    options = made.parse_args(argv)
    from_file = _checked(made, _read(Path(options.config_file)), options.config_file) if options.config_file else {}
    for name, default in _DEFAULTS.items():
        if getattr(options, name) is None:
            setattr(options, name, from_file.get(name, default))
    for name in ("num_processes", "mixed_precision", "gradient_accumulation_steps", "main_process_ip", "main_process_port"):
        if getattr(options, name) is None:
            setattr(options, name, from_file.get(name))
    if options.num_machines > 1 and not options.main_process_ip:
        raise LaunchError(f"--num_machines {options.num_machines} needs --main_process_ip, the address of the machine with --machine_rank 0")
    if options.machine_rank >= options.num_machines:
        raise LaunchError(f"--machine_rank is {options.machine_rank} and --num_machines {options.num_machines}: it must be from 0 to {options.num_machines - 1}")
    return options


def parser(program: str = "accel launch") -> argparse.ArgumentParser:
    """The parser; every option may be spelled with hyphens too."""
    made = _Parser(program, description="Run a script on several processes.", formatter_class=_Underscores, allow_abbrev=False)
    how_many = made.add_argument_group("how many processes")
    _option(how_many, "num_processes", type=_positive, help="on all machines together; default: one per device, one without")
    _option(how_many, "cpu", action="store_true", default=None, help="train on the CPU even where there are devices")
    _option(how_many, "multi_gpu", action="store_true", default=False, help="understood; the number of processes decides")
    _option(how_many, "gpu_ids", type=_devices, help="the devices to use, e.g. 0,2; default: all")
    _option(how_many, "num_cpu_threads_per_process", type=_positive, help="default: the cores, shared out")
    settings = made.add_argument_group("defaults for Accelerator's arguments")
    _option(settings, "mixed_precision", choices=("no", "fp16", "bf16"), help="precision of the forward pass")
    _option(settings, "gradient_accumulation_steps", type=_positive, help="micro-batches per optimizer step")
    machines = made.add_argument_group("several machines")
    _option(machines, "num_machines", type=_positive, help="how many; start the command on each; default: 1")
    _option(machines, "machine_rank", type=_number, help="number of this machine, from 0")
    _option(machines, "main_process_ip", help="address of machine 0")
    _option(machines, "main_process_port", type=_port, help="a free port of machine 0; default: 29500, on one machine any free port")
    _option(machines, "rdzv_backend", choices=("static", "c10d"), help="how the machines meet; default: static")
    _option(machines, "same_network", action="store_true", default=False, help="understood; changes nothing")
    rest = made.add_argument_group("the rest")
    _option(rest, "config_file", help="YAML file with the options above")
    _option(rest, "max_restarts", type=_number, help="start again so many times after a failure; default: 0")
    _option(rest, "monitor_interval", type=_seconds, help="seconds between looks at the processes; default: 0.1")
    _option(rest, "debug", action="store_true", default=None, help="check collectives more closely")
    _option(rest, "no_python", action="store_true", default=False, help="the script is a program of its own")
    rest.add_argument("-m", "--module", action="store_true", help="the script is a module's name, as with python -m")
    made.add_argument("training_script", help="the script to run")
    made.add_argument("training_script_args", nargs=argparse.REMAINDER, help="its arguments")
    return made


class _Underscores(argparse.HelpFormatter):
    """Show each option once, not in both spellings."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        spellings = action.option_strings
        action.option_strings = [s for s in spellings if "-" not in s.lstrip("-")]
        try:
            return super()._format_action_invocation(action)
        finally:
            action.option_strings = spellings


def _option(group: argparse._ArgumentGroup, name: str, **settings: Any) -> None:
    group.add_argument(*dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}")), **settings)


def _positive(text: str) -> int:
    return _integer(text, 1)


def _number(text: str) -> int:
    return _integer(text, 0)


def _integer(text: str, least: int) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from {least} up")
    return int(text)


def _port(text: str) -> int | None:
    """0 is any free one, as if none was given."""
    port = _integer(text, 0)
    if port > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return port or None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def _devices(text: str) -> str:
    if text != "all" and not all(part.strip() for part in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r} is neither 'all' nor numbers of devices with commas between them")
    return text


def _checked(made: argparse.ArgumentParser, content: dict[str, Any], path: str) -> dict[str, Any]:
    """The file's values as if they had been given on the command line."""
    checked = dict(content)
    for name, value in content.items():
        action = next((a for a in made._actions if a.dest == name and (a.type is not None or a.choices)), None)
        if action is None or value is None:
            continue
        try:
            checked[name] = made._get_value(action, "no" if value is False else str(value))  # YAML reads a bare `no` as false
            made._check_value(action, checked[name])
        except argparse.ArgumentError as error:
            raise LaunchError(f"{path}: {name}: {error.message}") from None
    return checked


def _read(path: Path) -> dict[str, Any]:
    """The options in a configuration file; Accelerate's files are understood."""
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise LaunchError(f"cannot read {path}: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise LaunchError(f"{path} must hold a YAML mapping such as `num_processes: 2`")
    kind = str(content.get("distributed_type", "NO"))
    if kind not in _DISTRIBUTED_TYPES:
        raise LaunchError(f"{path}: distributed_type is {kind}: it must be one of {', '.join(_DISTRIBUTED_TYPES)}")
    return {**content, "cpu": bool(content.get("use_cpu", False)), "gpu_ids": str(content.get("gpu_ids") or "all")}
