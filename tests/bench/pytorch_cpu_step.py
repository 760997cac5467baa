"""Training steps of a model file by PyTorch on one core, to set beside tdp-run's: fp32, fused AdamW, gradients clipped
to norm 1, scaled_dot_product_attention. GPT: LayerNorm, GELU (tanh), learned positions, biases, tied head; LLaMA:
RMSNorm, SwiGLU, rotary positions, grouped queries, no bias. Random tokens, new ones each step.

    pytorch_cpu_step.py MODEL BATCH STEPS [eager|compile]

Prints processor seconds of a step (user and system), the mean of the steps behind the first two, and the losses of
the first and last step.
"""
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

WARM = 2  # steps that do not count: compiling, first use of memory


def rotated(x, turns):
    cos, sin = turns
    low, high = x.chunk(2, dim=-1)
    return torch.cat((low * cos - high * sin, low * sin + high * cos), dim=-1)


class Block(nn.Module):
    def __init__(self, m):
        super().__init__()
        hidden, self.heads = m["hidden"], m["heads"]
        self.kv_heads, self.swiglu = m.get("kv_heads", self.heads), m["mlp"] == "swiglu"
        ffn, bias, self.dim = m.get("ffn_hidden", 4 * hidden), m["bias"], hidden // self.heads
        norm = nn.LayerNorm if m["norm"] == "layernorm" else nn.RMSNorm
        self.norm1 = norm(hidden, eps=1e-5)
        self.qkv = nn.Linear(hidden, (self.heads + 2 * self.kv_heads) * self.dim, bias)
        self.out = nn.Linear(hidden, hidden, bias)
        self.norm2 = norm(hidden, eps=1e-5)
        self.up = nn.Linear(hidden, ffn * (2 if self.swiglu else 1), bias)
        self.down = nn.Linear(ffn, hidden, bias)

    def attention(self, x, turns):
        q, k, v = (part.unflatten(2, (-1, self.dim)).transpose(1, 2) for part in self.qkv(x).split(
            [heads * self.dim for heads in (self.heads, self.kv_heads, self.kv_heads)], dim=2))
        if turns:
            q, k = rotated(q, turns), rotated(k, turns)
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.kv_heads < self.heads)
        return self.out(context.transpose(1, 2).flatten(2))

    def feed_forward(self, x):
        if not self.swiglu:
            return self.down(F.gelu(self.up(x), approximate="tanh"))
        gate, up = self.up(x).chunk(2, dim=2)
        return self.down(F.silu(gate) * up)

    def forward(self, x, turns):
        x = x + self.attention(self.norm1(x), turns)
        return x + self.feed_forward(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self, m):
        super().__init__()
        hidden, seq, rotary = m["hidden"], m["seq"], m["positions"] == "rope"
        dim = hidden // m["heads"]
        self.tokens = nn.Embedding(m["vocab"], hidden)
        self.positions = None if rotary else nn.Embedding(seq, hidden)
        self.blocks = nn.ModuleList(Block(m) for _ in range(m["layers"]))
        self.norm = (nn.LayerNorm if m["norm"] == "layernorm" else nn.RMSNorm)(hidden, eps=1e-5)
        self.head = nn.Linear(hidden, m["vocab"], bias=False)
        if m["tied_embeddings"]:
            self.head.weight = self.tokens.weight
        angle = torch.outer(torch.arange(seq), 10000.0 ** (-torch.arange(0, dim, 2) / dim))
        self.turns = (angle.cos(), angle.sin()) if rotary else None
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, labels):
        x = self.tokens(tokens)
        if self.positions:
            x = x + self.positions.weight
        for block in self.blocks:
            x = block(x, self.turns)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        sizes = json.load(file)
    batch, steps, how = int(sys.argv[2]), int(sys.argv[3]), (sys.argv + ["eager"])[4]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = Transformer(sizes)
    run = torch.compile(model) if how == "compile" else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    losses = []
    for step in range(WARM + steps):
        if step == WARM:
            start = time.process_time()
        tokens = torch.randint(sizes["vocab"], (batch, sizes["seq"] + 1))
        loss = run(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    print(f"{(time.process_time() - start) / steps:.6f} {losses[0]:.4f} {losses[-1]:.4f}")


if __name__ == "__main__":
    main()
