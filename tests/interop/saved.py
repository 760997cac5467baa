"""What autograd keeps of a LLaMA block with frozen weights and PEFT's adapters less than of one that is trained whole,
beside what docs/memory.md says. Exit status 1 where they differ.

Transformers' norms of single kernels keep the normed rows for their weights' gradient, which frozen ones do not need:
one more tensor of each of the two norms goes, which fused norms, as are meant here, never keep.
"""
import sys
import warnings

import peft
import torch
import transformers

warnings.filterwarnings("ignore")
H, F, S, R, BYTES = 256, 768, 64, 8, 4
ALL = "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj"
# Targets, and what goes: rows of h and of f, and r numbers of a token for each adapter, which come instead.
CASES = [("q_proj v_proj", 1, 1, 2), ("o_proj", 2, 1, 1), ("down_proj", 2, 0, 1), (ALL, 0, 0, 7)]


def kept(targets):
    config = transformers.LlamaConfig(hidden_size=H, intermediate_size=F, num_hidden_layers=1, num_attention_heads=4,
                                      num_key_value_heads=4, vocab_size=128, attn_implementation="sdpa")
    model = transformers.LlamaForCausalLM(config)
    if targets:
        model = peft.get_peft_model(model, peft.LoraConfig(r=R, target_modules=targets.split()))
    base = model.model.model if targets else model.model
    rows = torch.randn(1, S, H, requires_grad=True)
    turned = base.rotary_emb(rows, torch.arange(S)[None])
    others = {t.untyped_storage().data_ptr() for t in [*model.parameters(), *turned]}
    found = {}

    def pack(tensor):
        found[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = base.layers[0](rows, position_embeddings=turned)
    del out
    return sum(t.untyped_storage().nbytes() for at, t in found.items() if at not in others)


def main():
    whole, failed = kept(None), 0
    print("torch %s, transformers %s, peft %s\n" % (torch.__version__, transformers.__version__, peft.__version__))
    print("| targets | goes | said |\n|---|---|---|")
    for targets, hidden, width, adapters in CASES:
        goes = whole - kept(targets) - 2 * S * H * BYTES
        said = S * BYTES * (hidden * H + width * F - adapters * R)
        failed += goes != said
        print("| %s | %d | %d |" % (targets, goes, said))
    return 1 if failed else 0


sys.exit(main())
