"""Primus: its loader of experiments and its builder of arguments of a checkout (TDP_PRIMUS), then validate_args of the
Megatron-LM that it pins, of its third_party or of the history of a checkout (TDP_MEGATRON), and its own checks behind.

    of_primus.py FILE       writes how that Megatron-LM parses each flag that its exporter can say
"""
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

PRIMUS = Path(os.environ["TDP_PRIMUS"]).resolve()
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(PRIMUS)]


FOLDER = tempfile.TemporaryDirectory(prefix="megatron-")


def pinned():
    """The folder of its Megatron-LM."""
    own = PRIMUS / "third_party/Megatron-LM"
    if (own / "pretrain_gpt.py").exists():
        return str(own)
    lock = json.loads((PRIMUS / "primus/_thirdparty.lock").read_text())["third_party"]
    commit = next(entry["commit"] for entry in lock if entry["name"] == "Megatron-LM")
    archive = ["git", "-C", os.environ["TDP_MEGATRON"], "archive", commit]
    files = subprocess.run(archive, check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", FOLDER.name], input=files.stdout, check=True)
    return FOLDER.name


os.environ["TDP_MEGATRON"] = pinned()
os.environ["NVTE_ROCM_ENABLE_MXFP8"] = "1"  # runner/helpers/envs/base_env.sh

from of_megatron import fields  # noqa: E402
from script import arguments as arguments_of  # noqa: E402
import megatron.training.arguments as arguments  # noqa: E402
from primus.backends.megatron.argument_builder import _build_megatron_parser  # noqa: E402
from primus.backends.megatron.megatron_adapter import MegatronAdapter  # noqa: E402
from primus.backends.megatron.patches.args.rocm_arg_validation import validate_args_on_rocm  # noqa: E402
from primus.core.config.primus_config import get_module_config, load_primus_config  # noqa: E402
from primus.core.patches import run_patches  # noqa: E402
from primus.core.utils.module_utils import set_logging_rank  # noqa: E402
from primus.core.utils.yaml_utils import merge_namespace  # noqa: E402

set_logging_rank(1, 2)  # rank 0 writes a log

# Keys that may differ from what Megatron-LM parses of its own export without an effect on what a plan says: what is set
# where ranks start; placeholders (learning rate, data, evaluation); logs, checkpoints and what they need; numbers of
# kinds that are not chosen. num_query_groups belongs to group_query_attention, mscale_all_dim to a
# rotary_scaling_factor above 1, use_flash_attn to deterministic_mode.
OF_NO_MATTER = set("""
    local_rank lazy_mpu_init iterations_to_skip logging_level world_size rank inprocess_active_world_size
    lr_decay_style weight_decay override_opt_param_scheduler muon_momentum
    dataloader_type num_workers eval_interval eval_iters
    log_timers_to_tensorboard profile_ranks tensorboard_dir wandb_project wandb_exp_name wandb_save_dir
    async_save dist_ckpt_optim_fully_reshardable dist_ckpt_save_pre_mcore_014 exit_on_missing_checkpoint finetune
    save_interval replication_factor distributed_timeout_minutes rerun_mode manual_gc_eval manual_gc_interval
    num_query_groups mscale_all_dim use_flash_attn use_rotary_position_embeddings
    """.split())
OWN = {"model_type"}  # of Primus, not of Megatron-LM
OTHERWISE = {  # src/export/primus.c
    "flash": "fused", "hybrid_stack_spec": "mamba_stack_spec",
    "megatron.core.models.hybrid.hybrid_layer_specs": "megatron.core.models.mamba.mamba_layer_specs",
}
RENAMED = {"--cuda-graph-modules": "--cuda-graph-scope"}  # since core 0.16
OF_YARN = {"--rotary-scaling-factor": 1, "--yarn-original-max-position-embeddings": 1, "--yarn-beta-fast": 1,
           "--yarn-beta-slow": 1, "--mscale": 1, "--mscale-all-dim": 1, "--no-yarn-correction-range-round-to-int": 0}
OF_FSDP = {"--megatron-fsdp-main-params-dtype": 1, "--megatron-fsdp-main-grads-dtype": 1,
           "--megatron-fsdp-grad-comm-dtype": 1}  # since core 0.17
SPELLED = {"_StoreTrueAction": "true", "_StoreFalseAction": "false"}


class Strict(yaml.SafeLoader):
    """Without keys that are there twice."""

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), "a key twice: %s" % keys
        return super().construct_mapping(node, deep)


