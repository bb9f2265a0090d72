"""Every way to train: losses and weights of one process, whatever the number of processes."""

from __future__ import annotations

import copy
import io
import itertools
import pickle
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from .training import assert_same_training, data, fit, mlp, weights

NS = [1, 2, 3, 4]


def labelled(n: int, classes: int = 4, ignored: bool = False) -> TensorDataset:
    generator = torch.Generator().manual_seed(3)
    y = torch.randint(0, classes, (n,), generator=generator)
    if ignored:
        y[(torch.rand(n, generator=generator) < 0.6) & (torch.arange(n) % 4 > 0)] = -100
    return TensorDataset(torch.randn(n, 6, generator=generator), y)


def loop(trainer: Any, step: Any, loader: DataLoader, epochs: int = 2) -> list[float]:
    return [value for _ in range(epochs) for batch in loader for value in step(*batch)]


@pytest.mark.parametrize("n", NS)
def test_summed_losses(n):
    def program(trainer):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.005)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(13), 4, shuffle=True))

        def step(x, y):
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y, reduction="sum")
            trainer.backward(loss, reduction="sum")
            optimizer.step()
            yield trainer.global_sum(loss).item()

        return {"losses": loop(trainer, step, loader), "weights": weights(model)}

    assert_same_training(program, n)


@pytest.mark.parametrize("n", NS)
@pytest.mark.parametrize("weighted", [False, True])
def test_ignored_targets_and_class_weights(weighted, n):
    class_weights = torch.tensor([1.0, 2.0, 0.5, 3.0]) if weighted else None

    def program(trainer):
        model = mlp(out=4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(labelled(13, ignored=True), 4))

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y, weight=class_weights)
            kept = y[y != -100]
            trainer.backward(loss, weight=class_weights[kept].sum() if weighted else len(kept))
            optimizer.step()
            yield trainer.global_mean(loss).item()

        return {"losses": loop(trainer, step, loader), "weights": weights(model)}

    assert_same_training(program, n)


@pytest.mark.parametrize("n", NS)
def test_a_loss_that_is_nan_where_nothing_counts_poisons_nothing(n):
    kept = torch.tensor([1.0, 0, 0, 0, 1, 1, 0, 0, 1])

    def program(trainer):
        model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        masked = TensorDataset(*data(8).tensors, kept[:8])
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(masked, 4))

        def step(x, y, mask):
            optimizer.zero_grad()
            rows = (model(x) - y).square().flatten()
            loss = (rows * mask).sum() / mask.sum()
            trainer.backward(loss, weight=mask.sum())
            optimizer.step()
            yield trainer.global_mean(loss).item()

        return {"losses": loop(trainer, step, loader), "weights": weights(model)}

    assert_same_training(program, n, tolerance=1e-4)


@pytest.mark.parametrize("n", NS)
def test_gan(n):
    def program(trainer):
        real = torch.randn(22, 3) + 2
        generator, critic = mlp(4, 3), nn.Sequential(mlp(3, 1), nn.Sigmoid())
        optimizers = [torch.optim.Adam(m.parameters(), lr=2e-3) for m in (generator, critic)]
        generator, critic, *optimizers, loader = trainer.prepare(
            generator, critic, *optimizers, DataLoader(TensorDataset(real), 8, shuffle=True)
        )

        def step(x):
            critic.zero_grad()
            on_real = F.binary_cross_entropy(critic(x), torch.ones(len(x), 1))
            trainer.backward(on_real)
            fake = generator(trainer.draw(torch.randn, len(x), 4))
            on_fake = F.binary_cross_entropy(critic(fake.detach()), torch.zeros(len(x), 1))
            trainer.backward(on_fake)
            optimizers[1].step()
            generator.zero_grad()
            loss = F.binary_cross_entropy(critic(fake), torch.ones(len(x), 1))
            trainer.backward(loss)
            optimizers[0].step()
            yield trainer.global_mean(on_real + on_fake).item()
            yield trainer.global_mean(loss).item()

        return {"losses": loop(trainer, step, loader), "g": weights(generator), "d": weights(critic)}

    assert_same_training(program, n, tolerance=1e-4)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_two_models_under_one_loss(n):
    def program(trainer):
        first, second = mlp(6, 5), mlp(5, 1)
        optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=1e-2)
        first, second, optimizer, loader = trainer.prepare(first, second, optimizer, DataLoader(data(13), 4, shuffle=True))

        def step(x, y):
            loss = F.mse_loss(second(first(x)), y)
            trainer.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            yield trainer.global_mean(loss).item()

        return {"losses": loop(trainer, step, loader), "a": weights(first), "b": weights(second)}

    assert_same_training(program, n, tolerance=1e-4)


