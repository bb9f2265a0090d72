"""BERT style fine-tuning: dict batches, a ModelOutput, AdamW with warm-up."""
import argparse
from dataclasses import dataclass
from typing import Optional

import numpy as np
import torch
from sklearn.metrics import accuracy_score, f1_score
from torch import nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Dataset


@dataclass
class SequenceClassifierOutput:
    loss: Optional[torch.Tensor] = None
    logits: torch.Tensor = None


class Config:
    vocab_size = 50
    hidden = 16
    num_labels = 3


class TinyClassifier(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden, padding_idx=0)
        self.classifier = nn.Linear(config.hidden, config.num_labels)

    def forward(self, input_ids, attention_mask=None, labels=None):
        x = self.embeddings(input_ids)
        mask = attention_mask.unsqueeze(-1).float()
        pooled = (x * mask).sum(1) / mask.sum(1)
        logits = self.classifier(pooled)
        loss = None
        if labels is not None:
            loss = nn.CrossEntropyLoss()(logits.view(-1, self.config.num_labels), labels.view(-1))
        return SequenceClassifierOutput(loss=loss, logits=logits)


class TextDataset(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.lengths = torch.randint(3, 10, (n,), generator=g)
        self.ids = torch.randint(1, 50, (n, 10), generator=g)
        self.labels = (self.ids[:, 0] % 3)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        mask = (torch.arange(10) < self.lengths[i]).long()
        return {"input_ids": self.ids[i] * mask, "attention_mask": mask, "labels": self.labels[i]}


def get_linear_schedule_with_warmup(optimizer, num_warmup_steps, num_training_steps):
    def lr_lambda(current_step):
        if current_step < num_warmup_steps:
            return float(current_step) / float(max(1, num_warmup_steps))
        return max(0.0, float(num_training_steps - current_step) / float(max(1, num_training_steps - num_warmup_steps)))

    return LambdaLR(optimizer, lr_lambda)


def evaluate(model, dataloader, device):
    model.eval()
    eval_loss = 0
    nb_eval_steps = 0
    preds = None
    out_label_ids = None
    for batch in dataloader:
        batch = {k: v.to(device) for k, v in batch.items()}
        with torch.no_grad():
            outputs = model(**batch)
            tmp_eval_loss, logits = outputs.loss, outputs.logits
            eval_loss += tmp_eval_loss.mean().item()
        nb_eval_steps += 1
        if preds is None:
            preds = logits.detach().cpu().numpy()
            out_label_ids = batch["labels"].detach().cpu().numpy()
        else:
            preds = np.append(preds, logits.detach().cpu().numpy(), axis=0)
            out_label_ids = np.append(out_label_ids, batch["labels"].detach().cpu().numpy(), axis=0)
    eval_loss = eval_loss / nb_eval_steps
    preds = np.argmax(preds, axis=1)
    return {"loss": eval_loss, "acc": accuracy_score(out_label_ids, preds), "f1": f1_score(out_label_ids, preds, average="macro"), "n": len(preds)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=5e-2)
    parser.add_argument("--num_epochs", type=int, default=3)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--warmup_ratio", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=42)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    train_dataloader = DataLoader(TextDataset(121, 0), shuffle=True, batch_size=args.batch_size)
    eval_dataloader = DataLoader(TextDataset(45, 1), batch_size=args.batch_size)

    model = TinyClassifier(Config())
    model.to(device)

    no_decay = ["bias"]
    grouped = [
        {"params": [p for n, p in model.named_parameters() if not any(nd in n for nd in no_decay)], "weight_decay": 0.01},
        {"params": [p for n, p in model.named_parameters() if any(nd in n for nd in no_decay)], "weight_decay": 0.0},
    ]
    optimizer = AdamW(grouped, lr=args.lr)
    num_training_steps = args.num_epochs * len(train_dataloader)
    lr_scheduler = get_linear_schedule_with_warmup(optimizer, int(args.warmup_ratio * num_training_steps), num_training_steps)

    for epoch in range(args.num_epochs):
        model.train()
        total_loss = 0
        for step, batch in enumerate(train_dataloader):
            batch = {k: v.to(device) for k, v in batch.items()}
            outputs = model(**batch)
            loss = outputs.loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            lr_scheduler.step()
            optimizer.zero_grad()
            total_loss += loss.item()
        print(f"epoch {epoch}: train loss {total_loss / len(train_dataloader):.5f} lr {lr_scheduler.get_last_lr()[0]:.6f}")
        print(f"epoch {epoch}: {evaluate(model, eval_dataloader, device)}")


if __name__ == "__main__":
    main()
