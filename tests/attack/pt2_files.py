"""torch.export files that were tampered with: each would run code, or touch a file, in torch.export.load."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

Members = dict[str, bytes]
Json = dict[str, Any]


class Touch:
    """Unpickled, it writes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (f"open({str(self.marker)!r}, 'w').close()",)


class Net(torch.nn.Module):
    """A layer, a buffer, sizes that stay free."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 5)
        self.register_buffer("shift", torch.arange(5.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.gelu(self.fc(x))
        return (y + self.shift).reshape(x.shape[0] * 5)


def sound(path: Path) -> None:
    """A program as torch.export.save writes it."""
    torch.manual_seed(0)
    program = torch.export.export(Net().eval(), (torch.randn(3, 4),), dynamic_shapes={"x": {0: torch.export.Dim.AUTO}})
    torch.export.save(program, path)


def rewritten(path: Path, change: Callable[[Members], None]) -> None:
    """The same archive with other members."""
    with zipfile.ZipFile(path) as archive:
        top = archive.namelist()[0].partition("/")[0]
        members = {n.removeprefix(f"{top}/"): archive.read(n) for n in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"{top}/{name}", data)


def on_program(act: Callable[[Json], None]) -> Callable[[Members], None]:
    """A change of the program's JSON."""

    def change(members: Members) -> None:
        told = json.loads(members["models/model.json"])
        act(told)
        members["models/model.json"] = json.dumps(told).encode()

    return change


def on_text(old: str, new: str) -> Callable[[Members], None]:
    """A change of the program's text; fails where it has no such text."""

    def change(members: Members) -> None:
        text = members["models/model.json"].decode()
        assert old in text
        members["models/model.json"] = text.replace(old, json.dumps(new)[1:-1]).encode()

    return change


