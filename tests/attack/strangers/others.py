"""Recipes, sweeps, searches, journals, tables, pictures and results of kernels that would run something."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.attack.strangers.made import Place, Stranger

Make = Callable[[Place], Stranger]
MODEL = "demo:digits-mlp"
QUANTISED = {"rules": [{"select": {"by": "type", "values": ["linear"]}, "formats": {
    "weight": "integer(width=8, frac_width=6)", "data_in": "integer(width=8, frac_width=4)",
    "bias": "integer(width=8, frac_width=4)"}}]}  # fmt: skip


def _steps(*steps: Callable[[Place], dict[str, Any]] | dict[str, Any]) -> Make:
    """A recipe of these (pass, options)."""

    def make(place: Place) -> Stranger:
        told = {"steps": [s(place) if callable(s) else s for s in steps]}
        path = place.write("r.json", told)
        return Stranger(path, "recipe", ("run", MODEL, str(path)))

    return make


def _takes(source: Callable[[Place], str]) -> Make:
    return _steps(lambda p: {"pass": "take_weights", "options": {"source": source(p)}})


def _text(name: str, text: Callable[[Place], str], *words: str, role: Any = "recipe") -> Make:
    """A file of some text, and the command that reads it: PATH stands for it."""

    def make(place: Place) -> Stranger:
        path = place.write(name, text(place))
        return Stranger(path, role, tuple(w.replace("PATH", str(path)) for w in words or ("run", MODEL, "PATH")))

    return make


def _evil_module(kind: str) -> Callable[[Place], str]:
    def text(place: Place) -> str:
        does = {"system": f'initial $system("touch {place.marker}");',
                "fopen": f'integer f; initial begin f = $fopen("{place.marker}", "w"); $fclose(f); end',
                "c": f'initial $c("system(\\"touch {place.marker}\\");");',
                "macro": f'`define s(x) $``x\ninitial `s(system)("touch {place.marker}");',
                "dpi": f'import "DPI-C" function int system(string s); initial void\'(system("touch {place.marker}"));',
                }[kind]  # fmt: skip
        return f"module relu;\n{does}\nendmodule\n"

    return text


def _hardware(kind: str) -> Make:
    made = _evil_module(kind)
    wish = {"simulate": True, "samples": 1, "stalls": False}
    return _steps({"pass": "quantize", "options": QUANTISED},
                  lambda p: {"pass": "hardware", "options": {**wish, "modules": {"relu": made(p)}}})  # fmt: skip


def _pickled_adapter(place: Place) -> dict[str, Any]:
    place.write("adapter/adapter_config.json", {"peft_type": "LORA", "r": 2, "target_modules": ["fc1"]})
    place.pickled("adapter/adapter_model.bin")
    return {"pass": "load_adapter", "options": {"folder": str(place.folder / "adapter")}}


def _megatron(place: Place) -> dict[str, Any]:
    place.code("evil_megatron.py")
    folder = place.copied("adapter-mlp" if (place.seeds / "adapter-mlp").exists() else "mlp", "adapter")
    file = folder / "adapter_config.json"
    told = {**json.loads(file.read_text()), "megatron_core": "evil_megatron", "megatron_config": {"x": 1}}
    file.write_text(json.dumps(told))
    return {"pass": "load_adapter", "options": {"folder": str(folder)}}


RECIPES: dict[str, Make] = {
    "a recipe that takes weights of code": _takes(lambda p: f"{p.code()}:make"),
    "a recipe that takes weights of pickles": _takes(lambda p: str(p.pickled("model/pytorch_model.bin").parent)),
    "a recipe with a pickled adapter": _steps(_pickled_adapter),
    "a recipe with an adapter that names a module": _steps(_megatron),
    "a recipe with a pass of a file": _steps(lambda p: {"pass": str(p.code()), "options": {}}),
    "a recipe whose data are code": _steps(lambda p: {"pass": "calibrate", "options": {"data": f"{p.code()}:make"}}),
    "a recipe whose data are a script": _steps(lambda p: {"pass": "calibrate", "options": {"data": str(p.code())}}),
    "a recipe that writes a trace": _steps(lambda p: {"pass": "profile", "options": {"trace": f"{p.marker}.json"}}),
    "a recipe that writes a folder": _steps({"pass": "quantize", "options": QUANTISED}, lambda p: {
        "pass": "hardware", "options": {"folder": str(p.marker)}}),
    "a recipe with a backend of code": _steps(lambda p: {"pass": "compile", "options": {"backend": str(p.code())}}),
    **{f"a recipe with a module: {k}": _hardware(k) for k in ("system", "fopen", "c", "macro", "dpi")},
    "a recipe in Python": _text("r.py", lambda p: f"options = {p.system}\n{p.payload}\n"),
    "a recipe in text": _text("r.txt", lambda p: f"{{'prune_transform_pass': {p.system}}}"),
    "a recipe of formats of code": _text("f.toml", lambda p: (
        '[[steps]]\npass = "quantize"\n[[steps.options.rules]]\nselect = {by = "all"}\n'
        f"formats = {{weight = {json.dumps(f'integer(width={p.system})')}}}\n")),
    "a recipe of an endless pattern": _text("p.toml", lambda p: (
        '[[steps]]\npass = "quantize"\n[[steps.options.rules]]\nselect = {by = "regex", values = ["^(\\\\w+)+!$"]}\n'
        'formats = {weight = "mxint"}\n')),
    "a recipe of deep brackets": _text("d.json", lambda p: "[" * 100_000),
    "a recipe of deep keys": _text("k.toml", lambda p: ".".join("a" * 100_000) + " = 1"),
    "a recipe of a long number": _text("n.json", lambda p: '{"steps": ' + "9" * 100_000 + "}"),
}  # fmt: skip


# -- sweeps, searches, journals


SPEC = 'goals = ["accuracy"]\nsampler = "random"\ntrials = 1\n{more}\n[[space]]\nper = "all"\nvalues = {values}\n[score]\ndata = {data}\nlimit = 20\n'  # noqa: E501  # fmt: skip


def _search(more: str = "", values: str = "integer(width=2|4)", data: str = MODEL) -> Make:
    def text(place: Place) -> str:
        filled = {"more": more, "values": json.dumps(values), "data": json.dumps(data)}
        code = str(place.code())
        return SPEC.format(**{k: v.replace("CODE", code).replace("SYSTEM", place.system) for k, v in filled.items()})

    return _text("s.toml", text, "search", MODEL, "PATH", "--trials", "1", role="other")


def _sweep(over: str, more: str = "") -> Make:
    def text(place: Place) -> str:
        told = {"over": over, "more": more}
        code = str(place.code())
        told = {k: v.replace("CODE", code).replace("SYSTEM", place.system) for k, v in told.items()}
        steps = '[[steps]]\npass = "prune"\noptions = {sparsity = 0.5}\n'
        return f"over = {json.dumps(told['over'])}\n{told['more']}\n{steps}"

    return _text("w.toml", text, "sweep", MODEL, "PATH", role="other")


def _journal(change: Callable[[Place, str], str | bytes]) -> Make:
    def make(place: Place) -> Stranger:
        found = change(place, (place.seeds / "a.journal").read_text())
        path = place.write("s.journal", found)
        return Stranger(path, "other", ("worker", "--storage", f"journal:{path}", "--study", "s", "--trials", "1"))

    return make


SEARCHES: dict[str, Make] = {
    "a search with a plug-in": _search('plugins = ["CODE"]'),
    "a search under a limit of code": _search('within = ["SYSTEM<=1"]'),
    "a search of data of code": _search(data="CODE"),
    "a search of values of code": _search(values="SYSTEM"),
    "a search that begins at code": _search('begin_at = "CODE:make"'),
    "a search that takes weights": _search('[[steps]]\npass = "take_weights"\noptions = {source = "CODE:make"}'),
    "a sweep over sources of code": _sweep("take_weights.source=CODE:make"),
    "a sweep over expressions": _sweep("prune.sparsity=SYSTEM"),
    "a sweep of data of code": _sweep("prune.sparsity=0.1,0.2", 'score = {data = "CODE"}'),
    "a journal of pickles": _journal(lambda p, t: p.raw_pickle()),
    "a journal with code for texts": _journal(lambda p, t: t.replace('"weight_bits"', json.dumps(f"{p.code()}:make"))),
}  # fmt: skip


# -- data, results


def _data(name: str, content: Callable[[Place], str | bytes | dict[str, Any]]) -> Make:
    def make(place: Place) -> Stranger:
        path = place.write(name, content(place))
        return Stranger(path, "data", ("evaluate", "demo:reviews", "--data", str(path), "--limit", "4"))

    return make


def _parquet(place: Place) -> Stranger:
    """A column of pyarrow's old extension type, which is made by a pickle of the file's."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    more = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": place.raw_pickle()}
    schema = pa.schema([pa.field("text", pa.string(), metadata=more), pa.field("label", pa.int64())])
    column = {"name": "text", "pandas_type": "object", "numpy_type": f"object {place.system}",
              "metadata": {"encoding": "pickle"}}  # fmt: skip
    told = {b"pandas": json.dumps({"index_columns": [], "columns": [column]}).encode()}
    table = pa.table({"text": ["a", "b"], "label": [0, 1]}, schema=schema).replace_schema_metadata(told)
    path = place.folder / "d.parquet"
    pq.write_table(table, path)
    return Stranger(path, "data", ("evaluate", "demo:reviews", "--data", str(path), "--limit", "4"))