@pytest.mark.parametrize("n", NS)
@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_closures(search, n):
    def program(trainer):
        model = mlp()
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.3, max_iter=5, line_search_fn=search)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(13), 7))

        def step(x, y):
            def closure():
                optimizer.zero_grad()
                loss = F.mse_loss(model(x), y)
                trainer.backward(loss)
                return loss

            yield float(optimizer.step(closure))

        return {"losses": loop(trainer, step, loader), "weights": weights(model)}

    # a line search amplifies rounding
    assert_same_training(program, n, tolerance=1e-3)


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp()
        self.unused = nn.Linear(3, 3)

    def loss(self, x, y):
        return F.mse_loss(self.net(x), y)


@pytest.mark.parametrize("n", NS)
@pytest.mark.parametrize("raw", [False, True], ids=["backward", "loss.backward"])
def test_training_through_a_custom_method_with_unused_parameters(raw, n):
    def program(trainer):
        model = Regressor()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(12), 12 // n * n if raw else 5))

        def step(x, y):
            optimizer.zero_grad()
            loss = model.loss(x, y)
            loss.backward() if raw else trainer.backward(loss)
            optimizer.step()
            assert model.unused.weight.grad is None
            yield trainer.global_mean(loss).item()

        return {"losses": loop(trainer, step, loader), "weights": weights(model)}

    assert_same_training(program, n, tolerance=1e-4)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_prepared_model_copies_pickles_and_keeps_its_class(n):
    def program(trainer):
        model = Regressor()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        prepared, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(11), 4, shuffle=True))
        assert prepared is model and type(prepared) is Regressor
        average = copy.deepcopy(model)

        def step(x, y):
            optimizer.zero_grad()
            loss = model.loss(x, y)
            trainer.backward(loss)
            optimizer.step()
            with torch.no_grad():
                for a, p in zip(average.parameters(), model.parameters(), strict=True):
                    a.lerp_(p, 0.1)
            yield trainer.global_mean(loss).item()

        losses = loop(trainer, step, loader)
        again = pickle.loads(pickle.dumps(model))
        buffer = io.BytesIO()
        torch.save(model, buffer)
        buffer.seek(0)
        whole = torch.load(buffer, weights_only=False)
        pickle.loads(pickle.dumps(optimizer)), copy.deepcopy(optimizer)
        return {"losses": losses, "average": weights(average), "again": weights(again), "whole": weights(whole)}

    assert_same_training(program, n)


@pytest.mark.parametrize("n", NS)
def test_parameters_used_by_some_samples_only(n):
    """Which head gets a gradient depends on the rows of a process; a head that no process uses keeps None."""

    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = nn.ModuleList(nn.Linear(6, 1) for _ in range(3))

        def forward(self, x):
            chosen = (x[:, 0] > 0).long()
            out = x.new_zeros(len(x), 1)
            for i in range(2):
                if (chosen == i).any():
                    out[chosen == i] = self.heads[i](x[chosen == i])
            return out

    def program(trainer):
        model = Heads()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(17), 4))

        def step(x, y):
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            trainer.backward(loss)
            yield str([head.weight.grad is None for head in model.heads])
            optimizer.step()
            yield trainer.global_mean(loss).item()

        return {"losses": loop(trainer, step, loader), "weights": weights(model)}

    assert_same_training(program, n, tolerance=1e-4)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_layers_frozen_and_unfrozen_on_the_way(n):
    def program(trainer):
        model = mlp()
        model[0].requires_grad_(False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(11), 4))
        losses = []
        for epoch in range(3):
            model[0].requires_grad_(epoch == 1)
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.mse_loss(model(x), y)
                trainer.backward(loss)
                optimizer.step()
                losses.append(trainer.global_mean(loss).item())
        return {"losses": losses, "weights": weights(model)}

    assert_same_training(program, n)


