"""Projects, Hugging Face folders, torch programs and packed models that would run something."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from tests.attack import pt2_files
from tests.attack.strangers.made import Place, Stranger, hugging, node

Make = Callable[[Place], Stranger]
# Of those of test_pt2: one of each kind.
PROGRAMS = ("pickled weights", "weights of the old form", "a pickled constant", "an opaque object", "a script object",
            "pickled example inputs", "an expression", "a size's name", "a function of os", "a library",
            "aten::save", "code in a name", "an imported enumeration", "guards", "a compiled library",
            "a tower of powers")  # fmt: skip


def _project(change: Callable[[Place, dict[str, Any]], Any], *words: str) -> Make:
    """A project with other members; further `words` follow its name on the command line."""

    def make(place: Place) -> Stranger:
        path = place.project(lambda told: change(place, told) and None)
        return Stranger(path, words=(words[0], str(path), *words[1:]) if words else ())

    return make


def _source(spec: Callable[[Place], str], **more: Any) -> Make:
    def change(place: Place, told: dict[str, Any]) -> None:
        told["manifest.json"]["source"] |= {"spec": spec(place), **more}
        for graph in told["graph.json"].values():
            graph["runs"] = "module"  # needs its source to run

    return _project(change)


def _step(name: str, options: Callable[[Place], dict[str, Any]]) -> Make:
    def change(place: Place, told: dict[str, Any]) -> None:
        told["recipe.json"]["steps"].append({"pass": name, "options": options(place), "seed": 0, "enabled": True})

    return _project(change)


def _in_node(change: Callable[[Place, dict[str, Any]], Any], name: str = "act") -> Make:
    return _project(lambda place, told: change(place, node(told, name)))


def _called(place: Place, held: dict[str, Any], target: str, *args: Any) -> None:
    held.update(call="call_function", target=target, args=list(args), attrs={})


def _renamed(place: Place, told: dict[str, Any], to: str) -> None:
    base = told["graph.json"]["base"]
    told["graph.json"].pop("graph", None)
    base["nodes"] = {to if n == "x" else n: d for n, d in base["nodes"].items()}
    base["nodes"][to]["target"] = to
    base["nodes"]["first"]["args"] = [{"ref": [to, 0]}]


def _pt2_source(place: Place) -> str:
    path = place.folder / "m.pt2"
    path.write_bytes((place.seeds / "net.pt2").read_bytes())
    pt2_files.rewritten(path, pt2_files.attacks(place.marker, "m")["pickled example inputs"])
    return str(path)


def _slip(place: Place) -> Stranger:
    path = place.copied("sound.espalier")
    with zipfile.ZipFile(path, "a") as archive:
        for name in (f"../{place.marker.name}", str(place.marker), f"studies/../../{place.marker.name}"):
            archive.writestr(name, b"x")
    return Stranger(path)


def _links(place: Place) -> Stranger:
    path = place.copied("sound.espalier")
    with zipfile.ZipFile(path, "a") as archive:
        for name in ("studies/link.trials.jsonl", "sweeps/link.jsonl", "link.json"):
            info = zipfile.ZipInfo(name)
            info.external_attr = 0o120777 << 16
            archive.writestr(info, str(place.marker))
    return Stranger(path)


def _modules(place: Place, told: dict[str, Any]) -> None:
    text = f'module relu; initial $system("touch {place.marker}"); endmodule'
    told["hardware_modules.json"] = {"version": 1, "modules": {"relu": {"text": text, "original": ""}}}


PROJECTS: dict[str, Make] = {
    "a project of a factory": _source(lambda p: f"{p.code()}:make"),
    "a project of a torch program with pickles": _source(_pt2_source),
    "a project of a folder with code": _source(
        lambda p: str(hugging(p, auto_map={"AutoModel": "evil.X"}, model_type="nobodys")) if p.code("evil.py") else ""),
    "a project whose data are a script": _source(lambda p: "/no/x.pt2", data="evil.py"),
    "a project whose tokenizer brings code": _source(lambda p: "/no/x.pt2", tokenizer="."),
    "a project with a step that takes weights": _step("take_weights", lambda p: {"source": f"{p.code()}:make"}),
    "a project with a pickled adapter": _step("load_adapter", lambda p: {
        "folder": str(p.pickled("adapter/adapter_model.bin").parent)}),
    "a project with a pass of a file": _step("evil.py", lambda p: {"a": str(p.code())}),
    "a project with a step that writes a trace": _step("profile", lambda p: {"trace": f"{p.marker}.json"}),
    "a project with modules that start programs": _project(_modules),
    "a project that would unpack outside": _slip,
    "a project with links": _links,
    "a project with Python files": _project(lambda p, t: t.update(
        {n: p.payload for n in ("model.py", "sitecustomize.py", "__main__.py", "plugins/evil.py")})),
    "a project that calls os.system": _in_node(lambda p, n: _called(p, n, "os.system", f"touch {p.marker}")),
    "a project that calls torch.load": _in_node(lambda p, n: _called(p, n, "torch.load", str(p.pickled("w.bin")))),
    "a project that saves": _in_node(lambda p, n: _called(p, n, "aten.save.default", "x", str(p.marker))),
    "a project that reads through getattr": _in_node(lambda p, n: _called(p, n, "_operator.attrgetter", "x")),
    "a project with a foreign class": _in_node(lambda p, n: n["attrs"].update({"class": "subprocess.Popen"})),
    "a project with code in a node's path": _in_node(lambda p, n: n.update(target=f"act); {p.payload}; (")),
    "a project with code in a keyword": _in_node(lambda p, n: n.update(kwargs={f"a={p.system}": 1})),
    "a project with code in an input": _project(lambda p, t: _renamed(p, t, f"x=({p.system})")),
    "a project with code in a size": _in_node(
        lambda p, n: n["ports"]["data_out"].update(shape=[p.system, 6])),
    "a project with code in a constant": _in_node(
        lambda p, n: _called(p, n, "aten.to.dtype", {"ref": ["first", 0]}, {"torch": ["dtype", f"f); {p.payload}"]})),
    "a project with code in a format": _in_node(
        lambda p, n: n.update(precision={"weight": {"format": f"integer({p.system})"}}), "first"),
    "a project with weights of a foreign file": _project(lambda p, t: t["manifest.json"].update(
        outside={f"../../{p.pickled('w.bin').name}": {"size": 1, "time": 1, "tensors": {}}})),
    "a project with a journal of pickles": _project(lambda p, t: t.update(
        {"studies/a.trials.jsonl": p.raw_pickle(), "sweeps/001.jsonl": p.raw_pickle()})),
    "a project with studies of code": _project(lambda p, t: t.update({"studies/a.trials.jsonl": (
        p.seeds / "study.trials.jsonl").read_text().replace('"random"', json.dumps(f"{p.code()}:make"))})),
    "a project with markup for names": _project(lambda p, t: t["manifest.json"]["source"].update(
        name=f"<img src='{p.marker}'><a href='file://{p.code()}'>x</a>", spec=f"<b>{p.code()}</b>:make")),
    "a project of deep tables": _project(lambda p, t: t.update({"view.json": "[" * 100_000})),
    "a project of long numbers": _project(lambda p, t: t.update({"reports.json": f'{{"a": {"9" * 100_000}}}'})),
}  # fmt: skip


# -- folders


def _with_code(place: Place, **entries: Any) -> Path:
    folder = hugging(place, **entries)
    (folder / "evil.py").write_text(f"{place.payload}\nfrom transformers import BertConfig as C\n"
                                    "from transformers import BertForSequenceClassification as M\n")  # fmt: skip
    return folder


def _pickled_weights(place: Place) -> Stranger:
    folder = hugging(place)
    (folder / "model.safetensors").unlink()
    place.pickled("model/pytorch_model.bin")
    return Stranger(folder)


def _indexed(kind: str, outside: str) -> Make:
    def make(place: Place) -> Stranger:
        folder = hugging(place)
        (folder / "model.safetensors").unlink()
        place.pickled("evil.bin")
        names = {"bert.pooler.dense.weight": outside}
        (folder / kind).write_text(json.dumps({"metadata": {}, "weight_map": names}))
        (folder / "x.safetensors").write_bytes(b"")
        return Stranger(folder)

    return make


def _tokenizer(place: Place) -> Stranger:
    folder, told = _with_code(place), {"auto_map": {"AutoTokenizer": ["evil.T", None]}, "tokenizer_class": "T"}
    (folder / "tokenizer_config.json").write_text(json.dumps(told))
    data = place.write("d.csv", "text,label\ngood,1\nbad,0\n")
    return Stranger(folder, words=("evaluate", str(folder), "--data", str(data)))


def _adapted(place: Place) -> Stranger:
    folder = _with_code(place)
    told = {"peft_type": "LORA", "base_model_name_or_path": str(folder), "r": 1, "target_modules": ["query"],
            "megatron_core": "evil", "megatron_config": {"a": 1},
            "auto_mapping": {"base_model_class": "M", "parent_library": "evil"}}  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(told))
    place.pickled("model/adapter_model.bin")
    return Stranger(folder)


def _colon(place: Place) -> Stranger:
    """A folder whose name reads as a function of the file beside it."""
    place.code("bert.py")
    return Stranger(hugging(place).rename(place.folder / "bert.py:make"))


def _shadows(place: Place) -> Stranger:
    """Opened from within."""
    folder = hugging(place)
    for name in (
        "torch",
        "multiprocessing",
        "numpy",
        "pickle",
        "transformers",
        "sitecustomize",
        "app",
        "model",
        "passes",
    ):
        (folder / f"{name}.py").write_text(place.payload + "\n")
    return Stranger(folder, cwd=str(folder))


def _others(place: Place) -> Stranger:
    folder = _with_code(place)
    (folder / "generation_config.json").write_text(
        json.dumps({"custom_generate": str(folder), "auto_map": {"a": "evil.X"}})
    )
    (folder / "custom_generate").mkdir()
    (folder / "custom_generate" / "generate.py").write_text(place.payload)
    (folder / "preprocessor_config.json").write_text(json.dumps({"auto_map": {"AutoImageProcessor": "evil.X"}}))
    (folder / "processor_config.json").write_text(json.dumps({"auto_map": {"AutoProcessor": "evil.X"}}))
    return Stranger(folder)


FOLDERS: dict[str, Make] = {
    "a folder of pickled weights": _pickled_weights,
    "a folder of an index of pickles": _indexed("pytorch_model.bin.index.json", "../evil.bin"),
    "a folder of an index that leads outside": _indexed("model.safetensors.index.json", "../evil.bin"),
    "a folder with code of a known model": lambda p: Stranger(_with_code(
        p, auto_map={"AutoConfig": "evil.C", "AutoModelForSequenceClassification": "evil.M"})),
    "a folder with code of an unknown model": lambda p: Stranger(_with_code(
        p, auto_map={"AutoConfig": "evil.C", "AutoModel": "evil.M"}, model_type="nobodys")),
    "a folder with code of an absolute path": lambda p: Stranger(_with_code(
        p, auto_map={"AutoConfig": f"{p.folder}/model--evil.C"}, model_type="nobodys")),
    "a folder whose class is no model": lambda p: Stranger(_with_code(p, architectures=["RagRetriever"])),
    "a folder whose class is a pipeline": lambda p: Stranger(_with_code(p, architectures=["pipeline"])),
    "a folder whose attention is a repository": lambda p: Stranger(_with_code(
        p, _attn_implementation=f"{p.folder}/model", attn_implementation="evil/kernel")),
    "a folder whose quantiser is code": lambda p: Stranger(_with_code(
        p, quantization_config={"quant_method": "evil", "modules_to_not_convert": ["evil"]})),
    "a folder whose tokenizer is code": _tokenizer,
    "a folder with an adapter": _adapted,
    "a folder with processors of code": _others,
    "a folder that reads as a function": _colon,
    "a folder of modules, opened from within": _shadows,
}  # fmt: skip


# -- torch programs and packed files


def _program(name: str) -> Make:
    def make(place: Place) -> Stranger:
        path = place.copied("net.pt2")
        pt2_files.rewritten(path, pt2_files.attacks(place.marker, "evil_module_of_nobody")[name])
        return Stranger(path)

    return make


def _packed(spec: Callable[[Place], str], old: str = "", new: Callable[[Place], str] = lambda p: p.system) -> Make:
    """A packed file of a source, in whose graph `old` is another text; its checksum is right."""

    def make(place: Place) -> Stranger:
        from espalier.model.packed import graph
        from espalier.model.packed.file import write_packed
        from espalier.model.sources.info import SourceInfo
        from tests.model.zoo import case

        text = json.dumps(new(place))[1:-1].encode()

        def compress(data: bytes) -> bytes:
            return zlib.compress(data.replace(old.encode(), text) if old else data)

        path, held = place.folder / "m.packed.safetensors", case("mlp")
        with patch.object(graph, "zlib", SimpleNamespace(compress=compress, decompressobj=zlib.decompressobj)):
            write_packed(held.graph, held.store, SourceInfo(spec(place), "mlp"), path)
        return Stranger(path)

    return make


def _header(place: Place) -> Stranger:
    header = json.dumps({"__metadata__": {"espalier": place.system}, "w": {"dtype": "F32", "shape": [1 << 40, 1 << 20],
                         "data_offsets": [0, 1 << 62]}}).encode()  # fmt: skip
    return Stranger(place.write("a.packed.safetensors", struct.pack("<Q", len(header)) + header))


PACKED: dict[str, Make] = {
    "a packed file of a factory": _packed(lambda p: f"{p.code()}:make"),
    "a packed file with code for a class": _packed(lambda p: "demo:digits", "ReLU"),
    "a packed file with code for a path": _packed(lambda p: "demo:digits", "second", lambda p: f"a; {p.payload}"),
    "a packed file with code for a size": _packed(lambda p: "demo:digits", "batch"),
    "a header of absurd sizes": _header,
    "a header without end": lambda p: Stranger(
        p.write("b.packed.safetensors", struct.pack("<Q", 1 << 40) + b"{" * 100)),
}  # fmt: skip
MODELS: dict[str, Make] = {**PROJECTS, **FOLDERS, **{f"a program: {n}": _program(n) for n in PROGRAMS}, **PACKED}
