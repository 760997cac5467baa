"""torchtitan: ConfigManager of the last release that reads TOML, ParallelDims, and its cut of stages."""
import os
import tempfile

from importlib.metadata import version

from torchtitan.config import ConfigManager
from torchtitan.distributed import ParallelDims
from torchtitan.distributed.pipeline_parallel import generate_llm_fqn_per_model_part

from script import ranks

SCHEDULES = {"1F1B": "1f1b", "GPipe": "gpipe", "Interleaved1F1B": "interleaved", "LoopedBFS": "looped-bfs"}
DTYPES = {"bfloat16": "bf16", "float32": "fp32"}


def name():
    return "torchtitan " + version("torchtitan")


def stages(p, layers):
    """As torchtitan.distributed.pipeline_parallel.pipeline_llm cuts them."""
    if p.pipeline_parallel_degree == 1:
        return [layers]
    parts = p.module_fqns_per_model_part
    if parts is None:
        first, last = p.pipeline_parallel_first_stage_less_layers, p.pipeline_parallel_last_stage_less_layers
        n = -(-(layers + first + last) // p.pipeline_parallel_layers_per_stage)
        assert n % p.pipeline_parallel_degree == 0, "%d stages of %d ranks" % (n, p.pipeline_parallel_degree)
        parts = generate_llm_fqn_per_model_part(n, layers, first, last)
    return [sum(name.startswith("layers.") for name in part) for part in parts]


def shards(dims):
    """Ranks over which states are divided at most: experts' may be more than those of the rest."""
    rest = dims.dp_shard * dims.cp
    return max(rest, rest * dims.tp // (dims.ep * dims.etp)) if dims.ep > 1 else rest


def resolve(export, plan):
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(export["text"])
        file.flush()
        config = ConfigManager().parse_args(["--job.config_file", file.name])
    p, t, world = config.parallelism, config.training, ranks(export["launch"])
    dims = ParallelDims(dp_replicate=p.data_parallel_replicate_degree, dp_shard=p.data_parallel_shard_degree,
                        cp=p.context_parallel_degree, tp=p.tensor_parallel_degree, pp=p.pipeline_parallel_degree,
                        ep=p.expert_parallel_degree, etp=p.expert_tensor_parallel_degree, world_size=world)
    data, pp = dims.dp_replicate * dims.dp_shard, dims.pp
    micro = p.pipeline_parallel_microbatch_size if pp > 1 else t.local_batch_size
    assert t.global_batch_size % (t.local_batch_size * data) == 0
    cut = stages(p, plan["meaning"]["layers"])
    mode = config.activation_checkpoint.mode
    found = {
        "world": world, "tp": dims.tp, "cp": dims.cp, "pp": pp, "vpp": len(cut) // pp, "dp": data, "ep": dims.ep,
        "stages": cut, "micro_batch": micro, "global_batch": t.global_batch_size,
        "micro_batches": t.global_batch_size // (micro * data), "seq": t.seq_len, "recompute": mode,
        "precision": DTYPES[t.mixed_precision_param], "optimizer": config.optimizer.name.lower(),
        "offload_optimizer": t.enable_cpu_offload, "copies": dims.dp_replicate,
        "zero": 3 if p.fsdp_reshard_after_forward == "always" or shards(dims) > 1 else 0,
        "kept": p.fsdp_reshard_after_forward == "never" and shards(dims) > 1,
        "schedule": SCHEDULES.get(p.pipeline_parallel_schedule, p.pipeline_parallel_schedule) if pp > 1 else "none",
        "fp8_recipe": "none", "bf16_start": 0, "bf16_end": 0,
    }
    for converter in config.model.converters:
        float8 = config.quantize.linear.float8
        found["fp8_recipe"] = (float8.recipe_name or "tensorwise") if "float8" in converter else "mxfp8"
        found["fp8_param_gather"] = "float8" in converter and float8.enable_fsdp_float8_all_gather
        filters = (float8 if "float8" in converter else config.quantize.linear.mx).filter_fqns
        blocks = [any(part in f"layers.{i}." for part in filters) for i in range(plan["meaning"]["layers"])]
        found["bf16_start"] = (blocks + [False]).index(False)
        found["bf16_end"] = (blocks[::-1] + [False]).index(False) if not all(blocks) else 0
    if dims.ep > 1:
        found["etp"] = dims.etp
    return found
