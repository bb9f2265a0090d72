"""Layers computed by several processes together: the same script, the losses and weights of one process."""

from __future__ import annotations

import pytest
import torch
import torch.distributed.fsdp  # once here instead of in every child
import torch.distributed.tensor.parallel
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from accel_runtime import FullyShardedDataParallelPlugin, ParallelismConfig

from .networks import Transformer, convolutional, fit_network, sentences, whole
from .ranks import RanksFailed
from .training import accelerated, assert_close, assert_same_training, data, mlp, plain, seed, weights


def transformer(trainer):
    return fit_network(trainer, Transformer(), sentences())


@pytest.mark.parametrize(
    ("n", "sizes"),
    [
        (2, {"tp_size": 2}),
        (4, {"tp_size": 4}),
        (4, {"tp_size": 2, "dp_replicate_size": 2}),
        (4, {"dp_shard_size": 2, "dp_replicate_size": 2}),
    ],
    ids=str,
)
def test_a_transformer(n, sizes):
    assert_same_training(transformer, n, 1e-4, parallelism_config=ParallelismConfig(**sizes))


def test_with_recomputed_activations_and_weights_let_go():
    settings = {"fsdp_plugin": FullyShardedDataParallelPlugin(activation_checkpointing=True)}
    sizes = ParallelismConfig(tp_size=2, dp_shard_size=2)
    assert_same_training(transformer, 4, 1e-4, parallelism_config=sizes, **settings)


PARTS = {f"blocks.*.{name}": "sequence_parallel" for name in ("norm1", "norm2")}
LAYERS = {
    f"blocks.*.{name}_proj": "rowwise" if name in ("o", "down") else "colwise"
    for name in ("q", "k", "v", "o", "up", "down")
}


@pytest.mark.parametrize(
    ("n", "sizes", "settings"),
    [
        (2, {"sequence_parallel": True}, {}),
        (2, {"tp_plan": LAYERS | PARTS}, {}),
        (
            4,
            {"sequence_parallel": True, "dp_shard_size": 2},
            {"fsdp_plugin": FullyShardedDataParallelPlugin(activation_checkpointing=True)},
        ),
    ],
    ids=["found", "by a plan", "sharded"],
)
def test_parts_of_the_tokens_between_split_layers(n, sizes, settings):
    assert_same_training(transformer, n, 1e-5, parallelism_config=ParallelismConfig(tp_size=2, **sizes), **settings)


def test_norms_see_a_part_of_the_tokens():
    def program(trainer):
        model, seen = trainer.prepare(Transformer()), {}
        for name in ("blocks.0.norm1", "blocks.1.norm2", "norm"):
            model.get_submodule(name).register_forward_hook(
                lambda m, args, out, name=name: seen.update({name: out.shape[1]})
            )
        model(torch.zeros(1, 8, dtype=torch.long))
        with pytest.raises(ValueError, match="have 7 tokens, and sequence_parallel needs a multiple of tp_size 2"):
            model(torch.zeros(1, 7, dtype=torch.long))
        return seen

    sizes = ParallelismConfig(tp_size=2, sequence_parallel=True)
    assert list(accelerated(program, 2, parallelism_config=sizes)[0].values())[:3] == [4, 4, 8]


def mlp_only():
    model = nn.Sequential()
    model.fc1, model.fc2 = nn.Linear(8, 16), nn.Linear(16, 8)
    return model


class WithScale(nn.Sequential):
    """Blocks with a parameter that is neither split nor a norm's."""

    def __init__(self):
        super().__init__(*(nn.Sequential() for _ in range(2)))
        for block in self:
            block.fc1, block.fc2, block.gate = nn.Linear(8, 16), nn.Linear(16, 8), nn.PReLU()


class Reversed(nn.Module):
    """Looks at other tokens outside of its split layers."""

    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential()
        self.mlp.fc1, self.mlp.fc2 = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return x.flip(1) + self.mlp(x)


def split_names(model, **settings):
    def program(trainer):
        trainer.prepare(model)
        return {
            "split": [
                name
                for name, p in model.named_parameters()
                if hasattr(p, "full_tensor") and not p.placements[0].is_replicate()
            ]
        }

    return accelerated(program, 2, parallelism_config=ParallelismConfig(tp_size=2, **settings))[0]["split"]


