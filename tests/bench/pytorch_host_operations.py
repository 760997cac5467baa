"""What PyTorch's host takes for parts of Megatron Core, in times of a torch.nn.Linear: the counts of operations of
src/op/attention_copies.c and src/cost/price.c (op/op.h says what an operation is).

    pytorch_host_operations.py [ROUNDS]

Needs torch and megatron-core; runs on one core, without a device, on tensors so small that what is computed takes
next to nothing. Prints each part, forward and backward, as the median of ROUNDS (9), least and largest beside it.

- linear: a torch.nn.Linear with its bias; its forward is the unit.
- node: one of four nodes of megatron.core.pipeline_parallel.utils.ScheduleNode, one behind the other, that do nothing:
  its inputs detached, its own backward; without streams and events, which need a device.
- take heads: of gathered queries, keys and values a group's, and of these queries a rank's own
  (core/transformer/attention.py, where there are more ranks than groups); without its collectives. Less a view.
"""
import contextlib
import statistics
import sys
import time

import torch
from megatron.core.pipeline_parallel.utils import ScheduleNode

CALLS = 400  # of a part in a round
HIDDEN, RANKS, GROUPS = 64, 4, 2


class Nothing:
    """An event of no device."""

    def wait(self, stream=None):
        pass

    record = wait


def seconds(forward):
    """Of a call forward and of its backward; `forward` returns an output of leaves that require gradients."""
    times = [0.0, 0.0]
    for warm in (True, False):
        outputs, start = [], time.thread_time()
        for _ in range(CALLS // 10 if warm else CALLS):
            outputs.append(forward())
        middle = time.thread_time()
        gradients = [torch.ones_like(o) for o in outputs]
        begun = time.thread_time()
        for output, gradient in zip(outputs, gradients):
            output.backward(gradient)
        times = [middle - start, time.thread_time() - begun]
    return [t / CALLS for t in times]


def linear():
    layer, x = torch.nn.Linear(HIDDEN, HIDDEN), torch.randn(1, HIDDEN, requires_grad=True)
    return seconds(lambda: layer(x))


def passed(x):
    return x.view_as(x)


def nodes():
    """Of a node: chains of four nodes of a view, less four views in one graph; each node has a backward of its own."""
    x, chains = torch.randn(1, HIDDEN, requires_grad=True), []
    gradient = torch.ones_like(x)
    times = []
    for name in ("forward", "backward"):
        start = time.thread_time()
        for i in range(CALLS):
            if name == "forward":
                chain, y = [], x
                for _ in range(4):
                    chain.append(ScheduleNode(passed, None, Nothing(), name="node"))
                    y = chain[-1].forward(y)
                chains.append(chain)
            else:
                g = gradient
                for node in reversed(chains[i]):
                    g = node.backward(g)
        times.append((time.thread_time() - start) / CALLS / 4)
    plain = seconds(lambda: passed(passed(passed(passed(x)))))  # one backward of all four
    return [t - p / 4 for t, p in zip(times, plain)]


def without(part, rest):
    """Of what `part` has beyond `rest`, each called in turn."""
    return [p - r for p, r in zip(seconds(part), seconds(rest))]


class Gathered(torch.autograd.Function):
    """Columns of all ranks as core/tensor_parallel/mappings.py joins them, and parts their gradient; no collectives."""

    @staticmethod
    def forward(ctx, x):
        output = torch.empty([x.size(0) * RANKS, *x.size()[1:]])
        return torch.cat(output.chunk(RANKS, dim=0), dim=-1).contiguous()

    @staticmethod
    def backward(ctx, gradient):
        shape = [*gradient.shape[:-1], gradient.shape[-1] // RANKS]
        flat = gradient.reshape(-1, gradient.shape[-1])
        parts = torch.cat(torch.split(flat, flat.shape[-1] // RANKS, dim=1), dim=0)
        return torch.empty([parts.size(0) // RANKS, parts.size(1)]).reshape(shape)


def take_heads():
    width = 6 * HIDDEN // RANKS
    own, size = torch.randn(2, 1, width, requires_grad=True), RANKS * width // GROUPS

    def taken():
        group = Gathered.apply(own)[:, :, size : 2 * size]
        return group[:, :, HIDDEN // 2 : HIDDEN]

    return without(taken, lambda: passed(own))


def main():
    torch.set_num_threads(1)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    parts = {"linear": linear, "node": nodes, "take heads": take_heads}
    found = {name: ([], []) for name in parts}
    torch.Tensor.record_stream = lambda self, stream: None
    torch.cuda.stream = lambda stream: contextlib.nullcontext()
    for _ in range(rounds + 1):
        unit = linear()[0]
        for name, measure in parts.items():
            for times, t in zip(found[name], measure()):
                times.append(t / unit)
    print("part        forward            backward")
    for name, passes in found.items():
        cells = [(statistics.median(t[1:]), min(t[1:]), max(t[1:])) for t in passes]
        print("%-10s" % name, *("%5.1f (%.1f to %.1f)" % c for c in cells))


main()
