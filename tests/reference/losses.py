#!/usr/bin/python3
"""Losses and gradient norms from PyTorch: models/tiny.json, models/tiny-llama.json, and here with a sliding window,
with shared experts beside routed ones, and with a capacity beyond which tokens are dropped.

    apt-get install python3-torch    (or: pip install torch numpy)
    tests/reference/losses.py >tests/reference/losses.csv

Written against PyTorch's own modules, in double precision; only initial weights
and tokens follow tdp-run, whose generator (splitmix64's finalizer by place) is
repeated here. Ten steps of AdamW at 0.001, betas 0.9 and 0.95, norm clipped to 1.
"""
import json
import math

import numpy as np
import torch
import torch.nn.functional as F

SEED, STEPS, SLOTS, ALL_SLOTS, DEVIATION = 1, 10, 12, 15, 0.02
CASES = (("tiny", "models/tiny.json", "plans/tiny-single.json"),
         ("tiny-llama", "models/tiny-llama.json", "plans/tiny-single.json"),
         ("window", "tests/reference/window.json", "plans/tiny-single.json"),
         ("shared", "tests/reference/shared.json", "plans/tiny-single.json"),
         ("drop-probs", "models/tiny-moe.json", "tests/reference/drop-probs.json"),
         ("drop-position", "models/tiny-moe.json", "tests/reference/drop-position.json"))
U64 = np.uint64


def mix(x):
    x = x + U64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> U64(30))) * U64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> U64(27))) * U64(0x94D049BB133111EB)
    return x ^ (x >> U64(31))


def at(seed, stream, index):
    a = mix(np.asarray([seed], dtype=U64))
    return mix(mix(a ^ U64(stream)) ^ np.asarray(index, dtype=U64))


def unit(bits):
    return ((bits >> U64(11)).astype(np.float64) + 1) * 2.0**-53


def normal(layer, slot, rows, cols, deviation):
    stream = layer * SLOTS + slot if slot < SLOTS else 2**64 - (layer * ALL_SLOTS + slot)
    bits = at(SEED, stream, np.arange(rows * cols, dtype=U64))
    values = np.sqrt(-2 * np.log(unit(bits))) * np.cos(2 * math.pi * unit(mix(bits)))
    return torch.nn.Parameter(torch.tensor(deviation * values).reshape(rows, cols))


def constant(n, value):
    return torch.nn.Parameter(torch.full((n,), value, dtype=torch.float64))


def sequence(index, vocab, seq):
    token, tokens = int(at(SEED, 0x746F6B, [index])[0]) % vocab, []
    for i in range(seq):
        bits = at(SEED, 0x746F6B + index + 1, [i])
        tokens.append(token)
        if unit(bits)[0] < 0.8:
            token = int(at(SEED, 0x6E6578, [token])[0]) % vocab
        else:
            token = int(mix(bits)[0]) % vocab
    return tokens + [token]


