"""`accel launch SCRIPT ARGS`: start a script on several processes of this machine, or of several machines.

Built on torchrun's agent, run inside this process: each of the script's processes finds RANK, WORLD_SIZE and so on in
its environment, on CPU as on GPU. On one machine a free port is found for the rendezvous. If a process fails, the
others are stopped and its exit code becomes the launcher's.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from . import launch_plan
from .launch_arguments import parse
from .launch_network import address_towards
from .launch_notes import AGENT, FOLDER, PREFIX, Notes
from .launch_orphans import watched
from .launch_plan import Plan
from .launch_report import failed
from .launch_signals import Ending, ended_well, pass_on, restart_no_more
from .settings.errors import LaunchError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script that the command line names; return its exit code, or 2 for a wrong command line.

    With one process this one is replaced by the script's. An interrupt (Ctrl-C) is passed on to the processes; 130.
    """
    try:
        options = parse(argv)
        plan = launch_plan.make(options)
        for remark in options.unused:
            _say(remark, 0)
        if options.dry_run:
            print(launch_plan.shown(plan))
            return 0
        os.environ.update(plan.environment)
        if plan.alone:
            _become(plan.command)
        return _run_together(plan)
    except LaunchError as error:
        return _say(str(error), 2)
    except KeyboardInterrupt:
        return _say("interrupted; all processes have been stopped", 130)


def _say(message: str, exit_code: int) -> int:
    print(f"accel launch: {message}", file=sys.stderr)
    return exit_code


def _stopped(number: int) -> int:
    return _say(f"stopped by signal {int(number)}; all processes have been stopped", 128 + number)


def _become(command: list[str]) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise LaunchError(f"cannot run {command[0]}: {error.strerror}") from None


def _run_together(plan: Plan) -> int:
    launch_plan.check_port(plan.options)
    launch_plan.await_main_machine(plan.options, lambda message: _say(message, 0))
    with tempfile.TemporaryDirectory(prefix=PREFIX.format(pid=os.getpid())) as folder, watched(f"{FOLDER}={folder}"):
        os.environ[FOLDER] = folder
        return _run_noted(plan, Notes(folder))


def _run_noted(plan: Plan, notes: Notes) -> int:
    """Run torch's agent to the end, and say what became of its processes."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import elastic_launch

    config = _config(plan, notes.folder)
    _quieten("torch.distributed.elastic")  # what it has to say is said below
    signal.signal(signal.SIGINT, functools.partial(_interrupt, notes, plan.here))
    pass_on(notes)
    ending = Ending()
    ending.begin()
    try:
        elastic_launch(config, plan.command[0])(*plan.command[1:])
    except ChildFailedError as error:
        if notes.interrupted:
            raise KeyboardInterrupt from None
        if ending.begun and all(failure.exitcode == -signal.SIGTERM for failure in error.failures.values()):
            return _stopped(signal.SIGTERM)
        text, code = failed(error.failures, notes, plan.processes)
        if not plan.options.quiet:
            sys.stderr.write(text)
        return code
    except SignalException as error:
        if int(error.sigval) == signal.SIGINT:
            raise KeyboardInterrupt from None
        if ended_well():  # the scripts have taken the signal
            return 0
        return _stopped(int(error.sigval))
    except (RuntimeError, OSError) as error:
        raise LaunchError(f"the processes could not be started together: {' '.join(str(error).split())}") from None
    finally:
        ending.over()
    return 0


def _quieten(package: str) -> None:
    for name in (package, *(name for name in logging.root.manager.loggerDict if name.startswith(f"{package}."))):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _interrupt(notes: Notes, processes: int, signum: int, frame: Any) -> None:
    """Ctrl-C: as without a launcher, the scripts may catch it; the second time, or before all have begun, all are ended."""
    running = notes.running()
    if notes.interrupted or len(running) < processes:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        notes.interrupt()
        raise KeyboardInterrupt
    notes.interrupt()
    restart_no_more()
    for pid in running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)


def _config(plan: Plan, folder: Path) -> Any:
    """The settings of torchrun's agent: processes per machine, and where machines meet."""
    from torch.distributed.launcher.api import LaunchConfig

    options = plan.options
    backend, endpoint, further = launch_plan.meeting(options)
    return LaunchConfig(
        min_nodes=options.num_machines,
        max_nodes=options.num_machines,
        nproc_per_node=plan.here,
        logs_specs=_logs(options, folder),
        max_restarts=options.max_restarts,
        monitor_interval=options.monitor_interval,
        run_id="accel",
        role=options.role or "process",
        rdzv_backend=backend,
        rdzv_endpoint=endpoint,
        rdzv_configs=further,
        local_addr=address_towards(options.main_process_ip) if options.num_machines > 1 else None,
        **_own_interrupts(LaunchConfig),
    )


def _logs(options: Any, folder: Path) -> Any:
    """Where output goes: straight to the terminal, or with `--log_dir` into a file for each process, and to the terminal too.

    Torch's agent has files of its own in any case, which go to `folder`: elsewhere nobody would remove them.
    """
    from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, Std

    if not options.log_dir:
        return DefaultLogsSpecs(log_dir=str(folder / AGENT))
    try:
        Path(options.log_dir).mkdir(parents=True, exist_ok=True)
        tee = Std.from_str(options.tee or "3")
        return DefaultLogsSpecs(log_dir=options.log_dir, redirects=Std.ALL, tee=tee)
    except OSError as error:
        raise LaunchError(f"--log_dir: {options.log_dir} cannot be written: {error.strerror}") from None
    except ValueError:
        raise LaunchError(f"--tee: {options.tee!r} is not 0, 1, 2, 3, or one of them for each process as in 0:1,1:3") from None


def _own_interrupts(config: Any) -> dict[str, str]:
    """Leave SIGINT and SIGTERM to this module, where torch's agent lets others handle them."""
    return {"signals_to_handle": "SIGHUP,SIGQUIT"} if "signals_to_handle" in config.__dataclass_fields__ else {}


if __name__ == "__main__":
    sys.exit(main())
