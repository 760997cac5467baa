"""Megatron-LM: parse_args, validate_args and TransformerConfig of a checkout (TDP_MEGATRON), for a Hopper device and a
Transformer Engine that are not there."""
import os
import sys
import types
import typing

import typing_extensions

from script import arguments

sys.path.insert(0, os.environ["TDP_MEGATRON"])
if not hasattr(typing, "override"):
    typing.override = typing_extensions.override

import torch  # noqa: E402

torch.cuda.get_device_properties = lambda *a: types.SimpleNamespace(major=9, minor=0, name="none")
torch.cuda.get_device_capability = lambda *a: (9, 0)

from megatron.core import package_info  # noqa: E402
from megatron.training.arguments import parse_args, validate_args  # noqa: E402

RECIPES = {"tensorwise": "current", "delayed": "delayed", "blockwise": "blockwise", "mxfp8": "mxfp8"}
SCRIPTS = {"examples/bert/pretrain_bert.py": "bert", "examples/t5/pretrain_t5.py": "t5"}


def name():
    return "Megatron-LM core %d.%d" % (package_info.MAJOR, package_info.MINOR)


def zero(a):
    if a.use_megatron_fsdp:
        return {"optim_grads_params": 3, "optim_grads": 2, "optim": 1, "no_shard": 0}[a.data_parallel_sharding_strategy]
    layer_wise = getattr(a, "use_layer_wise_distributed_optimizer", a.optimizer == "dist_muon")  # core 0.16 has it not
    return int(a.use_distributed_optimizer or layer_wise)


def letters_of(text):
    """Transformer layers of a stage of a layout, "Et*3|(tt|)*2t*4L"."""
    import re
    while re.search(r"\(([^()]*)\)\*(\d+)", text):
        text = re.sub(r"\(([^()]*)\)\*(\d+)", lambda m: m.group(1) * int(m.group(2)), text)
    text = re.sub(r"(\w)\*(\d+)", lambda m: m.group(1) * int(m.group(2)), text)
    return [stage.count("t") for stage in text.split("|")]


