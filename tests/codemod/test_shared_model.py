"""Processes that trained one model in shared memory, without waiting for each other."""

from __future__ import annotations

from codemod.marked import script
from codemod.memory import after, migrated

HOGWILD = """\
import torch.multiprocessing as mp


def work(rank, net):
    torch.manual_seed(7 + rank)
    loader = DataLoader(dataset, batch_size=32)
    adam = torch.optim.Adam(net.parameters())
    for x, y in loader:
        adam.zero_grad()
        F.cross_entropy(net(x), y).backward()
        adam.step()


if __name__ == "__main__":
    net = nn.Linear(8, 2)
    net.share_memory()
    processes = []
    for rank in range(4):
        p = mp.Process(target=work, args=(rank, net))
        p.start()
        processes.append(p)
    for p in processes:
        p.join()
"""


def test_processes_that_shared_one_model_take_the_same_steps_now() -> None:
    result = migrated(script("").partition("loader = ")[0] + HOGWILD)
    text = after(result)
    assert "share_memory" not in text and 'rank = int(os.environ.get("LOCAL_RANK", 0))' in text
    assert "one pass over the data" in " ".join(f.message for f in result.findings)