class Model:
    def __init__(self, m, plan):
        self.m = m
        self.capacity = plan.get("moe_expert_capacity_factor", 0)
        self.by_position = plan.get("moe_token_drop_policy") == "position"
        h, n = m["hidden"], m["layers"]
        self.kv = m.get("kv_heads", m["heads"])
        self.dim = h // m["heads"]
        self.ffn = m.get("ffn_hidden", 4 * h)
        self.llama = m["norm"] == "rmsnorm"
        behind = DEVIATION / math.sqrt(2 * n)
        width = h + 2 * self.kv * self.dim
        self.table = normal(0, 0, m["vocab"], h, DEVIATION)
        if not self.llama:
            self.positions = normal(0, 1, m["seq"], h, DEVIATION)
        self.blocks = []
        for i in range(1, n + 1):
            up = self.ffn * (2 if self.llama else 1)
            b = {"n1": constant(h, 1), "qkv": normal(i, 2, width, h, DEVIATION), "proj": normal(i, 4, h, h, behind),
                 "n2": constant(h, 1)}
            if "experts" in m:
                b.update(self.experts(i, behind))
            else:
                b["up"], b["down"] = normal(i, 8, up, h, DEVIATION), normal(i, 10, h, self.ffn, behind)
            if not self.llama:
                for name, size in (("n1b", h), ("qkvb", width), ("projb", h), ("n2b", h), ("upb", up), ("downb", h)):
                    b[name] = constant(size, 0)
            self.blocks.append(b)
        self.norm = constant(h, 1)
        self.norm_bias = None if self.llama else constant(h, 0)
        self.out = self.table if m["tied_embeddings"] else normal(n + 1, 2, m["vocab"], h, DEVIATION)

    def experts(self, i, behind):
        m, h, n, ffn = self.m, self.m["hidden"], self.m["experts"], self.m["expert_ffn_hidden"]
        b = {"router": normal(i, 12, n, h, DEVIATION), "up": normal(i, 8, n * 2 * ffn, h, DEVIATION),
             "down": normal(i, 10, n * h, ffn, behind)}
        if "shared_ffn_hidden" in m:
            b["sup"] = normal(i, 13, 2 * m["shared_ffn_hidden"], h, DEVIATION)
            b["sdown"] = normal(i, 14, h, m["shared_ffn_hidden"], behind)
        return b

    def parameters(self):
        own = [v for v in vars(self).values() if isinstance(v, torch.nn.Parameter)]
        own += [p for b in self.blocks for p in b.values()]
        return list({id(p): p for p in own}.values())

    def normed(self, x, weight, bias):
        if self.llama:
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight
        return F.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)

    def rotate(self, x):
        if not self.llama:
            return x
        half = self.dim // 2
        angles = torch.outer(torch.arange(x.shape[2], dtype=torch.float64),
                             10000.0 ** (-torch.arange(half, dtype=torch.float64) / half))
        low, high = x[..., :half], x[..., half:]
        return torch.cat((low * angles.cos() - high * angles.sin(), low * angles.sin() + high * angles.cos()), -1)

    def attend(self, x, b):
        batch, seq, h = x.shape
        widths = (h, self.kv * self.dim, self.kv * self.dim)
        q, k, v = (t.reshape(batch, seq, -1, self.dim).transpose(1, 2)
                   for t in F.linear(x, b["qkv"], b.get("qkvb")).split(widths, -1))
        q, k = self.rotate(q), self.rotate(k)
        k, v = (t.repeat_interleave(q.shape[1] // self.kv, 1) for t in (k, v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.dim)
        behind = torch.arange(seq)[:, None] - torch.arange(seq)[None, :]
        hidden = (behind < 0) | (behind >= self.m.get("window", seq))
        scores = scores.masked_fill(hidden, -math.inf)
        context = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, seq, h)
        return F.linear(context, b["proj"], b.get("projb"))

    def feed(self, x, b):
        up = F.linear(x, b["up"], b.get("upb"))
        if self.llama:
            gate, up = up.chunk(2, -1)
            up = F.silu(gate) * up
        else:
            up = 0.5 * up * (1 + torch.tanh(math.sqrt(2 / math.pi) * (up + 0.044715 * up**3)))
        return F.linear(up, b["down"], b.get("downb"))

    @staticmethod
    def gated(x, up, down):
        gate, value = F.linear(x, up).chunk(2, -1)
        return F.linear(F.silu(gate) * value, down)

    def stays(self, chosen, weight):
        """Which copies of rows their experts have room for."""
        room = math.ceil(chosen.numel() / self.m["experts"] * self.capacity)
        stays = torch.ones(chosen.numel(), dtype=torch.bool)
        for e in range(self.m["experts"] if self.capacity else 0):
            mine = (chosen.flatten() == e).nonzero().flatten().tolist()
            if not self.by_position:
                mine.sort(key=lambda i: (-weight.flatten()[i].item(), i))
            stays[mine[room:]] = False
        return stays.reshape(chosen.shape)

    def route(self, x, b):
        """Each token's top experts; a dropped copy adds nothing, the others' weights stay as they are."""
        shape, top = x.shape, self.m["experts_per_token"]
        x = x.flatten(0, 1)
        logits, chosen = F.linear(x, b["router"]).topk(top)
        weight = logits.softmax(-1)
        weight = weight * self.stays(chosen, weight)
        up, down = b["up"].chunk(self.m["experts"]), b["down"].chunk(self.m["experts"])
        y = sum(self.gated(x, up[e], down[e]) * (weight * (chosen == e)).sum(-1, keepdim=True)
                for e in range(self.m["experts"]))
        if "sup" in b:
            y = y + self.gated(x, b["sup"], b["sdown"])
        return y.reshape(shape)

    def loss(self, tokens, labels):
        x = F.embedding(tokens, self.table)
        if not self.llama:
            x = x + self.positions
        for b in self.blocks:
            x = x + self.attend(self.normed(x, b["n1"], b.get("n1b")), b)
            feed = self.route if "router" in b else self.feed
            x = x + feed(self.normed(x, b["n2"], b.get("n2b")), b)
        logits = F.linear(self.normed(x, self.norm, self.norm_bias), self.out)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def main():
    print("model,step,loss,grad_norm")
    for name, model_file, plan_file in CASES:
        m, plan = (json.load(open(path, encoding="utf-8")) for path in (model_file, plan_file))
        model, together = Model(m, plan), plan["micro_batch_size"]
        adam = torch.optim.AdamW(model.parameters(), 1e-3, (0.9, 0.95), 1e-8, 0)
        for step in range(STEPS):
            batch = m["global_batch_size"]
            data = torch.tensor([sequence(step * batch + i, m["vocab"], m["seq"]) for i in range(batch)])
            adam.zero_grad()
            loss = 0.0
            for part in data.split(together): # those among which tokens are dropped
                share = model.loss(part[:, :-1], part[:, 1:]) * (len(part) / batch)
                share.backward()
                loss += share.item()
            norm = math.sqrt(sum(p.grad.pow(2).sum().item() for p in model.parameters()))
            for p in model.parameters():
                p.grad *= min(1, 1 / norm)
            adam.step()
            print(f"{name},{step + 1},{loss:.10f},{norm:.10f}")


with np.errstate(over="ignore"):
    main()
