"""Compares what parsers resolved with what plans mean, and prints the table.

    table.py PLANS.json OUT.json... [--verbose] [--record FILE]

A field that differs is excused where a loss, or a note of the file, names its key. The exit status is 1 where a parser
refused a file, or a field differs without excuse. --record writes plans that agree, with what was resolved, for
tests/test_interop.c; of a target with fewer than RECORDED of them it keeps those that the file has, which that test reads
again.
"""
import json
import sys

RECORDED = 6

KEYS = {
    "tp": "tensor_model_parallel_size", "pp": "pipeline_model_parallel_size", "cp": "context_parallel_size",
    "vpp": "pipeline_schedule", "ep": "expert_model_parallel_size", "etp": "expert_tensor_parallel_size",
    "dp": "data_parallel_size", "micro_batch": "micro_batch_size", "global_batch": "global_batch_size",
    "micro_batches": "data_parallel_size", "seq": "seq_length", "cp_comm": "cp_comm_type",
    "schedule": "pipeline_schedule", "stages": "layer_split", "recompute": "recompute_granularity",
    "recompute_layers": "recompute_num_layers", "zero": "zero_stage", "kept": "zero_optimization", "copies": "shard_group_size",
    "overlap_gradients": "overlap", "overlap_parameters": "overlap", "overlap_pipeline": "overlap",
    "fused_attention": "attention", "products": "precision", "momentum": "sgd_momentum", "bf16_start": "num_layers_at_start_in_bf16", "bf16_end": "num_layers_at_end_in_bf16", "offload_optimizer": "offload", "gradients_fp32": "framework",
    "rotary_base": "model", "norm_epsilon": "model", "balance_loss": "model", "vocab": "model", "tied": "model",
    "layers": "model", "hidden": "model", "heads": "model", "kv_heads": "model", "ffn": "model", "experts": "model",
    "experts_per_token": "model", "expert_groups": "model", "groups_per_token": "model", "expert_ffn": "model", "dropout": "model", "rmsnorm": "model", "mtp": "model",
}
# What another key's loss changes too.
FOLLOWS = {
    "stages": ("pipeline_schedule", "virtual_pipeline_model_parallel_size"), "recompute_method": ("recompute_granularity",),
    "recompute_layers": ("recompute_granularity", "recompute_method"), "recompute_modules": ("recompute_granularity",),
    "micro_batches": ("global_batch_size", "context_parallel_size"), "momentum": ("optimizer",),
    "fp8_recipe": ("precision",), "bf16_start": ("precision",), "bf16_end": ("precision",), "fp8_param_gather": ("precision", "fp8_recipe", "zero_stage"), "overlap_pipeline": ("pipeline_schedule", "virtual_pipeline_model_parallel_size"),
    "zero": ("expert_tensor_parallel_size",), "kept": ("zero_stage", "zero_optimization: reshard_after_forward"), "overlap_gradients": ("zero_stage", "expert_tensor_parallel_size"),
    "overlap_parameters": ("zero_stage", "expert_tensor_parallel_size"),
    "vpp": ("virtual_pipeline_model_parallel_size",), "schedule": ("virtual_pipeline_model_parallel_size",),
    "dp": ("context_parallel_size",), "cp_comm": ("context_parallel_size",), "gradients_fp32": ("precision", "optimizer"),
    "etp": ("tensor_model_parallel_size",), "copies": ("zero_stage",),
}


def said(export):
    """Keys that losses and notes name."""
    notes = [line[4:] for line in export["text"].split("\n") if line.startswith("# - ")]
    return {line.split(":")[0] for line in export["losses"] + notes}


def excused(field, keys):
    return not keys.isdisjoint((KEYS.get(field, field),) + FOLLOWS.get(field, ()))


def usual(field, value):
    if field == "optimizer":
        return {"adamw": "adam"}.get(value, value)  # alike in states and work
    return value


def same(field, expected, found):
    if isinstance(expected, float) or isinstance(found, float):
        return abs(expected - found) <= 1e-9 + 1e-6 * abs(expected)
    return expected == found


def meant(resolved):
    """One rank has nothing to divide, and nothing to sum."""
    tp, experts = resolved.get("tp"), resolved.get("ep", 1) * resolved.get("etp", resolved.get("tp", 1))
    if resolved.get("dp", 2) * resolved.get("cp", 1) > 1 or experts != tp:
        return resolved
    alone = {"zero": 0, "kept": False, "overlap_gradients": False, "overlap_parameters": False}
    return {key: alone.get(key, value) for key, value in resolved.items()}


def differences(plan, export, resolved):
    keys = said(export)
    unexcused, lost = [], []
    for field, found in meant(resolved).items():
        expected = usual(field, plan["meaning"][field])
        if not same(field, expected, usual(field, found)):
            (lost if excused(field, keys) else unexcused).append("%s: %s, not %s" % (field, found, expected))
    return unexcused, lost


def count(entries, target):
    return sum(entry["target"] == target for entry in entries)


def record(path, kept):
    with open(path) as file:
        old = json.load(file)
    for entry in old:
        same_plan = any(all(entry[k] == e[k] for k in ("target", "model", "plan")) for e in kept)
        if not same_plan and count(kept, entry["target"]) < RECORDED:
            kept.append(entry)
    with open(path, "w") as file:
        json.dump(kept, file, indent=1)
        file.write("\n")


def main():
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    verbose, wants_record = "--verbose" in sys.argv, "--record" in sys.argv
    path = words.pop() if wants_record else None
    plans = json.load(open(words[0]))
    bad, kept = 0, []
    print("| target | plans | exported | parsed | same meaning | lossless | of these parsed and same |\n"
          "|---|---|---|---|---|---|---|")
    for out in words[1:]:
        answers = json.load(open(out))
        target = answers["target"]
        asked = sum(target in plan["exports"] for plan in plans)
        parsed = agrees = lossless = good = 0
        for answer in answers["answers"]:
            plan = plans[answer["number"]]
            export = plan["exports"][target]
            whole = not export["losses"]
            lossless += whole
            unexcused, lost = ([answer["error"]], []) if "error" in answer else differences(plan, export,
                                                                                              answer["resolved"])
            parsed += "resolved" in answer
            agrees += not unexcused
            good += whole and not unexcused
            bad += bool(unexcused)
            if unexcused and verbose:
                print("  %s plan %d, %s, %s\n    %s" % (target, answer["number"], plan["model"], plan["plan"],
                                                       "\n    ".join(unexcused)), file=sys.stderr)
            if not unexcused and not lost and whole and count(kept, target) < RECORDED:
                kept.append({"target": target, "parser": answers["name"], "model": plan["model"], "plan": plan["plan"],
                             "sha256": export["sha256"], "resolved": meant(answer["resolved"])})
        print("| %s | %d | %d | %d | %d | %d | %d |" % (answers["name"], asked, len(answers["answers"]), parsed, agrees,
                                                       lossless, good))
    if path:
        record(path, kept)
    return 1 if bad else 0


sys.exit(main())
