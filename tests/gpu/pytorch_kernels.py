"""Times of a GPU's operations by PyTorch that nobody published, and the device's ceilings.

    pytorch_kernels.py GROUP... --out FOLDER [--small] [--seconds S]

GROUPs: ceilings, products (sides no multiple of 8, batched, thin), attention (with dropout), memory (kernels bound
by it), experts (grouped products, permutation), overheads (launch, wait, graph), power (sustained products, with
nvidia-smi's clocks and watts beside).

Rows go to files in FOLDER as soon as they are measured: odd_kernels.csv, permute_router.csv, moe_gemm.csv,
overheads.csv, power.csv. Each row is the median of blocks timed by events after a warm-up, on random numbers, over
operands that are walked through where they would fit the cache. A row that fails is told and left out. The last line
printed sums up.
"""
import argparse
import csv
import os
import statistics
import subprocess
import sys
import threading
import time

import torch
import torch.nn.functional as F

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
NAME = torch.cuda.get_device_name() if CUDA else "CPU"
SOFTWARE = f"torch {torch.__version__}"
SOURCE = "tests/gpu/pytorch_kernels.py"
CACHE_BYTES = 128 << 20  # walked through, beyond any L2
COLUMNS = {
    "odd_kernels": "source gpu kernel dtype batch m n k head_dim seqlen time_us tflops timing software note",
    "permute_router": "source gpu kernel impl pass dtype rows cols time_us GBps note",
    "moe_gemm": "source gpu dtype backend tokens hidden inter topk experts ep tp distribution time_us note",
    "overheads": "source gpu kernel time_us software note",
    "power": "source gpu kernel second sm_mhz memory_mhz watts celsius tflops",
}


class Output:
    """CSV files, a row at a time."""

    def __init__(self, folder):
        self.folder, self.count = folder, 0

    def row(self, file, **values):
        path = os.path.join(self.folder, file + ".csv")
        values = {"source": SOURCE, "gpu": NAME, **values}
        with open(path, "a", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, COLUMNS[file].split(), restval="")
            if out.tell() == 0:
                writer.writeheader()
            writer.writerow({key: f"{value:.5g}" if isinstance(value, float) else value
                             for key, value in values.items()})
        self.count += 1


def synchronize():
    if CUDA:
        torch.cuda.synchronize()


def block_s(call, calls):
    if CUDA:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3 / calls
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def median_s(call, seconds=0.1):
    """Of at least five blocks of a millisecond or a call."""
    for _ in range(3):
        call()
    once = max(block_s(call, 1), 1e-7)
    calls = max(1, min(200, round(1e-3 / once)))
    blocks = max(5, min(51, round(seconds / (once * calls))))
    return statistics.median(block_s(call, calls) for _ in range(blocks))


def random(*shape, dtype=torch.bfloat16, grad=False):
    return torch.randn(*shape, device=DEVICE, dtype=dtype, requires_grad=grad)


