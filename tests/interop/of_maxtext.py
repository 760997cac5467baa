"""MaxText: pyconfig, which merges base.yml, its own model's file and what is written, and checks all of it. What it asks
of devices is answered by as many as the plan has, of as many nodes as the launch line names."""
import math
import os
import re
import sys
import tempfile
import unittest  # noqa: F401 - where it is imported, a refusal is raised and does not end the process

if os.environ.get("TDP_MAXTEXT"):
    sys.path.insert(0, os.path.join(os.environ["TDP_MAXTEXT"], "src"))

from script import stand_ins  # noqa: E402

stand_ins("pathwaysutils", "drjax", "qwix", "aqt", "tokamax", "tensorflow", "tensorflow_datasets", "grain", "datasets",
          "transformers", "cloud_tpu_diagnostics", "ml_goodput_measurement", "tensorboardX", "google_cloud_mldiagnostics",
          "sentencepiece", "tiktoken", "jetstream")

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax.experimental import mesh_utils  # noqa: E402
from maxtext.configs import pyconfig  # noqa: E402
from maxtext.utils import max_utils  # noqa: E402

RECIPES = {"": "none", "fp8": "delayed", "te_fp8_currentscaling": "current", "te_mxfp8": "mxfp8", "te_nvfp4": "nvfp4"}
DTYPES = {"bfloat16": "bf16", "float32": "fp32", "float16": "fp16"}


class Device:
    platform = device_kind = "gpu"

    def __init__(self, number, node):
        self.id, self.slice_index, self.process_index = number, node, node


def name():
    return "MaxText of 2026-08"


def load(text, devices):
    jax.devices = lambda *words, **more: devices
    jax.local_device_count = lambda *words, **more: len(devices)
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        file.write(text)
        file.flush()
        return pyconfig.initialize(["", file.name])


