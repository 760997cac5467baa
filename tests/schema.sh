#!/bin/sh
# Documents are as docs/schema/tdp.json says: all golden ones, and the schema refuses what is not.
set -u

for python in /usr/bin/python3 python3 none; do
  "$python" -W ignore -c 'import jsonschema' 2>/dev/null && break
done
if [ "$python" = none ]; then
  echo "skip schema: python3-jsonschema is not installed"
  exit
fi
"$python" - <<'END'
import copy, glob, json, sys, warnings
import jsonschema

warnings.simplefilter("ignore")
schema = json.load(open("docs/schema/tdp.json"))
forms = {name for name in schema["$defs"] if name.startswith("tdp-")}
Validator = jsonschema.Draft202012Validator
Validator.check_schema(schema)


def problems(document):
    form = dict(schema["$defs"].get(document["schema"], {"not": {}}), **{"$defs": schema["$defs"]})
    return [f"{'.'.join(map(str, e.path))}: {e.message[:120]}" for e in Validator(form).iter_errors(document)]


seen, explained = {}, set()
for path in sorted(glob.glob("tests/golden/*.out")):
    text = open(path, encoding="utf-8").read()
    if "--json" not in open(path[:-4] + ".cmd", encoding="utf-8").read() or text[:1] not in ("{", "["):
        continue
    while text.strip(): # a plan file may stand before the document
        whole, end = json.JSONDecoder().raw_decode(text)
        text = text[end:].lstrip()
    documents = whole if isinstance(whole, list) else [whole]
    if not documents or any("schema" not in each for each in documents):
        print(f"not ok schema-{path}: says no schema")
        continue
    for document in documents:
        seen.setdefault(document["schema"], document)
        explained |= {document["schema"]} if "explain" in document else set()
    found = [problem for document in documents for problem in problems(document)]
    found += [] if Validator(schema).is_valid(whole) else ["none of the documents of the schema"]
    print(f"not ok schema-{path}: {found[0]}" if found else f"ok schema-{path}")

wrong = {
    "a share above 1": lambda d: d["plans"][0].update(fit_probability=1.2),
    "no plan": lambda d: d.update(plans=[]),
    "a time below 0": lambda d: d["plans"][0].update(iteration_s=-1),
    "a text for a number": lambda d: d["plans"][0].update(peak_memory_bytes="1 GiB"),
    "no question": lambda d: d.pop("question"),
    "another form": lambda d: d.update(schema="tdp-plan-0"),
}
for name, spoil in wrong.items():
    document = copy.deepcopy(seen["tdp-plan-1"])
    spoil(document)
    print(f"ok schema refuses {name}" if problems(document) else f"not ok schema refuses {name}: accepted")
for form in sorted({"tdp-plan-1", "tdp-sim-1"} - explained):
    print(f"not ok schema-{form}: no golden document of it has what --explain says")
for form in sorted(forms - set(seen) - {"tdp-run-1"}): # what a run measures is in no golden file
    print(f"not ok schema-{form}: no golden document has this form")
END