def name():
    version = subprocess.run(["git", "-C", str(PRIMUS), "describe", "--tags"], capture_output=True, text=True)
    return "Primus " + (version.stdout.strip().split("-")[0] or "v?")


def plain(value):
    if isinstance(value, (list, tuple)):
        values = [plain(item) for item in value]
        return values[0] if len(values) == 1 else values
    return OTHERWISE.get(getattr(value, "name", value), getattr(value, "name", value))


def same(found, value):
    """"1" is no number, and a number no switch."""
    return found == value and (type(found) is type(value) or (type(found), type(value)) == (int, float))


def without(words, flags):
    """Of the flags of a later core, which this Megatron-LM does not have."""
    left, words = [], list(words)
    while words:
        word = words.pop(0)
        if word in flags:
            del words[:flags[word]]
        else:
            left.append(word)
    return left


def without_yarn(words):
    """Of those of core 0.19: positions that are not scaled."""
    return ["rope" if word == "yarn" else word for word in without(words, OF_YARN)]


def check_arguments(a, overrides, plan):
    """Every override is an argument, and all of them are what Megatron-LM makes of the flags of its own export."""
    losses = {kind: set(plan["exports"][kind]["losses"]) for kind in ("megatron", "primus")}
    parser = _build_megatron_parser()
    parser.error = lambda message: sys.exit(message)
    words = without(arguments_of(plan["exports"]["megatron"]["text"])[2], OF_FSDP)
    if any("rope_scaling: yarn" in line for line in losses["primus"] - losses["megatron"]):
        words = without_yarn(words)
    theirs = vars(parser.parse_args([RENAMED.get(word, word) for word in words]))
    unknown = set(overrides) - set(theirs) - OWN
    assert not unknown, "left out without a word: %s" % sorted(unknown)
    lost = any(line.startswith("overlap: ") for line in losses["primus"] - losses["megatron"])
    for key, value in theirs.items():
        told = key in OF_NO_MATTER or lost and key == "overlap_grad_reduce"
        assert told or same(plain(getattr(a, key)), plain(value)), "%s: %r, not %r" % (key, getattr(a, key), value)


def resolve(export, plan):
    overrides = yaml.load(export["text"], Strict)["modules"]["pre_trainer"]["overrides"]
    words = export["launch"].split()
    nodes = int(words[words.index("-N") + 1]) if "-N" in words else 1
    gpus = int(words[0].split("=")[1])
    os.environ.update(WORLD_SIZE=str(nodes * gpus), RANK="0", LOCAL_RANK="0",
                      CUDA_DEVICE_MAX_CONNECTIONS="8" if overrides.get("use_megatron_fsdp") else "1")
    silent, sys.stdout = sys.stdout, open(os.devnull, "w")
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # it makes the folder of the experiment
        try:
            Path("experiment.yaml").write_text(export["text"])
            config = load_primus_config(Path("experiment.yaml"))
            module = get_module_config(config, "pre_trainer")
            a = MegatronAdapter().convert_config(module.params)
            run_patches(backend="megatron", phase="build_args", module_name="pre_trainer", stop_on_error=True,
                        extra={"backend_args": a, "primus_config": config, "module_config": module})
            check_arguments(a, overrides, plan)
            merge_namespace(a, module.params, allow_override=False, excepts=[])
            arguments.validate_args(a, {"tokenizer_type": "GPT2BPETokenizer"})
            validate_args_on_rocm(a)
        finally:
            os.chdir(here)
            sys.stdout = silent
    return fields(a, "gpt")


def write_flags(path):
    """A flag, the key and what the value is, a line."""
    exporter = HERE.parents[1] / "src/export"
    sources = "".join((exporter / file).read_text() for file in ("megatron.c", "megatron_model.c", "recompute.c"))
    options = _build_megatron_parser()._option_string_actions
    with open(path, "w") as file:
        for flag in sorted(set(re.findall(r"--[a-z][a-z0-9-]*", sources)) & set(options)):
            action = options[flag]
            kind = getattr(action.type, "__name__", "").replace("la_freq", "moe_freq")  # alike
            if kind not in ("tuple_type", "moe_freq_type"):
                several = action.nargs in ("+", "*") and isinstance(action.default, (list, type(None)))
                kind = "list" if several else SPELLED.get(type(action).__name__, "value")
            print(flag, action.dest, kind, file=file)


if __name__ == "__main__":
    write_flags(sys.argv[1])