def _postscript(place: Place) -> Stranger:
    """Pictures by their names, programs by their content: Pillow hands them to Ghostscript."""
    text = ("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n"
            f"({place.marker}) (w) file closefile\n{{}} loop\n")  # fmt: skip
    for split in ("train", "test"):
        for name in ("a", "b"):
            place.write(f"pictures/{split}/{name}/1.png", text)
    folder = place.folder / "pictures"
    return Stranger(folder, "data", ("evaluate", "demo:digits", "--data", str(folder), "--split", "all"))


def _script(place: Place) -> Stranger:
    """A folder of data with a loading script, as `datasets` ran them."""
    place.write("set/set.py", f"{place.payload}\n")
    place.write("set/train.py", f"{place.payload}\n")
    place.write("set/train.csv", "text,label\na,0\nb,1\n")
    place.write("set/README.md", "---\nconfigs:\n- config_name: !!python/object/apply:os.system ['true']\n---\n")
    folder = place.folder / "set"
    return Stranger(folder, "data", ("evaluate", "demo:reviews", "--data", str(folder), "--limit", "4"))


def _array(place: Place) -> Stranger:
    import numpy as np

    path = place.folder / "a.npy"
    np.save(path, np.array([place.touch()], dtype=object), allow_pickle=True)
    return Stranger(path, "other", ("formats", "integer", "--apply", str(path), str(place.folder / "out.npy")))


