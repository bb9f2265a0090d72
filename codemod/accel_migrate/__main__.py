"""`python -m accel_migrate` is `accel-migrate`."""

from __future__ import annotations

import sys

from accel_migrate.command.cli import main

sys.exit(main())
