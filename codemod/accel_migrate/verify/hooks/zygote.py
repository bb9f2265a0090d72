"""Run scripts in forks of a process that has imported torch already: well under a second each instead of five to twenty-five.

Reads one JSON request per line from standard input and answers each with one line:

    {"script", "module", "home", "args", "cwd", "env", "processes", "distributed", "timeout", "hang_seconds", "out", "reverse_batches", "trace"}
    -> {"exit_codes": [...], "first_failed": rank or null, "timed_out": bool, "hung": bool, "seconds": float}

    {"call": "module:function", "arguments": {...}} -> {"result": ...} or {"error": traceback}

Standard output and error of rank K go to OUT/rankK.out and OUT/rankK.err. If the run is distributed the ranks get what
torchrun would give them: its environment, a store that outlives rank 0, and the end of all when one fails.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import ctypes
import faulthandler
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from accel_migrate.verify.hooks.activity import Activity

GRACE_SECONDS = 2.0
POLL_SECONDS = 0.01
_PR_SET_PDEATHSIG = 1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--preload", nargs="*", default=[], help="modules to import before forking, where installed")
    parser.add_argument(
        "--in-child", default=None, metavar="MODULE:FUNCTION", help="called in every rank before the script"
    )
    options = parser.parse_args()
    _die_with_parent()
    for name in options.preload:
        _import_if_installed(name)
    gc.freeze()  # what is here is here to stay: collections in the forks need not look at it, nor copy its pages
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    print(json.dumps({"ready": True}), file=answers)
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):  # the command says that it was interrupted
        for line in sys.stdin:
            request = json.loads(line)
            request["in_child"] = options.in_child
            print(json.dumps(_answer(request)), file=answers)


def _die_with_parent(how: signal.Signals = signal.SIGTERM) -> None:
    """Where the system offers it: a command that is killed leaves nothing running."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, how)