def stages(a, chunks):
    pattern = getattr(a, "hybrid_layer_pattern", None)
    if pattern:
        from megatron.core.ssm.mamba_hybrid_layer_allocation import Symbols  # noqa: F401
        return None
    layout = a.pipeline_model_parallel_layout
    if layout is not None:
        return letters_of(layout if isinstance(layout, str) else str(layout.input_data))
    n = a.pipeline_model_parallel_size * chunks
    layers = a.encoder_num_layers + (a.decoder_num_layers or 0) if a.decoder_num_layers else a.num_layers
    return [layers // n] * n


def dense(a):
    """Whether some blocks have no experts."""
    frequency = a.moe_layer_freq
    return 0 in frequency if isinstance(frequency, list) else frequency > 1


def attention(a):
    heads = a.num_attention_heads
    return heads, a.num_query_groups if a.group_query_attention else heads


def take_engine_for_newest():
    """Versions and fused kernels of Transformer Engine, which modules have by name."""
    for name, module in list(sys.modules.items()):
        if not name.startswith("megatron."):
            continue
        for key, value in list(vars(module).items()):
            if key == "is_te_min_version":
                setattr(module, key, lambda *a, **k: True)
            elif key.startswith("fused_") and value is None:
                setattr(module, key, print)


def resolve(export, plan):
    from megatron.training.arguments import core_transformer_config_from_args
    take_engine_for_newest()
    world, script, words = arguments(export["text"])
    os.environ.update(WORLD_SIZE=str(world), RANK="0", LOCAL_RANK="0", CUDA_DEVICE_MAX_CONNECTIONS="1")
    if "use-megatron-fsdp" in export["text"]:
        del os.environ["CUDA_DEVICE_MAX_CONNECTIONS"]
    sys.argv = [script] + words
    silent, sys.stdout = sys.stdout, open(os.devnull, "w")
    try:
        a = parse_args()
        validate_args(a)
        core_transformer_config_from_args(a)
    finally:
        sys.stdout = silent
    return fields(a, SCRIPTS.get(script, "gpt"))


def fields(a, family):
    chunks = a.virtual_pipeline_model_parallel_size or 1
    data, pp = a.data_parallel_size, a.pipeline_model_parallel_size
    kind = a.cp_comm_type[0] if isinstance(a.cp_comm_type, list) else a.cp_comm_type
    full = a.recompute_granularity == "full"
    experts = a.num_experts or 0
    heads, groups = attention(a)
    parallel = {
        "world": a.world_size, "tp": a.tensor_model_parallel_size, "pp": pp, "vpp": chunks,
        "cp": a.context_parallel_size, "dp": data, "ep": a.expert_model_parallel_size,
        "etp": a.expert_tensor_parallel_size, "micro_batch": a.micro_batch_size, "global_batch": a.global_batch_size,
        "micro_batches": a.global_batch_size // (a.micro_batch_size * data),
        "seq": a.encoder_seq_length if family == "t5" else a.seq_length, "sequence_parallel": a.sequence_parallel,
        "cp_comm": kind if a.context_parallel_size > 1 else "none",
        "schedule": "none" if pp == 1 else "interleaved" if chunks > 1 else "1f1b", "stages": stages(a, chunks),
    }
    memory = {
        "recompute": a.recompute_granularity or "none", "recompute_method": a.recompute_method if full else "none",
        "recompute_layers": a.recompute_num_layers if full else 0,
        "recompute_modules": (a.recompute_modules or []) if a.recompute_granularity == "selective" else [],
        "zero": zero(a), "copies": a.num_distributed_optimizer_instances,
        "overlap_gradients": a.overlap_grad_reduce, "overlap_parameters": a.overlap_param_gather,
        "overlap_pipeline": a.overlap_p2p_comm,
        "precision": "bf16" if a.bf16 else "fp16" if a.fp16 else "fp32",
        "fp8_recipe": RECIPES[a.fp8_recipe] if a.fp8 else "nvfp4" if a.fp4 else "none",
        "fp8_param_gather": bool(a.fp4_param_gather if a.fp4 else a.fp8 and a.fp8_param_gather),
        "bf16_start": a.num_layers_at_start_in_bf16 if a.first_last_layers_bf16 else 0,
        "bf16_end": a.num_layers_at_end_in_bf16 if a.first_last_layers_bf16 else 0,
        "optimizer": a.optimizer.replace("dist_", ""), "momentum": a.sgd_momentum if a.optimizer == "sgd" else 0,
        "offload_optimizer": a.optimizer_cpu_offload,
        "gradients_fp32": a.accumulate_allreduce_grads_in_fp32 or not (a.bf16 or a.fp16),
    }
    model = {
        "layers": a.encoder_num_layers + a.decoder_num_layers if family == "t5" else a.num_layers,
        "hidden": a.hidden_size, "heads": heads, "kv_heads": groups,
        "experts": experts, "experts_per_token": a.moe_router_topk if experts else 0,
        "expert_groups": a.moe_router_num_groups or 0, "groups_per_token": a.moe_router_group_topk or 0,
        "ffn": a.ffn_hidden_size if not experts or dense(a) else 0,
        "expert_ffn": a.moe_ffn_hidden_size if experts else 0, "tied": not a.untie_embeddings_and_output_weights,
        "rotary_base": a.rotary_base if a.position_embedding_type in ("rope", "yarn") else 0, "norm_epsilon": a.layernorm_epsilon,
        "balance_loss": a.moe_aux_loss_coeff if experts else 0, "dropout": a.hidden_dropout > 0,
        "rmsnorm": a.normalization == "RMSNorm", "mtp": a.mtp_num_layers or 0,
    }
    if family == "gpt":
        model["vocab"] = a.vocab_size
    return {key: value for group in (parallel, memory, model) for key, value in group.items() if value is not None}