def test_layers_are_found_by_their_names():
    names = [name for name in split_names(Transformer(layers=1)) if "weight" in name]
    assert names == [f"blocks.0.{name}_proj.weight" for name in ("q", "k", "v", "o", "up", "down")]


class FixedHeads(nn.Module):
    """Attention that counts on all its heads being here, and an MLP."""

    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(16, 16) for _ in range(4))
        self.fc1, self.fc2 = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        q, k, v = (p(x).view(*x.shape[:2], 4, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        x = x + self.o_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.fc2(F.relu(self.fc1(x)))


def test_what_would_compute_something_else_stays_whole():
    assert split_names(FixedHeads()) == ["fc1.weight", "fc1.bias", "fc2.weight"]


def test_plans_of_the_user_and_of_the_model():
    plan = {"0": "colwise", "2": "rowwise"}
    assert split_names(mlp(), tp_plan=plan) == ["0.weight", "0.bias", "2.weight"]
    model = nn.Sequential(mlp(out=4))
    model._tp_plan = {"*.0": "colwise", "*.2": "rowwise"}
    assert split_names(model) == ["0.0.weight", "0.0.bias", "0.2.weight"]

    def program(trainer):
        net = mlp(out=4)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        net, optimizer, loader = trainer.prepare(net, optimizer, DataLoader(data(11), 4, shuffle=True))
        for x, y in loader:
            optimizer.zero_grad()
            trainer.backward(F.mse_loss(net(x).mean(1, keepdim=True), y))
            optimizer.step()
        return {"weights": weights(net), "optimizer": whole(trainer, optimizer)["state"]}

    for ways in (plan, {"0": "colwise_rep"}, {"2": "rowwise_rep"}):
        assert_same_training(program, 2, parallelism_config=ParallelismConfig(tp_size=2, tp_plan=ways))


class NormedHeads(nn.Module):
    """Heads of two features, each normed by the same weights, as in Qwen3."""

    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(6, 8), nn.LayerNorm(2), nn.Linear(8, 1)
        self._tp_plan = {"up": "colwise", "norm": "replicated_with_grad_allreduce", "down": "rowwise"}

    def forward(self, x):
        return self.down(self.norm(self.up(x).view(len(x), -1, 2)).tanh().flatten(1))


def test_gradients_of_weights_that_each_process_applies_to_its_heads():
    def program(trainer):
        net = NormedHeads()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        net, optimizer, loader = trainer.prepare(net, optimizer, DataLoader(data(11), 4, shuffle=True))
        for x, y in loader:
            optimizer.zero_grad()
            trainer.backward(F.mse_loss(net(x), y))
            optimizer.step()
        return {"weights": weights(net)}

    assert_same_training(program, 2, parallelism_config=ParallelismConfig(tp_size=2))


class Conv1D(nn.Module):
    """GPT-2's linear layer."""

    def __init__(self, outputs, inputs):
        super().__init__()
        self.nf = outputs
        self.weight, self.bias = nn.Parameter(torch.randn(inputs, outputs) * 0.3), nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return torch.addmm(self.bias, x.view(-1, x.shape[-1]), self.weight).view(*x.shape[:-1], self.nf)


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_fc, self.c_proj = Conv1D(8, 6), Conv1D(1, 8)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


def test_transposed_weights():
    assert split_names(Gpt()) == ["c_fc.weight", "c_fc.bias", "c_proj.weight"]

    def program(trainer):
        net = Gpt()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        net, optimizer, loader = trainer.prepare(net, optimizer, DataLoader(data(11), 4, shuffle=True))
        for x, y in loader:
            optimizer.zero_grad()
            trainer.backward(F.mse_loss(net(x), y))
            optimizer.step()
        return {"weights": weights(net), "optimizer": whole(trainer, optimizer)["state"]}

    assert_same_training(program, 2, parallelism_config=ParallelismConfig(tp_size=2))


def test_processes_that_compute_together_have_one_batch():
    """Loaders without a seed, and batches that the script picks by itself; figures count each group once."""

    def program(trainer):
        seed(trainer.process_index)
        loader = trainer.prepare(DataLoader(data(12), 4, shuffle=True))
        batches = [x for x, _ in loader]
        picked = trainer.shard_batch(torch.randn(5, 2) + trainer.process_index)
        total = trainer.global_len(picked)
        gathered = trainer.gather_for_metrics(torch.ones(len(picked)))
        return {
            "batches": batches,
            "picked": picked,
            "total": total,
            "gathered": len(gathered),
            "n": trainer.num_processes,
        }

    for n, sizes in ((2, {}), (4, {"dp_shard_size": 2})):
        got = accelerated(program, n, parallelism_config=ParallelismConfig(tp_size=2, **sizes))
        for one, other in zip(got[::2], got[1::2], strict=True):
            for a, b in zip([*one["batches"], one["picked"]], [*other["batches"], other["picked"]], strict=True):
                assert torch.equal(a, b)
        assert [(g["n"], g["total"], g["gathered"]) for g in got] == [(n, 5, 5)] * n
        assert sum(len(b) for g in got[::2] for b in g["batches"]) == 12


@pytest.mark.parametrize(("n", "sizes"), [(2, {}), (4, {"dp_shard_size": 2})], ids=str)
def test_states_are_plain_and_come_back(n, sizes, tmp_path):
    """Loaded from what `get_state_dict` gives, and from a folder."""

    def program(trainer):
        model = Transformer()
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        result = fit_network(trainer, model, sentences(), optimizer, epochs=1)
        if not hasattr(trainer, "save_state"):
            return {"weights": result["weights"]}
        kept = {"model": whole(trainer, model), "optimizer": whole(trainer, optimizer)}
        model.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])
        again = [{"model": whole(trainer, model), "optimizer": whole(trainer, optimizer)}]
        trainer.save_state(tmp_path / "state")
        for parameter in model.parameters():
            parameter.detach().zero_()
        trainer.load_state(tmp_path / "state")
        again.append({"model": whole(trainer, model), "optimizer": whole(trainer, optimizer)})
        return {"weights": result["weights"], "kept": kept, "again": again}

    expected = plain(program)
    for got in accelerated(program, n, parallelism_config=ParallelismConfig(tp_size=2, **sizes)):
        assert_close(got["weights"], expected["weights"], 1e-4)
        assert_close(got["again"], [got["kept"]] * 2, 0.0)


