"""Sequences shared by several processes: the same script, the losses and weights of one process."""

from __future__ import annotations

import contextlib
import copy
import pickle
import sys
import types
from pathlib import Path

import pytest
import torch
import torch.distributed.fsdp  # once here instead of in every child
import torch.distributed.tensor.parallel
from torch import nn
from torch.nn import functional as F
from torch.nn.functional import scaled_dot_product_attention as attend
from torch.utils.data import DataLoader, TensorDataset

from accel_runtime import FullyShardedDataParallelPlugin, ParallelismConfig

from .networks import Block, whole
from .training import accelerated, assert_close, plain, seed

LENGTH, WORDS = 16, 11
DOCS = Path(__file__).parents[2] / "docs"


def of(trainer, *buffers, **settings):
    """`maybe_context_parallel` over dimension 1 of the buffers; by hand nothing."""
    if not hasattr(trainer, "maybe_context_parallel"):
        return contextlib.nullcontext()
    return trainer.maybe_context_parallel(buffers=list(buffers), buffer_seq_dims=[1] * len(buffers), **settings)


class Language(nn.Module):
    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, 16), nn.Embedding(LENGTH, 16)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, WORDS)

    def forward(self, tokens, places):
        x = self.words(tokens) + self.places(places)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def tokens(n=11):
    start = torch.randint(0, WORDS, (n, 1), generator=torch.Generator().manual_seed(5))
    return TensorDataset((start + torch.arange(LENGTH + 1) ** 2) % WORDS)


def training(trainer, steps=1):
    """The last batch is uneven, and some targets of it do not count."""
    seed(3)
    model = Language()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(tokens(), 4, shuffle=True))
    losses, norms, counted = [], [], []
    for (ids,) in loader:
        x, y, places = ids[:, :-1], ids[:, 1:], torch.arange(LENGTH).expand(len(ids), -1)
        last = len(losses) == 2
        if last:
            y = y.clone()
            y[:, -5:] = -100
        with of(trainer, x, y, places, no_restore_buffers={places} if last else set()):
            loss = F.cross_entropy(model(x, places).flatten(0, 1), y.flatten())
            weight = (y != -100).sum() if last else None
            trainer.backward(loss, weight=weight)
            losses.append(trainer.global_mean(loss, weight).item())
            counted += [trainer.global_len(x), trainer.global_sum(torch.tensor(x.numel())).item()]
        counted.append(trainer.global_sum(torch.tensor(len(ids))).item())
        assert x.shape == y.shape == (len(ids), LENGTH) and torch.equal(x, ids[:, :-1])
        norms.append(trainer.clip_grad_norm_(model.parameters(), 1.0).item())
        optimizer.step()
        optimizer.zero_grad()
    return {"losses": losses, "norms": norms, "counted": counted, "weights": whole(trainer, model)}


@pytest.fixture(scope="module")
def by_hand():
    return plain(training)


CHECKPOINTING = {"fsdp_plugin": FullyShardedDataParallelPlugin(activation_checkpointing=True)}


@pytest.mark.parametrize(
    ("n", "sizes", "settings"),
    [
        (2, {}, {}),
        (4, {"dp_replicate_size": 2}, {}),
        (4, {"tp_size": 2}, CHECKPOINTING),
    ],
    ids=str,
)
def test_a_language_model(n, sizes, settings, by_hand):
    sizes = ParallelismConfig(**{"cp_size": 2, **sizes})
    for rank, got in enumerate(accelerated(training, n, parallelism_config=sizes, **settings)):
        expected = {name: by_hand[name] for name in ("losses", "norms", "counted", "weights")}
        assert_close({name: got[name] for name in expected}, expected, 5e-6, f"process {rank}")


