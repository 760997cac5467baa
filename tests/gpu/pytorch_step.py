"""Training steps of GPT-2 by PyTorch, to set beside tdp-run's: torch.compile, autocast to 16 bits over fp32 weights,
flash attention (SDPA), fused AdamW, gradients clipped to norm 1, no dropout. Random tokens, new ones each step.

    pytorch_step.py MODEL BATCH [--seq N] [--steps N] [--precision bf16|fp16|fp32] [--compile whole|blocks|none]
                    [--small]

MODEL is a file of models/ (GPT-2's kind). Prints CSV: model, sequences, tokens of each, precision, compile, median
seconds of a step, peak bytes allocated and reserved, losses of the first and last step, version. The median is of the
steps behind the first three, timed by events. fp16 has no loss scaling: its times count, not its losses.
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
WARM = 3  # steps that do not count: compiling, choosing algorithms


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)
        self.norm2 = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        batch, seq, hidden = x.shape
        q, k, v = (part.view(batch, seq, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(hidden, dim=2))
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(context.transpose(1, 2).reshape(batch, seq, hidden))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, layers, hidden, heads, vocab, seq):
        super().__init__()
        self.tokens = nn.Embedding(vocab, hidden)
        self.positions = nn.Embedding(seq, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, labels):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.reshape(-1))


class Clock:
    """Seconds since the last call: by events where there is a GPU."""

    def __init__(self, cuda):
        self.cuda = cuda
        self.last = self.now()

    def now(self):
        if not self.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def lap(self):
        last, self.last = self.last, self.now()
        if not self.cuda:
            return self.last - last
        self.last.synchronize()
        return last.elapsed_time(self.last) / 1e3


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("batch", type=int)
    parser.add_argument("--seq", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--precision", choices=DTYPES, default="bf16")
    parser.add_argument("--compile", choices=["whole", "blocks", "none"], default="whole")
    parser.add_argument("--small", action="store_true", help="a rehearsal: two narrow layers")
    return parser.parse_args()


def build(options, device):
    with open(options.model, encoding="utf-8") as file:
        sizes = json.load(file)
    shape = [sizes[key] for key in ("layers", "hidden", "heads", "vocab")]
    if options.small:
        shape = [2, 64, 4, 257]
    with torch.device(device):
        model = Gpt2(*shape, options.seq)
    run = model
    if options.compile == "whole":
        run = torch.compile(model)
    elif options.compile == "blocks":
        for block in model.blocks:
            block.compile()
    return sizes["name"], shape[3], model, run


def main():
    options = parse()
    cuda = torch.cuda.is_available()
    device = "cuda" if cuda else "cpu"
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    name, vocab, model, run = build(options, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    narrow = options.precision != "fp32"
    clock, times, losses = Clock(cuda), [], []
    for _ in range(options.steps + WARM):
        tokens = torch.randint(vocab, (options.batch, options.seq + 1), device=device)
        with torch.autocast(device, DTYPES[options.precision], enabled=narrow):
            loss = run(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
        times.append(clock.lap())
    peaks = [torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()] if cuda else [0, 0]
    print(",".join(map(str, [name, options.batch, options.seq, options.precision, options.compile,
                             f"{statistics.median(times[WARM:]):.6f}", *peaks, f"{losses[0].item():.4f}",
                             f"{losses[-1].item():.4f}", torch.__version__])))


if __name__ == "__main__":
    main()
