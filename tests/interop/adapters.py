"""Parameters of adapters: ours beside those that PEFT makes trainable in the default model of each kind, built without
memory (torch's meta device).

    adapters.py FOLDER PROGRAM

FOLDER holds configurations, as registry.py leaves them there; PROGRAM is tdp-sim. Prints a table; the exit status is 1
where a count is not equal.
"""
import json
import os
import subprocess
import sys
import warnings

import peft
import torch
import transformers

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()

RANK = 16
ALL = "arcee biogpt cohere exaone4 gemma gemma2 gemma3_text gpt_neo granite helium hyperclovax llama minicpm3 mistral " \
      "mt5 olmo2 opt qwen2 qwen3 seed_oss smollm3 stablelm starcoder2 t5 umt5 xglm youtu " \
      "apertus bart blenderbot gemma4_unified_text lfm2 longt5 m2m_100 marian mbart olmo pegasus"
LATENT = "q_a_proj q_b_proj kv_a_proj_with_mqa kv_b_proj o_proj"
ATTENTION = "q_proj k_proj v_proj o_proj"
# Of others: PEFT's names, and ours where Megatron's stand for fused matrices.
SOME = [("bloom", "query_key_value", "qkv"), ("mpt", "Wqkv out_proj", "qkv proj"),
        ("gpt_neox", "query_key_value dense dense_h_to_4h dense_4h_to_h", "qkv proj fc1 fc2"),
        ("mixtral", ATTENTION, None), ("qwen3_moe", "q_proj v_proj", None), ("qwen3_next", ATTENTION, None),
        ("deepseek_v3", LATENT, None)]


def theirs(kind, targets):
    config = transformers.AutoConfig.for_model(kind)
    auto = transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForCausalLM
    with torch.device("meta"):
        model = peft.get_peft_model(auto.from_config(config), peft.LoraConfig(r=RANK, target_modules=targets))
    return model.get_nb_trainable_parameters()[0]


def ours(program, folder, kind, adapter):
    command = [program, "--model", os.path.join(folder, kind + ".json"), "--cluster", "dgx-a100-80gb", "--plan",
               os.path.join(folder, "plan.json"), "--adapter", adapter, "--json"]
    answer = subprocess.run(command, capture_output=True, text=True)
    return json.loads(answer.stdout)["trained_parameters"] if answer.returncode == 0 else answer.stderr.strip()


def main():
    folder, program = sys.argv[1:]
    with open(os.path.join(folder, "plan.json"), "w") as file:
        json.dump({"gpus": 1, "global_batch_size": 1, "micro_batch_size": 1, "seq_length": 128,
                   "framework": "fsdp-2024"}, file)
    failed = 0
    print("peft %s, transformers %s, rank %d\n" % (peft.__version__, transformers.__version__, RANK))
    print("| model | targets | trained | PEFT |\n|---|---|---|---|")
    for kind, names, own in [(kind, None, None) for kind in ALL.split()] + SOME:
        targets = "" if names is None else ",targets=" + ",".join((own or names).split())
        count = ours(program, folder, kind, "lora:r=%d%s" % (RANK, targets))
        expected = theirs(kind, names.split() if names else "all-linear")
        failed += count != expected
        print("| %s | %s | %s | %s |" % (kind, own or names or "all-linear", count, expected), flush=True)
    return 1 if failed else 0


sys.exit(main())