def test_accumulated_in_per_process_mode():
    """Loaders give the processes of a group one batch; the first of two micro-batches is not averaged."""

    def program(trainer):
        seed(3)
        model = Language(1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(tokens(8), 4))
        for index, (ids,) in enumerate(loader):
            x, y, places = ids[:, :-1], ids[:, 1:], torch.arange(LENGTH).expand(len(ids), -1)
            window = trainer.accumulate(model) if hasattr(trainer, "accumulate") else contextlib.nullcontext()
            with window, of(trainer, x, y, places):
                loss = F.cross_entropy(model(x, places).flatten(0, 1), y.flatten())
                trainer.backward(loss if hasattr(trainer, "accumulate") else loss / 2)
                if hasattr(trainer, "accumulate") or index % 2:
                    optimizer.step()
                    optimizer.zero_grad()
        return {"weights": whole(trainer, model)}

    expected = plain(program)
    settings = {"gradient_accumulation_steps": 2, "split_batches": False}
    for got in accelerated(program, 2, parallelism_config=ParallelismConfig(cp_size=2), **settings):
        assert_close(got["weights"], expected["weights"], 5e-6)


KINDS = {
    "full": {},
    "causal": {"is_causal": True, "scale": 0.3},
    "shared heads": {"is_causal": True, "enable_gqa": True},
    "masked": {"attn_mask": True},
}


def test_the_lines_of_the_documentation():
    lines = (DOCS / "strategies.md").read_text().partition("positions = torch.arange(tokens")
    code = compile(lines[1] + lines[2].partition("```")[0], "docs/strategies.md", "exec")

    def program(trainer):
        seed(3)
        model, (ids,) = trainer.prepare(Language(1)), tokens(4).tensors
        names = {"tokens": ids[:, :-1], "targets": ids[:, 1:], "model": model, "accelerator": trainer, "total": 0}
        exec(code, {"torch": torch, "F": F, **names}, result := dict(names))
        return {"total": result["total"].item(), "gradient": model.head.weight.grad}

    expected = accelerated(program, 1)[0]
    for got in accelerated(program, 2, parallelism_config=ParallelismConfig(cp_size=2)):
        assert_close(
            {key: got[key] for key in ("total", "gradient")}, {key: expected[key] for key in ("total", "gradient")}
        )


def attended(kind):
    """Queries, keys, values and the gradient of the output; the mask; what comes of them on one process."""
    options = dict(KINDS[kind])
    generator = torch.Generator().manual_seed(0)
    heads = 2 if "enable_gqa" in options else 4
    q, k, v, g = (torch.randn(2, h, LENGTH, 8, generator=generator) for h in (4, heads, heads, 4))
    mask = torch.rand(1, 1, LENGTH, LENGTH, generator=generator) > 0.3 if options.pop("attn_mask", None) else None
    inputs = [t.requires_grad_() for t in (q, k, v)]
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **options)
    return [*inputs, g], mask, options, [expected.detach(), *torch.autograd.grad(expected, inputs, g)]


@pytest.mark.parametrize("n", [2, 4])
def test_attention(n):
    """Outputs and gradients, called by its name in `functional` and by a name of the model's own file."""
    kinds = {kind: attended(kind) for kind in KINDS}

    def program(trainer):
        from accel_runtime.strategies.sequence_attention import part

        model = trainer.prepare(OwnName())
        places = torch.arange(LENGTH)[None]
        with of(trainer, places):
            for kind, (tensors, mask, options, expected) in kinds.items():
                *own, g = (part(t.detach(), 2, trainer.process_index, n) for t in tensors)
                rows = None if mask is None else part(mask, 2, trainer.process_index, n)
                for function in (F.scaled_dot_product_attention, own_attention):
                    got = function(*(t.requires_grad_() for t in own), attn_mask=rows, **options)
                    found = [got.detach(), *torch.autograd.grad(got, own, g)]
                    assert_close(found, [part(t, 2, trainer.process_index, n) for t in expected], 1e-6, kind)
        assert F.scaled_dot_product_attention is attend
        return {"places": places, "model": pickle.loads(pickle.dumps(copy.deepcopy(model))).weight.shape}

    accelerated(program, n, parallelism_config=ParallelismConfig(cp_size=n))


