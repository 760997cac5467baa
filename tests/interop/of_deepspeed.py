"""DeepSpeed: DeepSpeedConfig of a file, for the ranks that the launch line starts."""
import json
import os
import shlex
import types

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import deepspeed  # noqa: E402
from deepspeed.runtime.config import DeepSpeedConfig  # noqa: E402
import deepspeed.comm as dist  # noqa: E402

from script import ranks  # noqa: E402


def name():
    return "DeepSpeed " + deepspeed.__version__.split("+")[0]


def after(words, flag, otherwise):
    return int(words[words.index(flag) + 1]) if flag in words else otherwise


def resolve(export, plan):
    text = json.loads(export["text"])
    words, world = shlex.split(export["launch"]), ranks(export["launch"])
    pp = after(words, "--pipe-parallel-size", 1)
    tp = after(words, "--model-parallel-size", text.get("tensor_parallel", {}).get("autotp_size", 1))
    sp = text.get("sequence_parallel_size", 1)
    data = world // (tp * pp * sp)
    dist.is_initialized, dist.get_world_size, dist.get_rank = (lambda: True), (lambda *a: world), (lambda *a: 0)
    mpu = types.SimpleNamespace(get_data_parallel_world_size=lambda: data, get_sequence_parallel_world_size=lambda: sp)
    c = DeepSpeedConfig(text, mpu=mpu)
    z = c.zero_config
    full = c.pipeline["activation_checkpoint_interval"] > 0 if pp > 1 else "--gradient-checkpointing" in words
    offload = z.offload_optimizer.device if z.offload_optimizer else "none"
    return {
        "world": world, "tp": tp, "pp": pp, "cp": sp, "dp": data, "vpp": 1, "micro_batch":
        c.train_micro_batch_size_per_gpu, "micro_batches": c.gradient_accumulation_steps, "global_batch":
        c.train_batch_size, "seq": after(words, "--seq-length", None), "recompute": "full" if full else "none",
        "recompute_layers": c.pipeline["activation_checkpoint_interval"] if pp > 1 else int(full),
        "zero": int(z.stage), "copies": data * sp // text["zero_optimization"].get("mics_shard_size", data * sp),
        "precision": "bf16" if c.bfloat16_config.enabled else "fp16" if c.float16_config.enabled else "fp32",
        "optimizer": c.optimizer_name.lower(), "momentum": (c.optimizer_params or {}).get("momentum", 0),
        "offload_optimizer": str(getattr(offload, "value", offload)) != "none",
        "overlap_gradients": bool(z.overlap_comm) if z.stage else False,
        "gradients_fp32": c.grad_accum_dtype in ("fp32", None),
        "ep": text.get("expert_parallel", {}).get("autoep_size", 1), "schedule": "1f1b" if pp > 1 else "none",
    }
