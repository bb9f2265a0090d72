"""Packed sequences: their data have a row for each step of each sample, so a mean over them is none over samples.

`pack_padded_sequence(x, lengths)[0]`, or its `.data`, has `sum(lengths)` rows.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from accel_migrate.facts.values import Local


def data(value: Local) -> Local:
    """The data of the packed sequences `value`."""
    return replace(value, packed=None, mask=value.packed, axis=0, rank=None, truth=False, host=False)


def denominator(call: ast.AST) -> tuple[str, ast.AST] | None:
    """The number of rows that sequences packed by `call` have, as a template and what it counts; None where it packs nothing."""
    if not isinstance(call, ast.Call) or "pack" not in ast.unparse(call.func):
        return None
    named = [k.value for k in call.keywords if k.arg == "lengths"]
    lengths = call.args[1] if len(call.args) > 1 else next(iter(named), None)
    return None if lengths is None else ("sum({mask})", lengths)