class OwnName(nn.Linear):
    """A module whose file has imported the function by itself."""

    def __init__(self) -> None:
        super().__init__(1, 1)


def own_attention(*args, **kwargs):
    return attend(*args, **kwargs)


class Encoder(nn.TransformerEncoderLayer):
    """Followed by BatchNorm over the tokens of all parts."""

    def __init__(self) -> None:
        super().__init__(16, 4, 32, dropout=0.0, batch_first=True)
        self.last = nn.BatchNorm1d(16)

    def forward(self, *args, **kwargs):
        return self.last(super().forward(*args, **kwargs).transpose(1, 2)) ** 3


def test_torchs_own_layers():
    """`nn.TransformerEncoderLayer` with a causal mask over the tokens that it sees."""

    def program(trainer):
        seed(3)
        model = trainer.prepare(Encoder())
        x = torch.randn(2, LENGTH, 16, generator=torch.Generator().manual_seed(1))
        with of(trainer, x):
            mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
            loss = model(x, src_mask=mask, is_causal=True).square().mean()
            trainer.backward(loss)
            gradient = model.self_attn.in_proj_weight.grad
            return {"loss": trainer.global_mean(loss).item(), "gradient": gradient, "variance": model.last.running_var}

    expected = plain(program)
    for got in accelerated(program, 2, parallelism_config=ParallelismConfig(cp_size=2)):
        got.pop("streams")
        assert_close(got, {key: expected[key] for key in got})


def in_context(call):
    def program(trainer):
        model = trainer.prepare(Language(1))
        ids = torch.zeros(2, LENGTH, dtype=torch.long)
        with of(trainer, ids):
            return call(trainer, model, ids)

    return program


def with_buffers(*shapes, **settings):
    return lambda trainer: of(trainer, *(torch.zeros(shape, **settings) for shape in shapes)).__enter__()


def hugging_face(**config):
    """What a model of Transformers shows of itself."""

    class ForCausalLM(nn.Module):
        def forward(self, input_ids=None, attention_mask=None, position_ids=None, labels=None, **kwargs):
            self.seen = {"positions": position_ids, "mask": attention_mask}
            return F.scaled_dot_product_attention(*[self.weight * torch.zeros(1, 1, input_ids.shape[1], 4)] * 3)

    model = ForCausalLM()
    model.weight = nn.Parameter(torch.ones(()))
    model.config = types.SimpleNamespace(**{"_attn_implementation": "sdpa", "rope_theta": 1.0, **config})
    model.loss_function = types.FunctionType((lambda: None).__code__, {}, "ForCausalLMLoss")
    return model


def run(config, **inputs):
    def attempt(trainer):
        model = trainer.prepare(hugging_face(**config))
        ids = torch.zeros(2, LENGTH, dtype=torch.long)
        with of(trainer, ids):
            model(input_ids=ids, **inputs)
        return model.seen

    return attempt


