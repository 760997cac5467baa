"""torch.distributed.pipelining: its reader of schedules, and its own checks of them."""
import csv
import io

import torch
from torch.distributed.pipelining.schedules import _Action, _validate_schedule


def name():
    return "torch %s schedules" % torch.__version__.split("+")[0]


def resolve(export, plan):
    rows = [[_Action.from_str(cell) for cell in row] for row in csv.reader(io.StringIO(export["text"]))]
    actions = [action for row in rows for action in row if action is not None]
    stages, micro = 1 + max(a.stage_index for a in actions), 1 + max(a.microbatch_index for a in actions)
    order = {rank: row for rank, row in enumerate(rows)}
    where = _validate_schedule(order, len(rows), stages, micro)
    meaning = plan["meaning"]
    assert len(where) == stages
    return {"pp": len(rows), "micro_batches": micro, "vpp": stages // len(rows),
            "schedule": meaning["schedule"]}
