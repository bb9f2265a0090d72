"""The command line of `accel launch`, and the configuration file that can stand in for it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from .commands.shell import reader
from .settings.errors import LaunchError
from .settings.kinds import Kind
from .settings.offered import SECTIONS, offered
from .settings.reading import usable
from .settings.table import GROUPS, SETTINGS

PROJECT_FILE = "accel.yaml"
"""The configuration that a launch from its folder reads by itself."""
_UNDERSTOOD = ("multi_gpu", "same_network", "main_training_function", "role")


class _Parser(argparse.ArgumentParser):
    """Reports what is wrong in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        if "required: training_script" in message:
            message = "no script was given: accel launch [options] SCRIPT [its arguments]"
        message = re.sub(r"^argument (--?\w+)\S*: ", r"\1: ", message)
        message = re.sub(r"^unrecognized arguments: (.*)", r"unknown option \1: the script's own options stand behind the script", message)
        raise LaunchError(f"{message} (all options: {self.prog} --help)")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of a launch: from the command line, else from its configuration file, else the defaults.

    `config_file` is the file that was read, None without one; `unused` what it asks for in vain.

    Raises:
        LaunchError: an option, or the file, asks for something that is not there.
    """
    options = parser().parse_args(argv)
    given = {name for name in SETTINGS if getattr(options, name, None) is not None}
    if options.config_file is None and Path(PROJECT_FILE).is_file():
        options.config_file = PROJECT_FILE
    content = usable(Path(options.config_file)) if options.config_file else None
    from_file = content.values if content else {}
    for name, setting in SETTINGS.items():
        if name not in given:
            setattr(options, name, from_file.get(name, setting.default))
    options.unused = list(map(str, content.unused)) if content else []
    _check(options, given)
    return options


def _check(options: argparse.Namespace, given: set[str]) -> None:
    """What no single value can show."""
    for section, switch in SECTIONS.items():
        if getattr(options, switch) and not offered(switch):
            raise LaunchError(f"--{switch}: the runtime does not have this strategy; leave it out, and {section} of the file")
        lonely = next((name for name in sorted(given) if SETTINGS[name].section == section), None)
        if lonely and not getattr(options, switch):
            raise LaunchError(f"--{lonely} needs --{switch}")
    _check_tpu(options)
    if options.module and options.no_python:
        raise LaunchError("--module and --no_python exclude each other: the first runs a Python module, the second a program")
    if options.num_machines > 1 and not options.main_process_ip:
        raise LaunchError(f"--num_machines {options.num_machines} needs --main_process_ip, the address of the machine with --machine_rank 0")
    if options.machine_rank >= options.num_machines:
        raise LaunchError(f"--machine_rank is {options.machine_rank} and --num_machines {options.num_machines}: it must be from 0 to {options.num_machines - 1}")
    if options.tee is not None and not options.log_dir:
        raise LaunchError("--tee needs --log_dir, the folder of the files")


def _check_tpu(options: argparse.Namespace) -> None:
    if not options.tpu:
        return
    if options.cpu:
        raise LaunchError("--tpu and --cpu exclude each other; PJRT_DEVICE=CPU in the environment tries --tpu on the CPU")
    if options.num_machines > 1 or (options.num_processes or 1) > 1:
        raise LaunchError("--tpu starts one process, which drives all devices of one machine: leave out --num_processes and --num_machines")


def parser(program: str = "accel launch") -> argparse.ArgumentParser:
    """The parser; every option may be spelled with hyphens too."""
    made = _Parser(program, description="Run a script on several processes.", formatter_class=Underscores, allow_abbrev=False)
    add_settings(made)
    rest = made.add_argument_group("the script and the rest")
    _option(rest, "config_file", metavar="FILE", help=f"YAML file with the options above; default: {PROJECT_FILE}, if this folder has one (see accel config)")
    _option(rest, "no_python", action="store_true", help="the script is a program of its own")
    rest.add_argument("-m", "--module", action="store_true", help="the script is a module's name, as with python -m")
    rest.add_argument("--dry-run", "--dry_run", action="store_true", help="print the command that would be run, for a shell, and run nothing")
    rest.add_argument("-q", "--quiet", action="store_true", help="say nothing when a process fails; its exit code is the launcher's")
    _option(rest, "dynamo_backend", type=_no_compiler, metavar="no", help=argparse.SUPPRESS)
    for name in _UNDERSTOOD:
        takes = {"action": "store_true"} if name in ("multi_gpu", "same_network") else {}
        _option(rest, name, help=argparse.SUPPRESS, **takes)
    made.add_argument("training_script", help="the script to run")
    made.add_argument("training_script_args", nargs=argparse.REMAINDER, help="its arguments")
    return made


def add_settings(made: argparse.ArgumentParser) -> None:
    """Give `made` an option for each setting; those that are not given are None."""
    for heading, settings in GROUPS.items():
        group = made.add_argument_group(heading)
        for setting in settings:
            if setting.on_command_line:
                _option(group, setting.name, help=setting.help, **_reading(setting.kind))


def _reading(kind: Kind) -> dict[str, Any]:
    if kind.flag:
        return {"action": "store_true", "default": None}
    return {"type": reader(kind), "metavar": kind.shown}


def _no_compiler(text: str) -> str:
    if text.lower() != "no":
        raise argparse.ArgumentTypeError("models are compiled in the script: model = torch.compile(model)")
    return text


class Underscores(argparse.HelpFormatter):
    """Show each option once, not in both spellings."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        spellings = action.option_strings
        action.option_strings = [s for s in spellings if "-" not in s.lstrip("-")] or spellings[:1]
        try:
            return super()._format_action_invocation(action)
        finally:
            action.option_strings = spellings


def _option(group: argparse._ArgumentGroup, name: str, **settings: Any) -> None:
    group.add_argument(*dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}")), **settings)
