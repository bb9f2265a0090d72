"""Models of Transformers and PEFT, tiny ones from a configuration, train and save as on one process."""

from __future__ import annotations

import contextlib
import os

import pytest
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from accel_runtime import FullyShardedDataParallelPlugin, ParallelismConfig

from .training import accelerated, assert_close, plain, seed

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers")
WAYS = {
    "data parallel": {},
    "FSDP": {"fsdp_plugin": FullyShardedDataParallelPlugin()},
    "TP by the model's plan": {"parallelism_config": ParallelismConfig(tp_size=2)},
}


def llama(tied: bool = True):
    seed(3)
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=16, tie_word_embeddings=tied,
        )
    )  # fmt: skip


def with_adapters():
    peft = pytest.importorskip("peft")
    settings = peft.LoraConfig(r=4, target_modules=["q_proj", "o_proj"], lora_dropout=0.0, init_lora_weights=False)
    return peft.get_peft_model(llama(), settings)


def program(trainer, make, folder):
    model = make()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    tokens = (torch.arange(11)[:, None] + torch.arange(8)) % 32
    seed()
    model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(TensorDataset(tokens), 4, shuffle=True))
    losses = []
    for (ids,) in loader:
        loss = model(input_ids=ids, labels=ids).loss
        trainer.backward(loss)
        trainer.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(trainer.global_mean(loss).item())
    state = trainer.get_state_dict(model) if hasattr(trainer, "get_state_dict") else model.state_dict()
    model.save_pretrained(folder, is_main_process=trainer.is_main_process, state_dict=dict(state))
    return {"losses": losses}


@pytest.mark.parametrize("settings", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("make", [llama, with_adapters], ids=["a language model", "with adapters"])
def test_trains_and_saves(tmp_path, make, settings):
    from safetensors.torch import load_file

    expected = plain(lambda trainer: program(trainer, make, tmp_path / "one"))
    for got in accelerated(lambda trainer: program(trainer, make, tmp_path / "two"), 2, **settings):
        assert_close(got["losses"], expected["losses"], 1e-5)
    files = [next((tmp_path / run).glob("*.safetensors")) for run in ("one", "two")]
    assert_close(load_file(files[1]), load_file(files[0]), 1e-4)


def test_the_mlps_of_gpt2_are_split(tmp_path):
    """Their weights stand the other way round; attention, with queries, keys and values in one layer, stays whole."""

    def gpt2():
        seed(3)
        config = transformers.GPT2Config(
            vocab_size=32,
            n_embd=16,
            n_layer=2,
            n_head=4,
            n_positions=16,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
        return transformers.GPT2LMHeadModel(config)

    expected = plain(lambda trainer: program(trainer, gpt2, tmp_path / "one"))
    sizes = ParallelismConfig(tp_size=2)
    for got in accelerated(lambda trainer: program(trainer, gpt2, tmp_path / "two"), 2, parallelism_config=sizes):
        assert_close(got["losses"], expected["losses"], 1e-5)


def shared_sequences(trainer):
    """Targets are shifted before, as for Accelerate; the last token has none."""
    model = llama()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = (torch.arange(11)[:, None] + torch.arange(8) ** 2) % 32
    seed()
    model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(TensorDataset(tokens), 4, shuffle=True))
    losses = []
    for (ids,) in loader:
        labels, shifted = ids.clone(), F.pad(ids, (0, 1), value=-100)[:, 1:].contiguous()
        buffers = [ids, labels, shifted]
        context = getattr(trainer, "maybe_context_parallel", lambda *unused: contextlib.nullcontext())
        with context(buffers, [1, 1, 1], set(buffers)):
            loss = model(input_ids=ids, labels=labels, shift_labels=shifted).loss
            counted = (shifted != -100).sum()
            trainer.backward(loss, weight=counted)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(trainer.global_mean(loss, counted).item())
    return {"losses": losses}


@pytest.mark.parametrize("settings", [{}, {"fsdp_plugin": FullyShardedDataParallelPlugin()}], ids=["copies", "FSDP"])
def test_shares_sequences(settings):
    expected = plain(shared_sequences)["losses"]
    for got in accelerated(shared_sequences, 2, parallelism_config=ParallelismConfig(cp_size=2), **settings):
        assert_close(got["losses"], expected, 1e-5)