def _interrupted(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def _import_if_installed(name: str) -> None:
    with contextlib.suppress(ImportError):
        importlib.import_module(name)


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    """A supervisor of its own for each request: it hosts the store, whose threads must not reach later forks."""
    read_end, write_end = os.pipe()
    supervisor = os.fork()
    if supervisor == 0:
        signal.signal(signal.SIGTERM, _interrupted)  # which may reach the whole group: the ranks have groups of their own, and must end
        os.close(read_end)
        with contextlib.suppress(KeyboardInterrupt), os.fdopen(write_end, "w") as answer:
            answer.write(json.dumps(_called(request) if "call" in request else _supervise(request)))
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as answer:
        text = answer.read()
    os.waitpid(supervisor, 0)
    return json.loads(text) if text else _NOTHING


_NOTHING = {"exit_codes": [1], "first_failed": None, "timed_out": False, "hung": False, "seconds": 0.0, "error": "it died"}


def _called(request: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"result": _function(request["call"])(**request["arguments"])}
    except Exception:
        return {"error": traceback.format_exc()}


def _function(name: str) -> Any:
    module, function = name.split(":")
    return getattr(importlib.import_module(module), function)


def _supervise(request: dict[str, Any]) -> dict[str, Any]:
    started = time.monotonic()
    processes = request["processes"]
    port = _free_port()
    ranks = [_fork_rank(request, rank, port) for rank in range(processes)]
    store = _host_store(port, processes) if request["distributed"] else None
    try:
        codes, timed_out, hung = _wait_for(ranks, started + request["timeout"], Activity(ranks, request["hang_seconds"]))
    finally:
        _end(ranks)
    del store
    return {
        "exit_codes": [codes[pid] for pid in ranks],
        "first_failed": next((ranks.index(pid) for pid, code in codes.items() if code), None),
        "timed_out": timed_out,
        "hung": hung,
        "seconds": time.monotonic() - started,
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _host_store(port: int, processes: int) -> Any:
    from torch.distributed import TCPStore

    return TCPStore("127.0.0.1", port, processes, is_master=True, wait_for_workers=False)


def _wait_for(ranks: list[int], deadline: float, activity: Activity) -> tuple[dict[int, int], bool, bool]:
    """Exit codes by process id, in the order in which they ended; one that had to be killed has the code of its signal.

    Also whether time ran out, and whether that was because nothing went on.
    """
    codes: dict[int, int] = {}
    timed_out = hung = False
    parent = os.getppid()
    while len(codes) < len(ranks):
        for pid in ranks:
            if pid not in codes and (status := os.waitpid(pid, os.WNOHANG))[0]:
                codes[pid] = os.waitstatus_to_exitcode(status[1])
        if any(codes.values()):
            deadline = min(deadline, time.monotonic() + GRACE_SECONDS)
        stalled = len(codes) < len(ranks) and activity.has_stopped()
        if stalled or time.monotonic() > deadline:
            timed_out = not any(codes.values())
            hung = stalled and timed_out
            _kill([pid for pid in ranks if pid not in codes], codes)
        if os.getppid() != parent:
            raise KeyboardInterrupt
        time.sleep(POLL_SECONDS)
    return codes, timed_out, hung


def _end(ranks: list[int]) -> None:
    """Whatever is left of these processes and their loader workers."""
    for pid in ranks:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _kill(pids: list[int], codes: dict[int, int]) -> None:
    """End these ranks and their loader workers, after each has written to its error output where it was."""
    for pid in pids:
        os.kill(pid, signal.SIGUSR1)
    time.sleep(0.3)
    for pid in pids:
        os.killpg(pid, signal.SIGKILL)
        codes[pid] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _fork_rank(request: dict[str, Any], rank: int, port: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _die_with_parent(signal.SIGKILL)
    code = 1
    try:
        _redirect(Path(request["out"]), rank)
        _enter(request, rank, port)
        code = _run_script(request)
    except BaseException:
        traceback.print_exc()
    finally:
        _leave(code)
    raise AssertionError("unreachable")


def _redirect(out: Path, rank: int) -> None:
    for stream, target, mode in (
        (0, os.devnull, "r"),
        (1, out / f"rank{rank}.out", "w"),
        (2, out / f"rank{rank}.err", "w"),
    ):
        with open(target, mode) as file:
            os.dup2(file.fileno(), stream)
    sys.stdin = open(0)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    faulthandler.register(signal.SIGUSR1, file=open(Path(out, f"rank{rank}.stack"), "w"))  # noqa: SIM115


def _enter(request: dict[str, Any], rank: int, port: int) -> None:
    os.chdir(request["cwd"])
    os.environ.update(request["env"])
    tempfile.tempdir = None  # what was found before the fork
    if request["distributed"]:
        os.environ.update(_torchrun_environment(rank, request["processes"], port))
    sys.argv = [request["script"], *request["args"]]
    sys.path[0] = request["home"] if request["module"] else os.path.dirname(os.path.abspath(request["script"]))
    if request["reverse_batches"]:
        from accel_migrate.verify.hooks.batch_order import reverse_samples_in_batches

        reverse_samples_in_batches()
    if request["in_child"]:
        _function(request["in_child"])()
    if request["trace"] is not None:
        hooks = importlib.import_module(f"accel_migrate.verify.hooks.{request['trace'].get('hooks', 'tracing')}")
        hooks.install(request["trace"], Path(request["out"]), rank, request["processes"])


def _torchrun_environment(rank: int, processes: int, port: int) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "ROLE_RANK": str(rank),
        "GROUP_RANK": "0",
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_RUN_ID": "none",
    }


def _run_script(request: dict[str, Any]) -> int:
    try:
        if request["module"]:
            runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(request["script"], run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    return 0


def _leave(code: int) -> None:
    """What an interpreter does at its end, without the teardown of modules that the parent still shares."""
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
