# A reference page in Markdown as a man page of section 5.
#
#   awk -v name=tdp-model -v version=0.1.0 [-v from=HEADING] [-v until=HEADING] -f page.awk PAGE.md
#
# `from` and `until` are second-level headings: where the page begins, and the one that it ends before. A row of a table
# becomes an entry below its first cell.

function plain(text) {
  gsub(/\\\|/, "\001", text)
  gsub(/\\/, "\\e", text)
  gsub(/\001/, "|", text)
  gsub(/-/, "\\-", text)
  return text
}

# Links without their targets, code and bold in bold.
function inline(text,   out, at) {
  text = plain(text)
  while (match(text, /\[[^]]*\]\([^)]*\)/)) {
    at = substr(text, RSTART + 1, index(substr(text, RSTART), "](") - 2)
    text = substr(text, 1, RSTART - 1) at substr(text, RSTART + RLENGTH)
  }
  while (match(text, /`[^`]*`|\*\*[^*]*\*\*/)) {
    at = substr(text, RSTART, RLENGTH)
    gsub(/`|\*\*/, "", at)
    out = out substr(text, 1, RSTART - 1) "\\fB" at "\\fR"
    text = substr(text, RSTART + RLENGTH)
  }
  return out text
}

function put(text) {
  print (text ~ /^[.']/ ? "\\&" : "") text
}

function cells(line, out,   n, i, parts) {
  gsub(/\\\|/, "\001", line)
  n = split(line, parts, /\|/)
  for (i = 2; i < n; i++) {
    gsub(/^ +| +$/, "", parts[i])
    gsub(/\001/, "\\|", parts[i])
    out[i - 1] = parts[i]
  }
  return n - 2
}

# The unit or the values, the meaning, then the others with their titles.
function entry(line,   row, n, i, before, meaning, behind) {
  n = cells(line, row)
  for (i = 2; i <= n; i++)
    if (row[i] == "" || titles[i] == "short")
      continue
    else if (titles[i] == "unit" || titles[i] == "values")
      before = row[i]
    else if (titles[i] == "meaning" || titles[i] == "says")
      meaning = row[i]
    else
      behind = behind "; " titles[i] " " row[i]
  print ".TP"
  put(inline(row[1]) (row[short] == "" ? "" : " (" inline(row[short]) ")"))
  before = before (before != "" && meaning != "" ? ": " : "") meaning
  if (before behind != "")
    put(inline(before (before == "" ? substr(behind, 3) : behind)) ".")
}

BEGIN {
  what["tdp-model"] = "file that describes a model"
  what["tdp-cluster"] = "files that describe a cluster, its servers, GPUs, kernels and links"
  what["tdp-plan"] = "file that says how a model is trained"
  what["tdp-framework"] = "file that describes a generation of training software"
  what["tdp-cases"] = "file of measured training runs"
  printf ".TH %s 5 \"\" \"tdp %s\" \"File formats\"\n.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n", plain(toupper(name)), version, plain(name), what[name]
  shown = from == ""
  headed = 1
}

/^## / {
  if (substr($0, 4) == until)
    exit
  shown = shown || substr($0, 4) == from
}

!shown || /^# / || /^<!--/ || (from != "" && substr($0, 4) == from) { next }

/^```/ {
  code = !code
  print code ? (headed ? "" : ".PP\n") ".RS 4\n.nf" : ".fi\n.RE"
  blank = headed = 0
  next
}
code { put(plain($0)); next }
/^\|[-:| ]+\|$/ { next }
/^\|/ && !table {
  table = 1
  split("", titles)
  short = 0
  n = cells($0, titles)
  for (i = 1; i <= n; i++)
    if (titles[i] == "short")
      short = i
  next
}
/^\|/ { entry($0); blank = 1; headed = 0; next }
{ table = 0 }
/^## / { print ".SH " toupper(inline(substr($0, 4))); headed = 1; next }
/^### / { print ".SS " inline(substr($0, 5)); headed = 1; next }
/^- / { print ".IP \\(bu 2"; put(inline(substr($0, 3))); blank = headed = 0; next }
/^$/ { blank = 1; next }
{
  if (blank && !headed)
    print ".PP"
  blank = headed = 0
  sub(/^ +/, "")
  put(inline($0))
}

END {
  printf ".SH SEE ALSO\n.BR tdp\\-plan (1),\n.BR tdp\\-sim (1),\n.BR tdp\\-validate (1)\n"
}
