"""nanotron: its reader of configurations (dacite, strict) and the checks of their classes."""
import os
import sys
import tempfile

if os.environ.get("TDP_NANOTRON"):
    sys.path.insert(0, os.path.join(os.environ["TDP_NANOTRON"], "src"))

from script import stand_ins  # noqa: E402

stand_ins("flash_attn", "ring_flash_attn", "functorch", "grouped_gemm", "s3fs", "boto3")

from nanotron import __version__  # noqa: E402
from nanotron.config import get_config_from_file  # noqa: E402


def name():
    return "nanotron " + __version__


def resolve(export, plan):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(export["text"])
        file.flush()
        config = get_config_from_file(file.name)
    p, t, m, o = config.parallelism, config.tokens, config.model.model_config, config.optimizer
    return {
        "world": p.tp * p.pp * p.dp * p.context_parallel_size, "tp": p.tp, "pp": p.pp, "dp": p.dp, "vpp": 1,
        "cp": p.context_parallel_size, "ep": p.expert_parallel_size, "micro_batch": t.micro_batch_size,
        "micro_batches": t.batch_accumulation_per_replica, "seq": t.sequence_length,
        "global_batch": t.micro_batch_size * t.batch_accumulation_per_replica * p.dp,
        "sequence_parallel": p.tp_mode.name == "REDUCE_SCATTER",
        "schedule": "none" if p.pp == 1 else {"OneForwardOneBackwardPipelineEngine": "1f1b",
                                              "AllForwardAllBackwardPipelineEngine": "gpipe"}[type(p.pp_engine).__name__],
        "recompute": "full" if p.recompute_layer else "none", "zero": o.zero_stage,
        "precision": {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}[str(config.model.dtype).split(".")[-1]],
        "gradients_fp32": o.accumulate_grad_in_fp32, "optimizer": o.optimizer_factory.name.lower(),
        "layers": m.num_hidden_layers, "hidden": m.hidden_size, "heads": m.num_attention_heads,
        "kv_heads": m.num_key_value_heads, "ffn": m.intermediate_size, "vocab": m.vocab_size,
        "tied": m.tie_word_embeddings, "rotary_base": m.rope_theta, "norm_epsilon": m.rms_norm_eps,
    }
