"""What says which process this is, how many there are, or whether there are several."""

from __future__ import annotations

import ast

import pytest

from accel_migrate.facts.distributed import When, process_group_calls, ranks_of, when
from accel_migrate.facts.rank_names import Kind
from codemod.memory import facts_of

START = """\
import argparse
import os
import torch
import torch.distributed as dist
import torch.distributed
parser = argparse.ArgumentParser()
parser.add_argument("--local-rank", type=int, default=-1)
parser.add_argument("--gpu", type=int)
args = parser.parse_args()


def is_dist_avail_and_initialized():
    if not dist.is_available():
        return False
    if not dist.is_initialized():
        return False
    return True


def get_rank():
    if not is_dist_avail_and_initialized():
        return 0
    return dist.get_rank()


def get_world_size():
    return dist.get_world_size() if dist.is_initialized() else 1


def is_main_process():
    return get_rank() == 0


world_size = int(os.getenv("WORLD_SIZE", "1"))
"""


def meaning(expression: str, code: str = "") -> tuple[Kind, bool] | None:
    facts = facts_of(f"{START}{code}\nwanted = {expression}\n")
    assert facts.entry is not None
    statement = facts.entry.tree.body[-1]
    assert isinstance(statement, ast.Assign)
    found = ranks_of(facts).of(statement.value)
    return (found.kind, found.negated) if found is not None else None


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("dist.get_rank()", Kind.RANK),
        ("get_rank()", Kind.RANK),
        ("int(os.environ['RANK'])", Kind.RANK),
        ("int(os.environ.get('LOCAL_RANK', 0))", Kind.LOCAL_RANK),
        ("args.local_rank", Kind.LOCAL_RANK),
        ("get_world_size()", Kind.WORLD),
        ("world_size", Kind.WORLD),
        ("torch.cuda.device_count()", Kind.LOCAL_WORLD),
        ("2 * torch.cuda.device_count()", None),
        ("get_rank() % torch.cuda.device_count()", Kind.LOCAL_RANK),
        ("args.gpu * torch.cuda.device_count() + args.local_rank", None),
        ("dist.is_initialized()", Kind.FLAG),
        ("is_dist_avail_and_initialized()", Kind.FLAG),
        ("world_size > 1", Kind.FLAG),
        ("args.local_rank != -1", Kind.FLAG),
        ("'RANK' in os.environ and 'WORLD_SIZE' in os.environ", Kind.FLAG),
        ("is_main_process()", Kind.MAIN),
        ("get_rank() == 0", Kind.MAIN),
        ("not get_rank()", Kind.MAIN),
        ("args.local_rank in [-1, 0]", Kind.MAIN),
        ("not dist.is_initialized() or dist.get_rank() == 0", Kind.MAIN),
        ("world_size > 1 and get_rank() == 0", Kind.MAIN),
        ("args.gpu", None),
        ("args.gpu == 0", None),
        ("get_rank() == 3", None),
    ],
)
def test_an_expression(expression: str, kind: Kind | None) -> None:
    found = meaning(expression)
    assert found == ((kind, False) if kind is not None else None)


@pytest.mark.parametrize(("expression", "kind"), [("args.local_rank == -1", Kind.FLAG), ("get_rank() != 0", Kind.MAIN), ("world_size == 1", Kind.FLAG)])
def test_the_opposite(expression: str, kind: Kind) -> None:
    assert meaning(expression) == (kind, True)


@pytest.mark.parametrize(
    ("code", "expression", "kind"),
    [
        ("def f(r):\n    return r\nplace = f(get_rank())", "place", Kind.RANK),
        ("args.rank = int(os.environ['RANK'])", "args.rank", Kind.RANK),
        ("rank, size = dist.get_rank(), dist.get_world_size()", "size", Kind.WORLD),
        ("def setup():\n    return 1.0, dist.get_rank()\nx, rank = setup()", "rank", Kind.RANK),
        ("dist.init_process_group('gloo', rank=args.number, world_size=args.total)", "args.total", Kind.WORLD),
        ("def setup(a, b):\n    dist.init_process_group('gloo', rank=a, world_size=b)\nn = 4\nsetup(args.gpu, n)", "n", Kind.WORLD),
        ("args.rank = 8 * args.gpu + args.local_rank\ndist.init_process_group('gloo', rank=args.rank)", "args.rank", Kind.RANK),
        ("rank = get_rank()\nrank = 17 * args.gpu", "rank", None),
        ("class Config:\n    master = dist.get_rank() == 0\nconfig = Config()", "config.master", Kind.MAIN),
    ],
)
def test_what_is_kept_somewhere(code: str, expression: str, kind: Kind | None) -> None:
    found = meaning(expression, code)
    assert found == ((kind, False) if kind is not None else None)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("dist.init_process_group('gloo')", When.ALWAYS),
        ("if __name__ == '__main__':\n    dist.init_process_group('gloo')", When.ALWAYS),
        ("def setup():\n    dist.init_process_group('gloo')\nif args.local_rank != -1:\n    setup()", When.LAUNCHED),
        ("if 'RANK' in os.environ:\n    x = 1\nelif args.gpu:\n    x = 2\nelse:\n    raise SystemExit\ndist.init_process_group('gloo')", When.ALWAYS),
        ("def f():\n    if 'RANK' in os.environ:\n        x = 1\n    else:\n        return\n    dist.init_process_group('gloo')\nf()", When.LAUNCHED),
        ("if torch.cuda.device_count() > 1:\n    dist.init_process_group('gloo')", When.ASKED),
        ("parser.add_argument('--ddp', action='store_true')\nif args.ddp:\n    dist.init_process_group('gloo')", When.ASKED),
        ("use_ddp = True\nif use_ddp:\n    dist.init_process_group('gloo')", When.ALWAYS),
    ],
)
def test_when_a_group_is_made(code: str, expected: When) -> None:
    facts = facts_of(START + code + "\n")
    assert [when(facts, call) for call in process_group_calls(facts)] == [expected]