def walked(make):
    """Calls in turn on as many sets of operands as pass the cache; `make` gives a set: (bytes, call)."""
    first_bytes, first = make()
    sets = [first] + [make()[1] for _ in range(min(15, CACHE_BYTES // max(first_bytes, 1)) if CUDA else 0)]
    at = 0

    def call():
        nonlocal at
        at = (at + 1) % len(sets)
        return sets[at]()

    return call


def attempt(name, measure):
    try:
        measure()
    except (RuntimeError, AttributeError, TypeError, ValueError) as error:
        print(f"left out: {name}: {str(error).splitlines()[0]}", file=sys.stderr)
    if CUDA:
        torch.cuda.empty_cache()


def sizes(options, *full):
    return tuple(min(size, 48 + size % 8) for size in full) if options.small else full


# ---- products ----

def time_product(out, batch, m, n, k, dtype=torch.bfloat16, note="", kernel=None):
    def make():
        lead = (batch,) if batch > 1 else ()
        a, b = random(*lead, m, k, dtype=dtype), random(*lead, k, n, dtype=dtype)
        return batch * (m * k + k * n) * a.element_size(), lambda: torch.matmul(a, b)

    seconds = median_s(walked(make))
    tflops = 2e-12 * batch * m * n * k / seconds
    out.row("odd_kernels", kernel=kernel or ("bmm" if batch > 1 else "gemm"), dtype=str(dtype)[6:],
            batch=batch if batch > 1 else "", m=m, n=n, k=k, time_us=seconds * 1e6, tflops=tflops, timing="median",
            software=SOFTWARE, note=note)
    return tflops


def ceilings(out, options):
    side, count = (64, 1 << 20) if options.small else (8192, 1 << 31)
    x, y = (torch.randint(256, (count,), dtype=torch.uint8, device=DEVICE) for _ in range(2))
    copy_s = median_s(lambda: y.copy_(x))
    out.row("permute_router", kernel="copy", impl=SOFTWARE, dtype="uint8", rows=1, cols=count, time_us=copy_s * 1e6,
            GBps=2e-9 * count / copy_s, note="ceiling")
    del x, y
    rates = [time_product(out, 1, side, side, side, dtype, "ceiling") for dtype in (torch.bfloat16, torch.float32)]
    print(f"{NAME}: copy {2e-12 * count / copy_s:.3f} TB/s, bf16 {rates[0]:.1f}, fp32 {rates[1]:.1f} TFLOP/s, "
          f"{SOFTWARE}")


SHAPES = [  # batch, m, n, k
    *((1, side, side, side) for side in (1023, 1024, 1025, 2047, 2048, 2049, 2052, 4095, 4096, 4097, 4100, 8191, 8193)),
    *((1, 8192, n, 768) for n in (50257, 50260, 50264, 50304)),
    *((1, 4096, 4096, k) for k in (4090, 4092, 4094, 4095, 4097)),
    *((1, 8192, 1600 + d, 1600 + d) for d in (0, 1, 2, 4)),
    *((1, m, 4096, 4096) for m in (1, 4, 16, 33, 64, 100, 128, 200)),
    *((1, 8192, n, 4096) for n in (1, 8, 16, 33, 64, 100)),
    *((1, 8192, 4096, k) for k in (1, 8, 16, 33, 64, 100)),
    *((b, s, s, d) for b, s, d in ((96, 1024, 64), (96, 1023, 64), (96, 1024, 63), (96, 1024, 80), (32, 2048, 128),
                                   (32, 2047, 128), (32, 4096, 128), (200, 1024, 64))),
    *((b, s, d, s) for b, s, d in ((96, 1024, 64), (96, 1023, 64), (96, 1024, 63), (32, 2048, 128), (32, 4096, 128))),
    *((8, m, 3584, 1024) for m in (16, 100, 256, 1000, 2048)),
]


def products(out, options):
    for shape in SHAPES[::7] if options.small else SHAPES:
        attempt(shape, lambda: time_product(out, *sizes(options, *shape)))


# ---- attention ----

def time_attention(out, dropout, batch, heads, seq, dim):
    q, k, v = (random(batch, heads, seq, dim, grad=True) for _ in range(3))
    flops = 2.0 * batch * heads * seq * seq * dim  # causal: half

    def forward():
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)

    context = forward()
    gradient = torch.randn_like(context)
    rows = {"fwd": (flops, forward),
            "bwd": (2.5 * flops, lambda: torch.autograd.grad(context, (q, k, v), gradient, retain_graph=True))}
    for name, (count, call) in rows.items():
        seconds = median_s(call)
        out.row("odd_kernels", kernel=f"SDPA causal {name}, dropout {dropout}", dtype="bfloat16", batch=batch, m=heads,
                head_dim=dim, seqlen=seq, time_us=seconds * 1e6, tflops=count / seconds / 1e12, timing="median",
                software=SOFTWARE, note="m is the number of heads; causal counts half")


def attention(out, options):
    for batch, heads, seq, dim in ((8, 12, 1024, 64), (4, 12, 2048, 64), (2, 12, 4096, 64), (8, 25, 1024, 64),
                                   (4, 32, 1024, 128), (2, 32, 2048, 128), (1, 32, 4096, 128)):
        batch, heads, seq, dim = (1, 2, 48, 16) if options.small else (batch, heads, seq, dim)
        for dropout in (0.0, 0.1):
            attempt("attention", lambda: time_attention(out, dropout, batch, heads, seq, dim))
        if options.small:
            break


# ---- kernels bound by memory ----

def memory_kernels(rows, cols):
    """Name: (elements moved of rows x cols, a call, of one set of operands)."""
    x, y = random(rows, cols), random(rows, cols)
    weight, bias = random(cols), random(cols)
    labels = torch.randint(cols, (rows,), device=DEVICE)
    wide = x.float()
    kernels = {
        "layer_norm": (2, lambda: F.layer_norm(x, (cols,), weight, bias)),
        "rms_norm": (2, lambda: F.rms_norm(x, (cols,), weight)),
        "gelu": (2, lambda: F.gelu(x, approximate="tanh")),
        "silu_multiply": (5, lambda: F.silu(x) * y),
        "residual": (3, lambda: torch.add(x, y)),
        "bias": (2, lambda: torch.add(x, bias)),
        "column_sum": (1, lambda: x.sum(0)),
        "softmax": (2, lambda: torch.softmax(x, 1)),
        "dropout": (2.5, lambda: F.dropout(x, 0.1)),
        "cast_to_fp32": (3, x.float),
        "cast_from_fp32": (3, wide.bfloat16),
        "transpose_copy": (2, lambda: x.t().contiguous()),
        "cross_entropy": (1, lambda: F.cross_entropy(x, labels)),
        "sum_of_squares_fp32": (2, lambda: torch.linalg.vector_norm(wide)),
    }
    return x.numel() * 2 * 4, kernels


def memory(out, options):
    for rows, cols in ((8192, 768), (32768, 768), (8192, 3072), (8192, 4096), (8192, 14336), (8192, 50257),
                       (8191, 4095)):
        rows, cols = sizes(options, rows, cols)
        for name in memory_kernels(2, 2)[1]:
            def measure():
                def make():
                    size, kernels = memory_kernels(rows, cols)
                    return size, kernels[name][1]

                moved = memory_kernels(2, 2)[1][name][0]
                seconds = median_s(walked(make), 0.05)
                out.row("permute_router", kernel=name, impl=SOFTWARE, **{"pass": "fwd"}, dtype="bfloat16", rows=rows,
                        cols=cols, time_us=seconds * 1e6, GBps=2e-9 * moved * rows * cols / seconds,
                        note=f"bytes: {moved} elements of 2 bytes each")

            attempt(name, measure)


# ---- experts ----

def split(copies, experts, skew):
    """Copies of each expert: alike, or as the power 1 / rank."""
    weights = torch.tensor([1.0 / (i + 1) if skew else 1.0 for i in range(experts)])
    counts = (weights / weights.sum() * copies).floor().long()
    counts[0] += copies - counts.sum()
    return counts


def time_experts(out, tokens, hidden, inter, top, experts, skew):
    counts = split(tokens * top, experts, skew)
    ends = counts.cumsum(0).to(DEVICE, torch.int32)
    x, up, down = random(tokens * top, hidden), random(experts, hidden, 2 * inter), random(experts, inter, hidden)
    parts = counts.tolist()

    def grouped():
        gate, value = torch._grouped_mm(x, up, offs=ends).chunk(2, dim=1)
        return torch._grouped_mm(F.silu(gate) * value, down, offs=ends)

    def loop():
        results = []
        for i, part in enumerate(x.split(parts)):
            gate, value = (part @ up[i]).chunk(2, dim=1)
            results.append((F.silu(gate) * value) @ down[i])
        return torch.cat(results)

    for name, call in (("torch_grouped_mm", grouped), ("torch_loop", loop)):
        def measure():
            seconds = median_s(call)
            out.row("moe_gemm", dtype="bfloat16", backend=name, tokens=tokens, hidden=hidden, inter=inter, topk=top,
                    experts=experts, ep=1, tp=1, distribution="power_law_1" if skew else "balanced",
                    time_us=seconds * 1e6, note=f"{SOFTWARE}; gated, without permutation; "
                    f"{6e-12 * tokens * top * hidden * inter / seconds:.1f} TFLOP/s")

        attempt(name, measure)


def time_permutation(out, tokens, hidden, top, experts):
    x, logits = random(tokens, hidden), random(tokens, experts, dtype=torch.float32)
    order = torch.topk(logits, top, dim=1).indices.flatten().argsort()
    copies, weight = x[order // top], torch.rand(tokens * top, 1, device=DEVICE, dtype=x.dtype)
    kernels = {
        "router softmax and top-k": (tokens * experts * 4, lambda: torch.topk(torch.softmax(logits, 1), top, dim=1)),
        "sort of copies by expert": (tokens * top * 16, lambda: order.flip(0).argsort()),
        "permute": (tokens * hidden * 2 * (1 + top), lambda: x[order // top]),
        "unpermute, weighted": (tokens * hidden * 2 * (1 + top),
                                lambda: torch.zeros_like(x).index_add_(0, order // top, copies * weight)),
    }
    for name, (moved, call) in kernels.items():
        seconds = median_s(call)
        out.row("permute_router", kernel=name, impl=SOFTWARE, **{"pass": "fwd"}, dtype="bfloat16", rows=tokens,
                cols=hidden, time_us=seconds * 1e6, GBps=1e-9 * moved / seconds, note=f"top {top} of {experts}")


def experts_group(out, options):
    for hidden, inter, top, experts in ((4096, 14336, 2, 8), (2048, 768, 8, 128), (1024, 1792, 2, 8)):
        for tokens in (1024, 4096, 16384):
            if options.small:
                tokens, hidden, inter = 32, 48, 64
            for skew in (False, True):
                attempt("experts", lambda: time_experts(out, tokens, hidden, inter, top, experts, skew))
            attempt("permutation", lambda: time_permutation(out, tokens, hidden, top, experts))
        if options.small:
            break


# ---- overheads ----

def host_s(call, calls=200):
    samples = []
    for _ in range(11):
        synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        samples.append((time.perf_counter() - start) / calls)
    return statistics.median(samples)


def overheads(out, options):
    x = torch.zeros(1, device=DEVICE)
    calls = {"launch of an addition": lambda: x.add_(1), "launch and wait": lambda: (x.add_(1), synchronize()),
             "wait for nothing": synchronize, "download of a number": x.item}
    for name, call in calls.items():
        out.row("overheads", kernel=name, time_us=host_s(call) * 1e6, software=SOFTWARE, note="of the host")
    out.row("overheads", kernel="additions in a row", time_us=median_s(lambda: x.add_(1)) * 1e6, software=SOFTWARE,
            note="of the device, by events")
    if not CUDA:
        return
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(100):
            x.add_(1)
    out.row("overheads", kernel="additions in a graph of 100", time_us=median_s(graph.replay) * 1e4, software=SOFTWARE,
            note="of the device, by events; each")


# ---- power ----

def sample_power(path, stop):
    query = "clocks.sm,clocks.mem,power.draw,temperature.gpu"
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits", "-i", "0"]
    while not stop.is_set():
        try:
            line = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
            path.append((time.perf_counter(), [part.strip() for part in line.split(",")]))
        except (OSError, subprocess.SubprocessError):
            path.append((time.perf_counter(), [""] * 4))
        stop.wait(0.2)


def power(out, options):
    side = 64 if options.small else 8192
    a, b = random(side, side), random(side, side)
    for kernel in ("idle", "gemm bf16"):
        samples, rates, stop = [], [], threading.Event()
        thread = threading.Thread(target=sample_power, args=(samples, stop))
        start = time.perf_counter()
        thread.start()
        while time.perf_counter() - start < options.seconds:
            if kernel == "idle":
                time.sleep(0.1)
                continue
            rates.append((time.perf_counter(), 2e-12 * side ** 3 / block_s(lambda: a @ b, 50)))
        stop.set()
        thread.join()
        for when, (sm, mem, watts, celsius) in samples:
            rate = min(rates, key=lambda r: abs(r[0] - when))[1] if rates else 0.0
            out.row("power", kernel=kernel, second=when - start, sm_mhz=sm, memory_mhz=mem, watts=watts,
                    celsius=celsius, tflops=rate)


GROUPS = {"ceilings": ceilings, "products": products, "attention": attention, "memory": memory,
          "experts": experts_group, "overheads": overheads, "power": power}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("groups", nargs="+", choices=GROUPS)
    parser.add_argument("--out", required=True)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    torch.manual_seed(1)
    out = Output(options.out)
    for group in options.groups:
        GROUPS[group](out, options)
    print(f"{out.count} rows")


if __name__ == "__main__":
    main()