@pytest.mark.parametrize("n", NS)
def test_sparse_gradients(n):
    def program(trainer):
        table, head = nn.Embedding(20, 4, sparse=True), nn.Linear(4, 4)
        model = nn.Sequential(table, head)
        optimizers = [torch.optim.SparseAdam(table.parameters(), lr=0.1), torch.optim.SGD(head.parameters(), lr=0.1)]
        tokens = TensorDataset(torch.arange(11) % 7 * 2, torch.arange(11) % 4)
        model, *optimizers, loader = trainer.prepare(model, *optimizers, DataLoader(tokens, 4, shuffle=True))

        def step(x, y):
            loss = F.cross_entropy(model(x), y)
            trainer.backward(loss)
            assert table.weight.grad.is_sparse
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            yield trainer.global_mean(loss).item()

        return {"losses": loop(trainer, step, loader), "weights": weights(model)}

    assert_same_training(program, n, tolerance=1e-4)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_parameter_of_two_models_and_one_of_none(n):
    def program(trainer):
        shared = nn.Linear(6, 6)
        first, second = nn.Sequential(shared, nn.Linear(6, 1)), nn.Sequential(shared, nn.Tanh(), nn.Linear(6, 1))
        scale = nn.Parameter(torch.ones(1))
        parameters = {id(p): p for p in [*first.parameters(), *second.parameters(), scale]}
        optimizer = torch.optim.SGD(parameters.values(), lr=0.02)
        first, second, optimizer, loader = trainer.prepare(first, second, optimizer, DataLoader(data(11), 4))

        def step(x, y):
            optimizer.zero_grad()
            loss = F.mse_loss(scale * first(x) + second(x), y)
            trainer.backward(loss)
            optimizer.step()
            yield trainer.global_mean(loss).item()

        return {"losses": loop(trainer, step, loader), "a": weights(first), "b": weights(second), "scale": scale.detach().clone()}

    assert_same_training(program, n)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_parameter_group_added_after_prepare(n):
    def program(trainer):
        model, extra = mlp(), nn.Linear(6, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(11), 4))
        optimizer.add_param_group({"params": list(extra.parameters())})

        def step(x, y):
            optimizer.zero_grad()
            loss = F.mse_loss(model(x) + extra(x), y)
            trainer.backward(loss)
            optimizer.step()
            yield trainer.global_mean(loss).item()

        return {"losses": loop(trainer, step, loader), "weights": weights(model), "extra": weights(extra)}

    assert_same_training(program, n)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_clipping(n):
    def program(trainer):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(11), 4))

        def step(x, y):
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            trainer.backward(loss)
            yield trainer.clip_grad_norm_(model.parameters(), 0.5).item()
            optimizer.step()
            yield trainer.global_mean(loss).item()

        return {"values": loop(trainer, step, loader), "weights": weights(model)}

    assert_same_training(program, n)


SCHEDULES: dict[str, Any] = {
    "per batch": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=9),
    "per epoch": lambda o: torch.optim.lr_scheduler.StepLR(o, 1, 0.5),
    "on a metric": lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o, patience=0, factor=0.5, threshold=0.5),
}


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("when", SCHEDULES)
def test_schedulers_tick_as_written(when, n):
    def program(trainer):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        scheduler = SCHEDULES[when](optimizer)
        model, optimizer, loader, scheduler = trainer.prepare(model, optimizer, DataLoader(data(11), 4), scheduler)
        rates, losses = [], []
        for _ in range(3):
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.mse_loss(model(x), y)
                trainer.backward(loss)
                optimizer.step()
                losses.append(trainer.global_mean(loss).item())
                if when == "per batch":
                    scheduler.step()
                rates.append(optimizer.param_groups[0]["lr"])
            if when == "per epoch":
                scheduler.step()
            elif when == "on a metric":
                scheduler.step(losses[-1] + getattr(trainer, "process_index", 0) * 0)
        assert all(isinstance(key, str) and not callable(value) for key, value in scheduler.state_dict().items() if key != "_anneal_func_type")
        return {"rates": rates, "losses": losses, "weights": weights(model)}

    assert_same_training(program, n)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_states_save_and_load_in_the_originals_code(n):
    def program(trainer):
        model = mlp()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(11), 4))
        result = fit(trainer, loader, 1, model=model)
        for x, y in loader:
            trainer.backward(F.mse_loss(model(x), y))
        optimizer.step()
        state = optimizer.state_dict() if trainer.num_processes == 1 and not hasattr(trainer, "get_state_dict") else trainer.get_state_dict(optimizer)
        again = torch.optim.AdamW(mlp().parameters(), lr=1e-2)
        again.load_state_dict(state)
        return {"losses": result["losses"], "groups": str(state["param_groups"]), "keys": list(state["state"]), "state": [list(s.values()) for s in state["state"].values()]}

    assert_same_training(program, n, tolerance=1e-4)