def positions_of(table, look_up, buffer=False):
    """A model that takes the first rows of `table` for the positions of whatever it is given."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", table) if buffer else self.register_parameter("table", nn.Parameter(table))

        def forward(self, ids):
            return F.scaled_dot_product_attention(*[look_up(self.table, ids.shape[1]).expand(1, 1, ids.shape[1], 6)] * 3)

    def attempt(trainer):
        model = trainer.prepare(Net())
        ids = torch.zeros(2, LENGTH, dtype=torch.long)
        with of(trainer, ids):
            model(ids)

    return attempt


MISTAKES = {
    "first 8 rows of a table [1, 64, 6]": positions_of(torch.ones(1, 64, 6), lambda table, n: table[:, :n]),
    "first 8 rows of a table [65, 6]": positions_of(torch.ones(65, 6), lambda table, n: table[torch.arange(n)]),
    "first 8 rows of a table [66, 6]": positions_of(torch.ones(66, 6), lambda table, n: F.embedding(torch.arange(n)[None], table)),
    "first 8 rows of a table [1, 67, 6]": positions_of(torch.ones(1, 67, 6), lambda table, n: table[:, 0:n, :], buffer=True),
    "has a mask [8, 8]": in_context(
        lambda t, m, x: F.scaled_dot_product_attention(*[torch.zeros(1, 1, 8, 4)] * 3, attn_mask=torch.ones(8, 8))
    ),
    "has 9 keys where a part of the sequence has 8": in_context(
        lambda t, m, x: F.scaled_dot_product_attention(*[torch.zeros(1, 1, 9, 4)] * 3)
    ),
    "gather_for_metrics inside": in_context(lambda t, m, x: t.gather_for_metrics(x)),
    "draw inside": in_context(lambda t, m, x: t.draw(torch.randn, 2, 8)),
    "without scaled_dot_product_attention": in_context(lambda t, m, x: t.prepare(nn.Embedding(WORDS, 4))(x)),
    "have 18 tokens, and cp_size 2 needs a multiple of 4": with_buffers((1, 18)),
    "lengths 8, 16: cut or pad": with_buffers((1, 8), (1, 16)),
    "a buffer requires a gradient": with_buffers((1, 8), requires_grad=True),
    "1 buffers and 0 buffer_seq_dims": lambda t: t.maybe_context_parallel([torch.zeros(1, 8)], []).__enter__(),
    "counts positions from 0 in each part": run({"rope_theta": None}),
    "position_ids are not those of whole sequences": run({}, position_ids=torch.arange(8)[None] * 0),
    "shifts its labels": run({}, labels=torch.zeros(1, 8)),
    "attn_implementation='eager'": run({"_attn_implementation": "eager"}),
    "has a sliding_window": run({"sliding_window": 4}),
    "has chunked_attention": run({"layer_types": ["full_attention", "chunked_attention"]}),
    "not among the buffers": lambda t: of(t, torch.zeros(1, 8), no_restore_buffers={torch.zeros(1)}).__enter__(),
}


@pytest.fixture(scope="module")
def mistakes():
    """What each of them says, tried one after another in the same two processes."""

    def program(trainer):
        said = {}
        for expected, attempt in MISTAKES.items():
            try:
                attempt(trainer)
            except (ValueError, RuntimeError) as error:
                said[expected] = str(error)
        return said

    return accelerated(program, 2, parallelism_config=ParallelismConfig(cp_size=2))[1]


@pytest.mark.parametrize("message", MISTAKES)
def test_what_cannot_be_says_so(message, mistakes):
    assert message in mistakes[message] and "\n" not in mistakes[message]


def test_other_cuts_of_weights_are_no_positions():
    """A fused projection as wide as a part is long, single numbers, a cut of another length, rows by ids."""
    ids = torch.tensor([[0, 1, 2, 3, 12, 13, 14, 15]])
    cuts = [
        (torch.ones(24, 8), lambda table, n: table[:n].sum() * torch.ones(n, 6)),
        (torch.ones(64), lambda table, n: table[:n, None] * torch.ones(n, 6)),
        (torch.ones(64, 6), lambda table, n: table[:6].sum() * torch.ones(n, 6)),
        (torch.ones(64, 6), lambda table, n: table[ids]),
    ]

    def program(trainer):
        for table, cut in cuts:
            positions_of(table, cut)(trainer)
        return {}

    accelerated(program, 2, parallelism_config=ParallelismConfig(cp_size=2))


def test_positions_of_rotary_models_are_filled_in():
    first, second = accelerated(run({}), 2, parallelism_config=ParallelismConfig(cp_size=2))
    assert first["positions"].tolist() == [[*range(4), *range(12, 16)]] and first["mask"].shape == (2, 8)
    assert second["positions"].tolist() == [[*range(4, 12)]]


def test_without_cp_size_nothing_happens():
    def program(trainer):
        ids = torch.zeros(1, 6)
        with of(trainer, ids):
            return {"shape": tuple(ids.shape)}

    assert accelerated(program, 1)[0]["shape"] == (1, 6)
    assert sys.modules[__name__].attend is F.scaled_dot_product_attention
