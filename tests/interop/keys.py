"""Keys that we read, each left out of a configuration, each number twice as large, and each yes or no the other way:
our count of parameters beside that of transformers' class, for the default configuration of every model with a language
head, four layers deep; and a small model of each kind whose file says its usual sizes alone.

    keys.py FOLDER PROGRAM [KIND...]

PROGRAM is build/bench/registry; FOLDER gets the configurations. Prints what is neither equal nor refused, and ends with
status 1 where a count is another or a file is accepted that the class refuses.
"""
import json
import os
import re
import subprocess
import sys

import torch
import transformers

from registry import numbers, registry

HERE = os.path.dirname(os.path.abspath(__file__))
# Files of these kinds say for their head what version 5 of their class does not follow: checkpoints hold one apart.
EXCEPT = {(kind, "tie_word_embeddings") for kind in ("longt5", "mt5", "t5", "umt5")}
# That of bailing_hybrid follows from head_dim, of which what is saved is another.
EXCEPT.add(("bailing_hybrid", "linear_head_dim"))
# And of hrm_text the layers of a stack are what num_hidden_layers says, of which what is saved is those of all cycles.
EXCEPT.add(("hrm_text", "num_layers_per_stack"))
# What kinds of four layers say besides.
OF_FOUR = {"dory": {"n_input_layers": 1, "n_output_layers": 1},
           "zamba2": {"layers_block_type": ["linear_attention", "hybrid"] * 2}}
DEPTHS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers", "decoder_layers",
          "num_decoder_layers")

SMALL = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 128, "max_position_embeddings": 256, "d_model": 64, "n_embd": 64,
         "n_layer": 4, "n_head": 4, "n_layers": 4, "n_heads": 4, "n_positions": 256, "n_ctx": 256, "ffn_dim": 96,
         "d_ff": 96, "num_layers": 4, "num_heads": 4, "encoder_layers": 3, "decoder_layers": 2,
         "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96,
         "num_experts": 8, "n_routed_experts": 8, "num_local_experts": 8, "num_experts_per_tok": 2,
         "moe_num_experts": 8}


def read_keys(kind):
    """Keys of RECIPE_INT and the like in the tables of the reader."""
    found = set()
    for name in ("huggingface", "huggingface_branches", "huggingface_loops", "huggingface_sizes",
                 "huggingface_tables"):
        with open(os.path.join(HERE, "../../src/model/%s.c" % name)) as file:
            for spellings in re.findall(r'(?:RECIPE|LOOP)_%s\(((?:\s*"[\w ]+")+)' % kind, file.read()):
                found.update(re.findall(r"\w+", spellings))
    return sorted(found)


def shallow(kind):
    """The configuration, and that of its decoder of text."""
    config = transformers.AutoConfig.for_model(kind)
    text = getattr(config, "text_config", None)
    if text is not None:
        config, kind = text, text.model_type
    depths = {key: 4 for key in DEPTHS if isinstance(getattr(config, key, None), int)}
    if (getattr(config, "num_kv_shared_layers", None) or 0) >= 4:  # of more layers than these
        depths["num_kv_shared_layers"] = 1
    depths.update(OF_FOUR.get(kind, {}))
    return kind, depths, type(config)(**depths)


def count(kind, names, keys):
    config = transformers.AutoConfig.for_model(kind, **keys)
    with torch.device("meta"):
        if isinstance(names, str) and hasattr(transformers, names):
            return numbers(getattr(transformers, names)(config))
        return numbers(transformers.AutoModelForCausalLM.from_config(config))


def small(config):
    """Its usual sizes, those of them that the kind has."""
    others = getattr(type(config), "attribute_map", {})
    keys = {key: value for key, value in SMALL.items() if hasattr(config, key) and key not in others}
    return dict(keys, pad_token_id=0) if isinstance(getattr(config, "pad_token_id", None), int) else keys


def changes(made, depths):
    """What is left out, and what is changed: (words, keys of the file, keys set)."""
    config = made(**depths)
    for key in read_keys("(?:INT|REAL|BOOL|STRING)"):
        if key in config and key not in DEPTHS and (config["model_type"], key) not in EXCEPT:
            yield "without " + key, {k: v for k, v in config.items() if k != key}, None
    for key in read_keys("INT"):
        if key in config and key not in DEPTHS and type(config[key]) is int and config[key] > 0:
            twice = {key: 2 * config[key]}
            try:
                yield "%s: %d" % (key, twice[key]), made(**depths, **twice), twice
            except Exception:  # the class refuses it
                continue
    for key in read_keys("BOOL"):
        if (config["model_type"], key) in EXCEPT:
            continue
        value = not config.get(key, False)
        yield "%s: %s" % (key, json.dumps(value)), dict(config, **{key: value}), {key: value}


def files(kind, names, folder):
    """Paths of changed configurations and the class's counts of them."""
    kind, depths, config = shallow(kind)
    names = names if isinstance(names, str) else names[0]

    def made(**keys):
        return dict(type(config)(**keys).to_dict(), model_type=kind)

    usual, sizes = count(kind, names, depths), small(config)
    cases = [("as it is", made(**depths), None), ("small", dict(sizes, model_type=kind), sizes), *changes(made, depths)]
    for number, (words, file_keys, keys) in enumerate(cases):
        try:
            theirs = usual if keys is None else count(kind, names, keys if words == "small" else dict(depths, **keys))
        except Exception:  # the class refuses it
            theirs = None
        path = os.path.join(folder, "%s-%d.json" % (kind, number))
        with open(path, "w") as file:
            json.dump(file_keys, file)
        yield path, words, theirs


def main():
    folder, program, *kinds = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    found = {"equal": 0, "refused": 0, "accepted though the class refuses": 0, "another count": 0}
    for kind, names in sorted(registry().items()):
        if kinds and kind not in kinds:
            continue
        try:
            cases = list(files(kind, names, folder))
        except Exception:  # no model comes of the default configuration
            continue
        answers = subprocess.run([program, *[path for path, _, _ in cases]], capture_output=True, text=True).stdout
        answers = [line.split(" ", 1)[1] for line in answers.strip().split("\n")]
        if len(answers) != len(cases):
            sys.exit("%s: %d answers to %d files" % (kind, len(answers), len(cases)))
        if answers[0].startswith("!"):
            continue
        for (path, words, theirs), answer in zip(cases, answers):
            title = "refused" if answer.startswith("!") else "equal" if theirs == int(answer) else \
                "another count" if theirs else "accepted though the class refuses"
            found[title] += 1
            if title in ("another count", "accepted though the class refuses"):
                print("%s: %s: %s, not %s" % (kind, words, answer, theirs), flush=True)
    print("\ntransformers %s: %s" % (transformers.__version__, json.dumps(found)))
    return 1 if found["another count"] or found["accepted though the class refuses"] else 0


sys.exit(main())