def grid(config, devices, nodes):
    """The mesh that MaxText makes (utils/maxtext_utils.py, create_device_mesh)."""
    inner = max_utils.fill_unspecified_mesh_axes(list(config.ici_parallelism), len(devices) // nodes, "ICI")
    outer = max_utils.fill_unspecified_mesh_axes(list(config.dcn_parallelism), nodes, "DCN")
    if nodes > 1:
        return mesh_utils.create_hybrid_device_mesh(inner, outer, devices)
    return np.array(devices, dtype=object).reshape(inner)


def spans(nodes, group):
    """Most nodes of a group along axes of a grid of nodes."""
    rest = [axis for axis in range(nodes.ndim) if axis not in group]
    rows = nodes.transpose(rest + group).reshape(-1, math.prod(nodes.shape[axis] for axis in group))
    return max(len(set(row)) for row in rows.tolist())


def check_places(mesh, names, shape):
    """Groups lie on as many nodes as those of the plan's order of ranks: tensor, context, data, pipeline."""
    theirs = np.vectorize(lambda device: device.slice_index, otypes=[int])(mesh)
    ours = np.vectorize(lambda device: device.slice_index, otypes=[int])(
        np.array(sorted(mesh.ravel(), key=lambda device: device.id), dtype=object).reshape(shape))
    for axis, words in enumerate((["stage"], ["data", "fsdp", "expert"], ["context"], ["tensor_sequence"])):
        found, expected = spans(theirs, [names.index(word) for word in words]), spans(ours, [axis])
        assert found == expected, "%s: groups on %d nodes, not %d" % (words[0], found, expected)


def recompute(config, asked):
    """What is kept by name (layers/nnx_decoders.py, get_remat_policy): a policy that is none keeps layers' inputs. Of
    experts that are made again whole it means nothing whether their activations are."""
    if config.remat_policy in (None, "none", "full"):
        return {"recompute": "full", "recompute_method": "uniform", "recompute_layers": 1, "recompute_modules": []}
    assert config.remat_policy == "custom", config.remat_policy
    kept, experts = set(config.tensors_on_device), config.num_experts > 1
    assert {"decoder_layer_input", "query_proj", "key_proj", "value_proj", "out_proj"} <= kept and \
        not config.tensors_to_offload
    wide = {"moe_mlpwi_0", "moe_mlpwi_1", "moe_mlpwo"} if experts else \
        {"mlpwi", "mlpwo"} if len(config.mlp_activations) == 1 else {"mlpwi_0", "mlpwi_1", "mlpwo"}
    assert wide <= kept or not wide & kept
    modules = [word for word, again in (("core_attn", "context" not in kept), ("layernorm", True),
                                        ("mlp", not experts and not wide <= kept),
                                        ("moe", experts and not wide <= kept),
                                        ("moe_act", experts and (wide <= kept or "moe_act" in asked))) if again]
    return {"recompute": "selective", "recompute_method": "none", "recompute_layers": 0, "recompute_modules": modules}


def kernels(config, launch):
    """cuDNN's kernels take 16 bits. What JAX makes products of fp32 in, in MaxText's layers and elsewhere."""
    wide, precision = config.dtype.name == "float32", config.matmul_precision.value
    assert config.attention in (("dot_product",) if wide else ("cudnn_flash_te", "dot_product")), config.attention
    assert precision in (("high", "highest") if wide else ("default",)), precision
    assert ("JAX_DEFAULT_MATMUL_PRECISION=highest" in launch) == (precision == "highest")
    narrow = {"": DTYPES[config.dtype.name], "te_nvfp4": "fp4"}.get(config.quantization or "", "fp8")
    return {"fused_attention": config.attention == "cudnn_flash_te", "products": "tf32" if precision == "high" else narrow}


def model(config):
    experts, learned = config.num_experts > 1, config.trainable_position_size > 0
    return {
        "layers": config.num_decoder_layers, "hidden": config.emb_dim, "heads": config.num_query_heads,
        "kv_heads": config.num_kv_heads, "ffn": 0 if experts else config.mlp_dim,
        "expert_ffn": config.moe_mlp_dim if experts else 0, "experts": config.num_experts if experts else 0,
        "experts_per_token": config.num_experts_per_tok if experts else 0, "vocab": config.vocab_size,
        "tied": config.logits_via_embedding, "rotary_base": 0 if learned else config.rope_max_timescale,
        "norm_epsilon": config.normalization_layer_epsilon, "balance_loss": config.load_balance_loss_weight,
        "dropout": config.enable_dropout and config.dropout_rate > 0, "rmsnorm": config.decoder_block.value != "gpt3",
        "mtp": config.mtp_num_layers,
    }


def resolve(export, plan):
    launch = export["launch"]
    nodes, world = int((re.findall(r"NNODES=(\d+)", launch) or ["1"])[0]), plan["meaning"]["world"]
    devices = [Device(i, i * nodes // world) for i in range(world)]
    config = load(export["text"], devices)
    array = grid(config, devices, nodes)
    mesh = dict(zip(config.mesh_axes, array.shape))
    tp, pp, cp, ep = mesh["tensor_sequence"], mesh["stage"], mesh["context"], mesh["expert"]
    dp = mesh["data"] * mesh["fsdp"] * ep
    assert math.prod(mesh.values()) == dp * tp * pp * cp
    check_places(array, list(config.mesh_axes), (pp, dp, cp, tp))
    micro, repeats = (config.num_pipeline_microbatches, config.num_pipeline_repeats) if pp > 1 else (1, 1)
    divided = mesh["fsdp"] * cp * ep > 1
    assert config.micro_batch_size_to_train_on % (micro * dp) == 0
    assert not config.packing and config.weight_dtype == "float32"
    assert config.emb_dim % (mesh["fsdp"] * cp * ep) == 0, "weights in unequal parts"
    assert not (config.quantization and config.num_experts > 1), "sparse_matmul has no such quantization"
    found = {
        "world": math.prod(mesh.values()), "tp": tp, "pp": pp, "vpp": repeats, "cp": cp, "dp": dp, "ep": ep,
        "micro_batch": config.micro_batch_size_to_train_on // (micro * dp),
        "global_batch": config.global_batch_size_to_train_on, "seq": config.max_target_length,
        "micro_batches": config.gradient_accumulation_steps * micro, "sequence_parallel": tp > 1,
        "cp_comm": "none" if cp == 1 else {"ring": "p2p"}.get(config.context_parallel_strategy,
                                                            config.context_parallel_strategy),
        "schedule": "none" if pp == 1 else "gpipe" if repeats == 1 else "looped-bfs",
        "stages": [config.num_layers_per_pipeline_stage if pp > 1 else config.num_decoder_layers] * (pp * repeats),
        "zero": 3 if divided else int(config.shard_optimizer_over_data), "copies": mesh["data"] if divided else 1,
        "overlap_gradients": "xla_gpu_pipeline_reduce_scatter=on" in launch,
        "overlap_parameters": "xla_gpu_pipeline_all_gather=on" in launch,
        "precision": DTYPES[config.dtype.name], "fp8_recipe": RECIPES[config.quantization or ""],
        "optimizer": config.opt_type.value, "momentum": 0, "offload_optimizer": config.optimizer_memory_host_offload,
        "gradients_fp32": config.grad_dtype == "float32",
    }
    if ep > 1:
        found["etp"] = tp
    found.update(kernels(config, launch))
    found.update(recompute(config, plan["meaning"]["recompute_modules"]))
    found.update(model(config))
    return found