def _results(place: Place) -> Stranger:
    told = json.loads((place.seeds / "a.json").read_text())
    told["machine"] |= {"name": f"<img src='{place.marker}'>", "source": str(place.code())}
    for row in told.get("rows", []):
        row["version"] = str(place.folder / "evil.py")
    path = place.write("k.json", told)
    return Stranger(path, "other", ("kernels", "--compare", str(path)))


DATA: dict[str, Make] = {
    "a table of formulas": _data("d.csv", lambda p: f"text,label\n=cmd|'touch {p.marker}'!A0,0\n@SUM({p.system}),1\n"),
    "a table with code for a column": _data("d.jsonl", lambda p: "\n".join(
        json.dumps({"text": p.system, "label": p.system, f"{p.system}": n}) for n in range(4))),
    "a table of a pickle": _data("e.parquet", lambda p: p.raw_pickle()),
    "a table of deep brackets": _data("f.json", lambda p: "[" * 100_000),
    "a table of extension types": _parquet,
    "pictures of PostScript": _postscript,
    "a folder of data with a script": _script,
    "an array of objects": _array,
    "results of kernels with code": _results,
    "a pass for a plug-in's name": _text("x.json", lambda p: json.dumps({f"{p.code()}": {}})),
}  # fmt: skip
OTHERS: dict[str, Make] = {**RECIPES, **SEARCHES, **DATA}
