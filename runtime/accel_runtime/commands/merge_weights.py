"""`accel merge-weights`: the model in a checkpoint, or a model in parts, as one file (or parts of another size)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ..checkpoint.errors import CheckpointError
from ..checkpoint.manifest import NAME, check_sizes, read_manifest
from ..checkpoint.weights import read_model, write_model


def main(argv: Sequence[str] | None = None) -> int:
    """Merge, and return the exit status: 0, or 2 for what cannot be read or written."""
    parser = argparse.ArgumentParser(
        prog="accel merge-weights", description="Merge the weights that several processes have written."
    )
    parser.add_argument("checkpoint_directory", type=Path, help="a checkpoint, or a folder with a model in parts")
    parser.add_argument("output_path", type=Path, help="the folder to write to")
    parser.add_argument("--max-shard-size", default="10TB", help="cut into files of at most this size, such as 5GB")
    parser.add_argument(
        "--unsafe-serialization",
        "--unsafe_serialization",
        action="store_true",
        help="write pytorch_model.bin instead of safetensors",
    )
    options = parser.parse_args(argv)
    try:
        written = _merge(
            options.checkpoint_directory, options.output_path, options.max_shard_size, not options.unsafe_serialization
        )
    except (CheckpointError, OSError, ValueError) as error:
        print(f"accel merge-weights: error: {error}", file=sys.stderr)
        return 2
    print(f"wrote {', '.join(written)} to {options.output_path}")
    return 0


def _merge(source: Path, target: Path, limit: str, safe: bool) -> list[str]:
    if not source.is_dir():
        raise CheckpointError(f"{source} is no folder")
    if source.resolve() == target.resolve():
        raise CheckpointError(f"{target} holds the parts: choose another folder for the result")
    if (source / NAME).exists():
        check_sizes(source, read_manifest(source))
    return write_model(read_model(source), target, limit, safe)


if __name__ == "__main__":
    sys.exit(main())