def _saved(value: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def _config(folder: str, **changes: Any) -> Callable[[Members], None]:
    def change(members: Members) -> None:
        name = f"data/{folder}/model_{folder}_config.json"
        told = json.loads(members[name])
        first = next(iter(told["config"].values()), None) or {"is_param": False, "tensor_meta": None}
        told["config"].setdefault("extra", dict(first)) if not told["config"] else None
        next(iter(told["config"].values())).update(changes)
        members[name] = json.dumps(told).encode()

    return change


def _all(*changes: Callable[[Members], None]) -> Callable[[Members], None]:
    def change(members: Members) -> None:
        for one in changes:
            one(members)

    return change


def _put(name: str, data: bytes) -> Callable[[Members], None]:
    return lambda members: members.__setitem__(name, data)


def _first_node(target: str, **inputs: str) -> Callable[[Members], None]:
    """A call before all others, of constant texts."""
    told = [{"name": n, "arg": {"as_string": v}, "kind": 1} for n, v in inputs.items()]

    def act(program: Json) -> None:
        graph = program["graph_module"]["graph"]
        node = {"target": target, "inputs": told, "outputs": [], "metadata": {}, "name": "first",
                "is_hop_single_tensor_return": None}  # fmt: skip
        graph["nodes"].insert(0, node)

    return on_program(act)


def _signature(**entries: Any) -> Callable[[Members], None]:
    def act(program: Json) -> None:
        program["graph_module"]["module_call_graph"][0]["signature"].update(entries)

    return on_program(act)


def attacks(marker: Path, module: str) -> dict[str, Callable[[Members], None]]:
    """Name → how a sound file becomes one that writes `marker`, or imports `module`, which does."""
    run = f"open({str(marker)!r}, 'w').close()"
    touch = pickle.dumps(Touch(marker))
    expression = f"__import__('builtins').exec({run!r})"
    tree = {"type": "builtins.dict", "children_spec": [],
            "context": json.dumps({"__enum__": True, "fqn": f"{module}:X", "name": "A"})}  # fmt: skip
    nested = {"default_factory_module": module, "default_factory_name": "X", "dict_context": []}
    default = {"type": "collections.defaultdict", "context": nested, "children_spec": []}
    symbol = "Symbol('s"
    return {
        "pickled weights": _all(_put("data/weights/weight_0", _saved(Touch(marker))),
                                _config("weights", use_pickle=True)),
        "weights of the old form": _put("data/weights/model.pt", _saved({"fc.weight": Touch(marker)})),
        "constants of the old form": _put("data/constants/model.pt", _saved({"c": Touch(marker)})),
        "a pickled constant": _all(_put("data/constants/tensor_0", _saved(Touch(marker))),
                                   _config("constants", use_pickle=True, path_name="tensor_0")),
        "an opaque object": _all(_put("data/constants/opaque_obj_0", touch),
                                 _config("constants", use_pickle=True, path_name="opaque_obj_0")),
        "a script object": _all(_put("data/constants/custom_obj_0", touch),
                                _config("constants", use_pickle=True, path_name="custom_obj_0")),
        "an opaque object under weights": _all(_put("data/weights/opaque_obj_0", touch),
                                               _config("weights", use_pickle=True, path_name="opaque_obj_0")),
        "pickled example inputs": _put("data/sample_inputs/model.pt", _saved(((Touch(marker),), {}))),
        "bare pickle as example inputs": _put("data/sample_inputs/model.pt", touch),
        "an expression": on_text(symbol, f"{expression} or Symbol('s"),
        "an expression in a symbol": on_program(lambda p: _expressions(p, f"Symbol({expression})")),
        "an expression by attribute": on_program(lambda p: _expressions(p, f"Integer.__class__.mro.__self__({run!r})")),
        "a size's name": on_program(lambda p: p["range_constraints"].update({expression: {"min_val": 2}})),
        "a function of os": _first_node("torch.os.system", command=f"touch {marker}"),
        "a function of torch": _first_node("torch.load", f=str(marker), weights_only=""),
        "a library": _first_node("torch.ops.load_library", path=str(marker)),
        "aten::from_file": _first_node("torch.ops.aten.from_file.default", filename=str(marker)),
        "aten::save": _first_node("torch.ops.aten.save.default", item="x", filename=str(marker)),
        "operator.methodcaller": _first_node("_operator.methodcaller", name="x"),
        "an operator as argument": on_program(lambda p: _argument(p, {"as_operator": "torch.hub.load"})),
        "an extension": _first_node("#demo:op", x=""),
        "code in a name": on_text('"gelu"', f'gelu = 0; {run}; gelu'.replace('"', "'")),
        "code in an argument's name": _signature(forward_arg_names=[f"x=({run})"]),
        "code in a parameter's path": on_text("fc.weight", f"fc.weight; {run}".replace('"', "'")),
        "an imported enumeration": _signature(in_spec=json.dumps([1, tree])),
        "an imported factory": _signature(out_spec=json.dumps([1, default])),
        "a class of a foreign module": _signature(out_spec=json.dumps([1, {"type": f"transformers.{module}.X",
                                                                          "context": "[]", "children_spec": []}])),
        "code in a keyword of the inputs": _signature(in_spec=json.dumps([1, _keyed(f"x={run}")])),
        "guards": on_program(lambda p: p.__setitem__("guards_code", [f"exec({run!r}) is None"])),
        "a compiled library": _put("data/aotinductor/model/model.so", b"\x7fELF"),
        "a class of a custom object": on_program(lambda p: p["graph_module"]["graph"].__setitem__(
            "custom_obj_values", {"o": {"name": "o", "class_fqn": "__torch__.evil"}})),
        "an unknown field": on_program(lambda p: p["graph_module"].__setitem__("hook", expression)),
        "deep nesting": on_program(lambda p: p["graph_module"]["graph"].__setitem__("inputs", _nested(900))),
        "a tower of powers": on_program(lambda p: _expressions(p, "Pow(Integer(9), Pow(Integer(9), Integer(9)))")),
        "a very long number": on_program(lambda p: _expressions(p, f"Integer({'9' * 3000})")),
    }  # fmt: skip


def _keyed(key: str) -> Json:
    """A call with one keyword."""
    leaf = {"type": None, "context": None, "children_spec": []}
    none = {"type": "builtins.tuple", "context": "null", "children_spec": []}
    words = {"type": "builtins.dict", "context": json.dumps([key]), "children_spec": [leaf]}
    return {"type": "builtins.tuple", "context": "null", "children_spec": [none, words]}


def _expressions(value: Any, text: str) -> None:
    """Every shape expression becomes `text`."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "expr_str":
                value[key] = text
            else:
                _expressions(inner, text)
    elif isinstance(value, list):
        for inner in value:
            _expressions(inner, text)


def _argument(program: Json, arg: Json) -> None:
    program["graph_module"]["graph"]["nodes"][0]["inputs"][0]["arg"] = arg


def _nested(deep: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(deep):
        value = [value]
    return value
