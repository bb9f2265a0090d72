"""GPT style: shifted labels inside forward, loss from the model, gradient accumulation with a counter, best checkpoint read back."""
import argparse
import logging
import math
import os
import random

import numpy as np
import torch
from torch import nn
from torch.nn import CrossEntropyLoss
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, RandomSampler, SequentialSampler

logger = logging.getLogger(__name__)


class GPT(nn.Module):
    def __init__(self, vocab_size=30, n_embd=16, block_size=16):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.wpe = nn.Embedding(block_size, n_embd)
        self.gru = nn.GRU(n_embd, n_embd, batch_first=True)
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)

    def forward(self, input_ids, attention_mask=None, labels=None):
        pos = torch.arange(input_ids.size(1), device=input_ids.device)
        h, _ = self.gru(self.wte(input_ids) + self.wpe(pos))
        lm_logits = self.lm_head(h)
        loss = None
        if labels is not None:
            shift_logits = lm_logits[..., :-1, :].contiguous()
            shift_labels = labels[..., 1:].contiguous()
            loss_fct = CrossEntropyLoss(ignore_index=-100)
            loss = loss_fct(shift_logits.view(-1, shift_logits.size(-1)), shift_labels.view(-1))
        return (loss, lm_logits)


class LineDataset(Dataset):
    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.rows = [[rng.randint(1, 29) for _ in range(rng.randint(4, 14))] for _ in range(n)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return torch.tensor(self.rows[i])


def collate(examples):
    input_ids = pad_sequence(examples, batch_first=True, padding_value=0)
    labels = input_ids.clone()
    labels[labels == 0] = -100
    return {"input_ids": input_ids, "attention_mask": (input_ids != 0).long(), "labels": labels}


def set_seed(args):
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    if args.n_gpu > 0:
        torch.cuda.manual_seed_all(args.seed)


def train(args, train_dataset, model):
    train_dataloader = DataLoader(train_dataset, sampler=RandomSampler(train_dataset), batch_size=args.train_batch_size, collate_fn=collate)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
    global_step = 0
    tr_loss, logging_loss = 0.0, 0.0
    best = float("inf")
    model.zero_grad()
    for epoch in range(args.num_train_epochs):
        for step, batch in enumerate(train_dataloader):
            batch = {k: v.to(args.device) for k, v in batch.items()}
            model.train()
            outputs = model(**batch)
            loss = outputs[0]
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.max_grad_norm)
            optimizer.step()
            model.zero_grad()
            tr_loss += loss.item()
            global_step += 1
            if args.logging_steps > 0 and global_step % args.logging_steps == 0:
                print("global_step = %s, average loss = %.5f" % (global_step, (tr_loss - logging_loss) / args.logging_steps))
                logging_loss = tr_loss
        result = evaluate(args, model)
        if result["perplexity"] < best:
            best = result["perplexity"]
            output_dir = os.path.join(args.output_dir, "checkpoint-best")
            os.makedirs(output_dir, exist_ok=True)
            torch.save(model.state_dict(), os.path.join(output_dir, "pytorch_model.bin"))
            logger.info("Saving model checkpoint to %s", output_dir)
    return global_step, tr_loss / global_step


def evaluate(args, model, prefix=""):
    eval_dataset = LineDataset(25, 2)
    eval_dataloader = DataLoader(eval_dataset, sampler=SequentialSampler(eval_dataset), batch_size=args.eval_batch_size, collate_fn=collate)
    eval_loss = 0.0
    nb_eval_steps = 0
    model.eval()
    for batch in eval_dataloader:
        batch = {k: v.to(args.device) for k, v in batch.items()}
        with torch.no_grad():
            outputs = model(**batch)
            lm_loss = outputs[0]
            eval_loss += lm_loss.mean().item()
        nb_eval_steps += 1
    eval_loss = eval_loss / nb_eval_steps
    perplexity = torch.exp(torch.tensor(eval_loss))
    result = {"perplexity": perplexity.item()}
    os.makedirs(args.output_dir, exist_ok=True)
    with open(os.path.join(args.output_dir, "eval_results.txt"), "w") as writer:
        for key in sorted(result.keys()):
            writer.write("%s = %s\n" % (key, str(result[key])))
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output_dir", default="out")
    parser.add_argument("--train_batch_size", default=10, type=int)
    parser.add_argument("--eval_batch_size", default=10, type=int)
    parser.add_argument("--learning_rate", default=1e-2, type=float)
    parser.add_argument("--max_grad_norm", default=1.0, type=float)
    parser.add_argument("--num_train_epochs", default=2, type=int)
    parser.add_argument("--logging_steps", type=int, default=4)
    parser.add_argument("--no_cuda", action="store_true")
    parser.add_argument("--seed", type=int, default=42)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() and not args.no_cuda else "cpu")
    args.n_gpu = torch.cuda.device_count()
    args.device = device
    logging.basicConfig(format="%(levelname)s - %(name)s - %(message)s", level=logging.INFO)
    logger.warning("device: %s, n_gpu: %s", device, args.n_gpu)
    set_seed(args)
    model = GPT()
    model.to(args.device)
    global_step, tr_loss = train(args, LineDataset(64, 1), model)
    print(f" global_step = {global_step}, average loss = {tr_loss:.5f}")
    model = GPT()
    model.load_state_dict(torch.load(os.path.join(args.output_dir, "checkpoint-best", "pytorch_model.bin")))
    model.to(args.device)
    result = evaluate(args, model)
    print("final", result)


if __name__ == "__main__":
    main()