@pytest.mark.parametrize("n", NS)
def test_evaluation_gathers_the_original_batches(n):
    def program(trainer):
        model, loader = trainer.prepare(mlp(), DataLoader(data(9), 4))
        seen = []
        with torch.no_grad():
            for x, y in loader:
                out, target = trainer.gather_for_metrics((model(x), y))
                seen += [out, target, trainer.global_mean(F.mse_loss(model(x), y))]
        return {"seen": seen, "count": sum(len(s) for s in seen[::3])}

    assert_same_training(program, n)


def test_early_exit_from_a_loop_and_a_failed_backward_leave_nothing_behind():
    def program(trainer):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(23), 8))

        class Fails(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, g):
                raise RuntimeError("on purpose")

        losses = []
        for attempt in range(2):
            for step, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                if attempt == 0 and step == 1:
                    with pytest.raises(RuntimeError, match="on purpose"):
                        trainer.backward(F.mse_loss(model[2](Fails.apply(model[1](model[0](x)))), y))
                    break
                loss = F.mse_loss(model(x), y)
                trainer.backward(loss)
                optimizer.step()
                losses.append(trainer.global_mean(loss).item())
        return {"losses": losses, "weights": weights(model)}

    assert_same_training(program, 3)


def test_gradient_checkpointing_with_a_tied_weight():
    from torch.utils.checkpoint import checkpoint

    def program(trainer, reentrant):
        model = nn.ModuleDict({"a": nn.Linear(6, 6), "b": nn.Linear(6, 1)})
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(11), 4))

        def step(x, y):
            optimizer.zero_grad()
            hidden = model["a"](x)
            hidden = checkpoint(lambda h: model["a"](h).tanh(), hidden, use_reentrant=reentrant)
            loss = F.mse_loss(model["b"](hidden), y)
            trainer.backward(loss)
            optimizer.step()
            yield trainer.global_mean(loss).item()

        return {"losses": loop(trainer, step, loader), "weights": weights(model)}

    for reentrant in (False, True):
        assert_same_training(lambda trainer, r=reentrant: program(trainer, r), 2)


def test_second_order_gradients():
    def program(trainer):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(11), 4))

        def step(x, y):
            optimizer.zero_grad()
            x = x.clone().requires_grad_()
            (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
            loss = (slope.norm(dim=1) - 1).square().mean()
            trainer.backward(loss)
            optimizer.step()
            yield trainer.global_mean(loss).item()

        return {"losses": loop(trainer, step, loader), "weights": weights(model)}

    assert_same_training(program, 3)


def test_draw_uses_one_process_numbers():
    def program(trainer):
        loader = trainer.prepare(DataLoader(data(11), 4))
        drawn = []
        for x, _ in loader:
            n = len(x)
            own = [
                trainer.draw(torch.randn, n, 3),
                trainer.draw(torch.rand, (n, 2)),
                trainer.draw(torch.randn_like, x),
                trainer.draw(torch.randint, 0, 10, (n,)),
                trainer.draw(torch.normal, 0.0, 1.0, size=(n, 2)),
                trainer.draw(torch.bernoulli, torch.full_like(x, 0.3)),
            ]
            drawn += [trainer.gather_for_metrics(d) for d in own]
            drawn.append(trainer.draw(torch.randn, 64, 2))
        return {"drawn": drawn}

    for n in (1, 2, 3, 4):
        assert_same_training(program, n)


def test_several_accumulated_backwards_before_one_step():
    def program(trainer):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(23), 4))
        losses = []
        for step, (x, y) in enumerate(itertools.islice(loader, 6)):
            loss = F.mse_loss(model(x), y) / 2
            trainer.backward(loss)
            losses.append(trainer.global_mean(loss).item())
            if step % 2:
                optimizer.step()
                optimizer.zero_grad()
        return {"losses": losses, "weights": weights(model)}

    assert_same_training(program, 3)
