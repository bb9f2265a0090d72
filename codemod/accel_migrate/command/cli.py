"""`accel-migrate`: the outermost layer, which turns every failure into one line and an exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from accel_migrate.command.arguments import parse_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:  # without importing typing: `--help` has to be quick
    from accel_migrate.command.run import Migrate


def main(argv: Sequence[str] | None = None, *, prog: str = "accel-migrate", migrate: Migrate | None = None) -> int:
    """Run the command line and return the exit status. `migrate` stands in for the pipeline in tests."""
    try:
        never_fail_to_print()
        arguments = parse_arguments(argv, prog)
        from accel_migrate.command.run import run

        status = run(arguments, migrate)
        sys.stdout.flush()
        return status
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    except BrokenPipeError:
        silence_stdout()
        return 0
    except KeyboardInterrupt:
        print(f"{prog}: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        return _failed(error, prog)


def _failed(error: Exception, prog: str) -> int:
    from accel_migrate.errors import UserError, internal_error

    print(f"{prog}: error: {error if isinstance(error, UserError) else internal_error(error)}", file=sys.stderr)
    return 2


def never_fail_to_print() -> None:
    """Scripts hold characters which the terminal's encoding may lack."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def silence_stdout() -> None:
    """The reader has gone (`| head`): keep the interpreter from complaining when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