@pytest.mark.parametrize(
    ("sizes", "model", "message"),
    [
        ({"tp_size": 3}, mlp, "dp_shard_size 1 x tp_size 3 is 3, and there are 2 processes"),
        ({"tp_size": 2, "sequence_parallel": True}, mlp_only, "finds no blocks that repeat in Sequential"),
        (
            {"tp_size": 2, "sequence_parallel": True},
            WithScale,
            "0.gate .PReLU. of WithScale is neither split nor a norm",
        ),
        (
            {"tp_size": 2, "sequence_parallel": True},
            lambda: nn.Sequential(Reversed(), Reversed()),
            "computes something else from a part",
        ),
        ({"tp_size": 2}, convolutional, "finds no layers of Sequential to split"),
        ({"tp_size": 2, "tp_plan": {"0": "by_hand"}}, mlp, "tp_plan: '0' is 'by_hand': it must be one of 'colwise'"),
        ({"tp_size": 2, "tp_plan": {"layers.*": "colwise"}}, mlp, "no layer of Sequential is named 'layers"),
        ({"tp_size": 2, "tp_plan": {"2": "colwise"}}, mlp, "2 has 1 features and cannot be split"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_cannot_be_says_so(sizes, model, message):
    with pytest.raises(RanksFailed, match=message):
        accelerated(lambda trainer: trainer.prepare(model()), 2, parallelism_config=ParallelismConfig(**sizes))


def test_sizes_from_the_environment(monkeypatch):
    monkeypatch.setenv("PARALLELISM_CONFIG_TP_SIZE", "2")
    assert ParallelismConfig(dp_shard_size=3).total_size == 6
    with pytest.raises(ValueError, match="sp_size is 2: sequence parallelism of DeepSpeed is not offered"):
        ParallelismConfig(sp_size=2).check(2)
    with pytest.raises(ValueError, match="tp_size is 0: it must be an integer from 1 up"):
        ParallelismConfig(tp_size=0)
