"""`[model(x) for model in models]` is a list of tensors with rows: stacked, the rows lie along the second dimension."""

from __future__ import annotations

from accel_migrate.facts.values import Spread
from codemod.marked import marked, script
from codemod.memory import after, migrated

ENSEMBLE = """\
models = nn.ModuleList([nn.Linear(8, 2) for _ in range(3)])
optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]
for x, y in loader:
    outs = [m(x) for m in models]
    mean = torch.stack(outs).mean(0).detach()
    for out, optimizer in zip(outs, optimizers):
        loss = F.cross_entropy(out, y) + F.kl_div(F.log_softmax(out, 1), F.softmax(mean, 1), reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())
"""


def test_the_mean_over_models_keeps_the_rows() -> None:
    assert marked(script(ENSEMBLE.replace("F.softmax(mean, 1)", "F.softmax(«mean», 1)"))).spreads == {Spread.SHARD}


def test_what_a_loop_takes_of_the_list_is_no_other_batch() -> None:
    result = migrated(script(ENSEMBLE))
    assert not result.findings
    assert "accelerator.print(accelerator.global_mean(loss).item())" in after(result)
