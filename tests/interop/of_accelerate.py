"""accelerate: the checks of `accelerate launch`, the environment that it gives ranks, and what their plugins read of it
(those of FSDP2 and ParallelismConfig, or MegatronLMPlugin)."""
import os
import tempfile

import accelerate
from torch.distributed.fsdp import CPUOffloadPolicy
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils import ParallelismConfig
from accelerate.utils.dataclasses import FullyShardedDataParallelPlugin, MegatronLMPlugin
from accelerate.utils.launch import prepare_multi_gpu_env


def name():
    return "accelerate " + accelerate.__version__


def resolve(export, plan):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(export["text"])
        file.flush()
        args = launch_command_parser().parse_args(["--config_file", file.name, "train.py"])
        args, _, _ = _validate_launch_command(args)
    kept = dict(os.environ)
    os.environ.update(prepare_multi_gpu_env(args))
    try:
        return megatron(args, plan) if args.use_megatron_lm else fsdp(args)
    finally:
        os.environ.clear()
        os.environ.update(kept)


def megatron(args, plan):
    p = MegatronLMPlugin()
    given = p.__dict__
    tp, pp, cp = p.tp_degree, p.pp_degree, given.get("context_parallel_size") or 1
    full = given.get("recompute_granularity") == "full" and given.get("recompute_num_layers", 1) != 0
    found = {
        "world": args.num_processes, "tp": tp, "pp": pp, "cp": cp, "vpp": 1,
        "dp": args.num_processes // (tp * pp * cp), "micro_batches": p.num_micro_batches,
        "sequence_parallel": bool(p.sequence_parallelism), "zero": int(bool(p.use_distributed_optimizer)),
        "recompute": "full" if full else given.get("recompute_granularity") if
        given.get("recompute_granularity") != "full" else "none",
        "recompute_method": given.get("recompute_method") if full else "none",
        "recompute_layers": given.get("recompute_num_layers") if full else 0,
        "precision": {"no": "fp32"}.get(args.mixed_precision, args.mixed_precision),
        "offload_optimizer": bool(given.get("optimizer_cpu_offload")),
        "ep": given.get("expert_model_parallel_size") or 1, "etp": given.get("expert_tensor_parallel_size") or tp,
    }
    last, layers = given.get("decoder_last_pipeline_num_layers"), plan["meaning"]["layers"]
    if last is None:
        found["stages"] = [layers // pp] * pp
    elif pp > 1:
        found["stages"] = [(layers - last) // (pp - 1)] * (pp - 1) + [last]
    return found


def fsdp(args):
    p, grid = FullyShardedDataParallelPlugin(), ParallelismConfig()
    return {
        "world": args.num_processes, "tp": grid.tp_size, "cp": grid.cp_size, "pp": 1, "vpp": 1,
        "dp": grid.dp_replicate_size * grid.dp_shard_size, "copies": grid.dp_replicate_size,
        "zero": 3, "kept": not p.reshard_after_forward,
        "recompute": "full" if p.activation_checkpointing else "none",
        "precision": {"no": "fp32"}.get(args.mixed_precision, args.mixed_precision),
        "offload_optimizer": isinstance(p.cpu_offload, CPUOffloadPolicy),
        "cp_comm": {"allgather": "all_gather", "alltoall": "a2a"}[grid.cp_handler.cp_comm_strategy] if
        grid.cp_size > 1 else "none",
    }
