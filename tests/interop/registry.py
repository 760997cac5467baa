"""Default configurations of every model with a language head in transformers' registry: our count of parameters beside
that of the model built without memory (torch's meta device).

    registry.py FOLDER PROGRAM

PROGRAM is build/bench/registry; FOLDER gets the configurations. Prints a table; the exit status is 1 where a count is
neither equal nor refused.
"""
import json
import os
import subprocess
import sys
import warnings

import torch
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, \
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()


def numbers(model):
    """Parameters, each once, and what routers correct their choice by, which checkpoints hold and no gradient reaches;
    but of towers that a class has inside of its decoder of text, and of experts that do nothing, rows of one
    matrix (LongCat-Flash) that no token reaches."""
    held = dict(model.named_parameters())
    idle = sum(p[held[name[:-len("gate_up_proj")] + "down_proj"].shape[0]:].numel() for name, p in held.items()
               if name.endswith("experts.gate_up_proj"))
    inside = {id(p) for name, p in model.named_parameters() if ".embed_tokens_extend." in name}
    names = ("e_score_correction_bias", ".expert_bias")
    corrections = [b for name, b in model.named_buffers() if name.endswith(names)]
    return sum(p.numel() for p in {id(p): p for p in model.parameters() if id(p) not in inside}.values()) + \
        sum(b.numel() for b in corrections) - idle


def count(kind, names):
    """Numbers of a model and its configuration; of one with towers those of its decoder of text. Or why there is none."""
    try:
        config = transformers.AutoConfig.for_model(kind)
        text = getattr(config, "text_config", None)
        with torch.device("meta"):
            model = transformers.AutoModelForCausalLM.from_config(text) if text is not None else \
                getattr(transformers, names if isinstance(names, str) else names[0])(config)
        return config, numbers(model)
    except Exception as error:  # the default configuration builds no model
        return None, "%s: %s" % (type(error).__name__, str(error).split("\n")[0][:80])


def ours(program, path):
    line = subprocess.run([program, path], capture_output=True, text=True).stdout.strip()
    return line[len(path) + 1:] if line else "! ended"


def reason(answer, path):
    """What is not understood, without the list of what would be."""
    text = answer[2:].replace(path + ": ", "")
    return text.split("expected one of those")[0].split(": one of ")[0].rstrip(": ")[:110] or "its kind"


def registry():
    """Classes of every model with a language head, by its kind."""
    return {**MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, **MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES}


def main():
    folder, program = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    rows = {"equal": [], "refused": [], "another count": [], "no default model": []}
    counts = {}
    for kind, names in sorted(registry().items()):
        config, theirs = count(kind, names)
        counts[kind] = theirs
        if config is None:
            rows["no default model"].append((kind, theirs))
            continue
        path = os.path.join(folder, kind + ".json")
        with open(path, "w") as file:
            json.dump(dict(config.to_dict(), model_type=kind), file)
        answer = ours(program, path)
        if answer.startswith("!"):
            rows["refused"].append((kind, reason(answer, path)))
        elif int(answer) == theirs:
            rows["equal"].append((kind, "{:,}".format(theirs)))
        else:
            rows["another count"].append((kind, "{:,}, not {:,}".format(int(answer), theirs)))
    with open(os.path.join(folder, "counts.txt"), "w") as file:
        file.writelines("%s %s\n" % pair for pair in counts.items())
    print("transformers %s, %d models\n\n| | models |\n|---|---|" % (transformers.__version__, len(counts)))
    for title, found in rows.items():
        print("| %s | %d |" % (title, len(found)))
    for title, found in rows.items():
        print("\n%s:\n" % title)
        for kind, text in found:
            print("- %s: %s" % (kind, text))
    return 1 if rows["another count"] else 0


if __name__ == "__main__":
    sys.exit(main())
