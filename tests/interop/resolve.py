"""Feeds exports to a target's own parser and writes what it resolved.

    resolve.py TARGET PLANS.json OUT.json

PLANS.json is what build/bench/interop prints. OUT.json has an object for each plan with such an export: its number, and
either the resolved fields (under the names of tests/interop.c) or the error with which the parser refused it. Each
target is a module of_TARGET.py with `names`, what it is and of which version, and resolve(export, plan), the fields.
Where a tool is not installed, its module raises Absent with the word of the user who can mend it.
"""
import importlib
import json
import os
import sys
import traceback


def main():
    target, plans, out = sys.argv[1:]
    sys.argv = sys.argv[:1]
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    with open(plans) as file:
        plans = json.load(file)
    module = importlib.import_module("of_" + target.replace("-", "_"))
    answers = []
    for number, plan in enumerate(plans):
        export = plan["exports"].get(target)
        if not export or "text" not in export:
            continue
        answer = {"number": number}
        try:
            answer["resolved"] = module.resolve(export, plan)
        except (Exception, SystemExit) as error:  # a parser's refusal is an answer
            answer["error"] = "%s: %s" % (type(error).__name__, str(error).strip()[:600])
            if os.environ.get("TDP_INTEROP_TRACE"):
                traceback.print_exc()
        answers.append(answer)
    with open(out, "w") as file:
        json.dump({"target": target, "name": module.name(), "answers": answers}, file)


main()
