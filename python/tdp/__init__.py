"""Plans and predicts the training of transformers on GPU clusters.

>>> import tdp
>>> answer = tdp.plan(model="gpt3", cluster="dgx-h100", gpus=64)
>>> best = answer["plans"][0]
>>> best["plan"]["gpus"], best["fits"]
(64, True)

Answers are the documents that the programs print with --json; their forms stand in docs/schema/tdp.json.
"""
from __future__ import annotations

import ctypes
import json
import os
from pathlib import Path
from typing import Any, Iterable, Mapping, Union

__all__ = ["Error", "Infeasible", "InputError", "plan", "simulate", "sweep", "version"]

ABI = 1

#: A name of models/, hardware/ or plans/, a path, or the content of such a file.
Source = Union[str, Path, Mapping[str, Any]]


class Error(Exception):
    """Something failed; the message is one line."""


class InputError(Error):
    """The question makes no sense: the message names key, value and what was expected."""


class Infeasible(Error):
    """There is no plan: the message says why."""


def _candidates() -> Iterable[str]:
    here = Path(__file__).resolve().parent
    chosen = os.environ.get("TDP_LIBRARY")
    if chosen:
        yield chosen
        return
    yield str(here / "lib" / "libtdp.so")  # of a wheel
    yield str(here.parent.parent / "build" / "libtdp.so")  # of the source tree
    import ctypes.util  # which takes a third as long as all of tdp
    found = ctypes.util.find_library("tdp")
    if found:
        yield found


def _load() -> ctypes.CDLL:
    tried = []
    for path in _candidates():
        if "/" in path and not os.path.exists(path):
            tried.append(path)
            continue
        library = ctypes.CDLL(path)
        library.tdp_version.restype = ctypes.c_char_p
        for name in ("tdp_plan", "tdp_simulate"):
            getattr(library, name).restype = ctypes.c_void_p
            getattr(library, name).argtypes = [ctypes.c_char_p]
        for name in ("tdp_json", "tdp_error"):
            getattr(library, name).restype = ctypes.c_char_p
            getattr(library, name).argtypes = [ctypes.c_void_p]
        library.tdp_status.argtypes = [ctypes.c_void_p]
        library.tdp_free.argtypes = [ctypes.c_void_p]
        library.tdp_free.restype = None
        if library.tdp_abi() != ABI:
            raise ImportError(f"{path}: has ABI {library.tdp_abi()}, expected {ABI}")
        return library
    raise ImportError("libtdp.so is not there: looked for " + ", ".join(tried) + "; run make, or set TDP_LIBRARY")


_library = _load()


def _given(value: Any, listed: bool) -> Any:
    """A value as the library takes it: paths, and values of plans as a mapping, become text."""
    if isinstance(value, Path):
        return str(value)
    if listed and isinstance(value, Mapping):
        return ",".join(f"{key}={str(one).lower() if isinstance(one, bool) else one}" for key, one in value.items())
    return value


def _ask(function: Any, question: Mapping[str, Any]) -> dict[str, Any]:
    lists = ("fix", "why_not")
    given = {key: _given(value, key in lists) for key, value in question.items()
             if value is not None and not (key in lists and value == {})}
    answer = function(json.dumps(given).encode())
    try:
        status = _library.tdp_status(answer)
        if status == 0:
            return json.loads(_library.tdp_json(answer))
        message = _library.tdp_error(answer).decode()
    finally:
        _library.tdp_free(answer)
    raise {2: InputError, 3: Infeasible}.get(status, Error)(message)


def version() -> str:
    """The library's version."""
    return _library.tdp_version().decode()


def plan(model: Source, cluster: Source, **question: Any) -> dict[str, Any]:
    """The best plans for training a model on a cluster.

    Further keys are those of tdp_plan in tdp.h: gpus, global_batch_size, seq_length, framework, precision, fix, ...
    What fix and why_not hold may be a mapping, too.

    >>> plan("llama-2-7b", "dgx", gpus=8, fix="tp=2")["plans"][0]["plan"]["tensor_model_parallel_size"]
    2
    >>> plan("llama-2-7b", "dgx", gpus=8, fix={"tp": 2, "sp": False})["plans"][0]["plan"]["sequence_parallel"]
    False
    >>> plan("llama-2-7b", "dgx", gpus=8, fix="tp=3")
    Traceback (most recent call last):
    ...
    tdp.Infeasible: --fix leaves no plan: tp 3 does not divide 8 GPUs
    """
    return _ask(_library.tdp_plan, {"model": model, "cluster": cluster, **question})


def simulate(model: Source, cluster: Source, plan: Source) -> dict[str, Any]:
    """One plan, predicted.

    >>> result = simulate("gpt3", "dgx", "gpt3-128")
    >>> abs(sum(result["breakdown"].values()) / result["iteration_s"] - 1) < 1e-9
    True
    """
    return _ask(_library.tdp_simulate, {"model": model, "cluster": cluster, "plan": plan})


def sweep(models: Iterable[Source], clusters: Iterable[Source], gpus: Iterable[int],
          **question: Any) -> list[dict[str, Any]]:
    """A row for each model, cluster and number of GPUs, with the best plan's figures; what has no plan says why.

    >>> rows = sweep(["llama-2-7b"], ["dgx", "dgx-h100"], [8, 16])
    >>> [(row["cluster"], row["gpus"]) for row in rows]
    [('dgx', 8), ('dgx', 16), ('dgx-h100', 8), ('dgx-h100', 16)]

    pandas.DataFrame(rows) makes a table of it: python/examples/clusters.py.
    """
    rows = []
    gpus = list(gpus)
    clusters = list(clusters)
    for model in models:
        for cluster in clusters:
            for count in gpus:
                row: dict[str, Any] = {"model": model, "cluster": cluster, "gpus": count}
                try:
                    best = plan(model, cluster, gpus=count, **question)["plans"][0]
                    row.update({key: best[key] for key in ("iteration_s", "iteration_s_low", "iteration_s_high",
                                                           "tokens_per_s_per_gpu", "mfu", "peak_memory_bytes")})
                    row["plan"] = best["plan"]
                except Infeasible as why:
                    row["infeasible"] = str(why)
                rows.append(row)
    return rows
