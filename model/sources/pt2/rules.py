"""Rules for programs of torch.export files: each text of torch's schema has a rule; all others are rejected.

torch resolves functions by getattr along a text, imports what structures name, compiles guards, and runs source that
names are written into (torch/_export/serde/serialize.py, torch/fx/graph.py).
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from espalier.model.sources.pt2.expressions import SYMBOL, check_expression

Json = dict[str, Any]

DEEPEST = 100
_NAME = re.compile(r"[A-Za-z_]\w{0,999}", re.ASCII)
_TEXT = re.compile(r"[\w .,:;>+*/()-]*", re.ASCII)
_PATH = re.compile(r"(\w+(\.\w+)*)?", re.ASCII)
_OPERATOR = re.compile(r"torch\.ops\.(\w+)\.(\w+)(?:\.(\w+))?", re.ASCII)
_SPACES = ("aten", "prims")
# They hold subgraphs of the same file and call nothing else.
_HIGHER_ORDER = ("cond", "while_loop", "scan", "map_impl", "wrap_with_set_grad_enabled", "wrap_with_autocast")
_ARITHMETIC = frozenset(
    ("eq", "ne", "le", "ge", "lt", "gt", "neg", "pos", "mul", "add", "sub", "floordiv", "mod", "truediv", "and_", "or_",
     "getitem")
)  # fmt: skip
_SIZES = frozenset(("sym_int", "sym_float", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sum"))
_MATHS = frozenset(("trunc", "ceil", "floor"))
_FILES = ("filename", "path", "file")  # arguments by which a function reads or writes files
# They trust given sizes, offsets or storages, or are for tests and other devices.
_UNCHECKED = re.compile(r"unsafe|nested|sparse|cudnn|mkldnn|miopen|^_?set_|_set_|record_stream|^_test|^_print|resize_")
# The fx types represent dicts and lists in a graph's results.
_FX = "torch.fx.immutable_collections.immutable_"
_CONTAINERS = (
    "builtins.tuple",
    "builtins.list",
    "builtins.dict",
    "collections.OrderedDict",
    f"{_FX}dict",
    f"{_FX}list",
)
_RESULT = re.compile(r"transformers\.(modeling_outputs|models\.\w+\.modeling_\w+)\.\w+", re.ASCII)
_KEPT = ("stack_trace", "nn_module_stack")  # metadata of a node's origin


def checked_program(program: Any) -> Json:
    """The checked program, without guards and comments. Raises ValueError if it is more than data."""
    if not isinstance(program, dict):
        raise ValueError("its program has another form than it should")
    # Guards are Python that torch compiles; the supported sizes are inferred without them.
    unguarded = {**cast("Json", program), "guards_code": []}
    _walk(unguarded, "", DEEPEST)
    return unguarded


def _walk(value: Any, key: str, deep: int) -> None:
    if deep == 0:
        raise ValueError("its program is nested too deep")
    match value:
        case dict():
            _check_dict(cast("Json", value), key)
            for name, inner in cast("Json", value).items():
                if key != "metadata":
                    _walk(inner, "" if key in _BY_NAME else name, deep - 1)
        case list():
            for inner in cast("list[Any]", value):
                _walk(inner, key, deep - 1)
        case str():
            rule = _RULES.get(key)
            if rule is None:
                raise ValueError(f"its program has a text under {key[:40]!r}, where none belongs")
            rule(value)
        case _:
            pass


def _check_dict(value: Json, key: str) -> None:
    """Check keys that are names of the program, and metadata of nodes."""
    if key == "metadata":
        for name in [n for n in value if n not in _KEPT]:
            del value[name]
        if not all(isinstance(v, str) for v in value.values()):
            raise ValueError("its program has a remark that is no text")
    elif key == "range_constraints":
        for name in value:
            if not SYMBOL.fullmatch(name):
                raise ValueError("its program has a size of another name than sizes have")
    elif key in _BY_NAME:
        for name in value:
            (_name if key.endswith("_values") else _anything)(name)


def _anything(_: str) -> None:
    """A comment, which is not used."""


def _text(text: str) -> None:
    """A constant argument; torch writes some of them into guards in quotes, without escaping."""
    if len(text) > 1000 or not _TEXT.fullmatch(text):
        raise ValueError("its program has a constant text with other than plain characters")


def _float(text: str) -> None:
    """A float; JSON has no inf and nan."""
    if text not in ("Infinity", "-Infinity", "NaN", "inf", "-inf", "nan"):
        raise ValueError("its program has a number that is none")


def _name(text: str) -> None:
    if text and (not _NAME.fullmatch(text) or keyword.iskeyword(text)):
        raise ValueError("its program has a name that is none")


def _path(text: str) -> None:
    if not _PATH.fullmatch(text) or len(text) > 2000:
        raise ValueError("its program has a path of modules that is none")


def _file_of_code(_: str) -> None:
    raise ValueError("its program holds an object of a class of its own")


def check_operator(text: str) -> None:
    """Raise ValueError unless `text` names a function of tensors or sizes."""
    match = _OPERATOR.fullmatch(text)
    if match and match[1] == "higher_order" and match[2] in _HIGHER_ORDER and match[3] is None:
        return
    if match and match[1] in _SPACES and _computes(match[1], match[2], match[3]):
        return
    head, _, name = text.rpartition(".")
    allowed: Mapping[str, frozenset[str]] = {"_operator": _ARITHMETIC, "torch": _SIZES, "math": _MATHS,
                                             "torch.sym": _SIZES}  # fmt: skip
    if name not in allowed.get(head, frozenset()):
        raise ValueError(f"its program calls {text[:80]!r}, which is no function of tensors")


def _computes(space: str, name: str, overload: str | None) -> bool:
    """Whether torch has this operator with built-in kernels and no argument is a file."""
    import torch

    packet = getattr(getattr(torch.ops, space), name, None)
    overload_function = getattr(packet, overload or "default", None)
    if not isinstance(overload_function, torch._ops.OpOverload):  # pyright: ignore[reportPrivateUsage]
        return False
    if _UNCHECKED.search(name):
        return False
    names = {a.name for a in overload_function._schema.arguments}  # pyright: ignore[reportPrivateUsage]
    there = torch._C._dispatch_has_kernel(overload_function.name())  # pyright: ignore[reportPrivateUsage]
    return there and not names.intersection(_FILES)


def _structure(text: str) -> None:
    """Check the structure of inputs or results by torch.utils._pytree.treespec_dumps: [protocol, {type, context,
    …}]."""
    parts = json.loads(text)
    if not isinstance(parts, list) or len(cast("list[Any]", parts)) != 2:
        raise ValueError("its program has a structure of another form")
    _check_structure(cast("list[Any]", parts)[1], DEEPEST)


def _check_structure(value: Any, deep: int) -> None:
    if deep == 0 or not isinstance(value, dict):
        raise ValueError("its program has a structure of another form")
    entry = cast("Json", value)
    kind, context = entry.get("type"), entry.get("context")
    if kind is not None and (not isinstance(kind, str) or not (kind in _CONTAINERS or _RESULT.fullmatch(kind))):
        raise ValueError(f"its inputs or results are of the type {str(kind)[:80]}")
    if context is not None:
        _check_context(context)
    for inner in cast("list[Any]", entry.get("children_spec") or []):
        _check_structure(inner, deep - 1)


def _check_context(context: Any) -> None:
    """Keys of a dict or fields of a result: names and numbers. torch imports what an "__enum__" names, and writes
    keys of inputs into the source of `forward`.
    """
    content = json.loads(context) if isinstance(context, str) else context
    values: list[Any] = [content]
    while values:
        value = values.pop()
        match value:
            case list():
                values.extend(cast("list[Any]", value))
            case str() if _NAME.fullmatch(value) and not keyword.iskeyword(value):
                pass
            case None | int() | float():
                pass
            case _:
                raise ValueError("its inputs or results have a structure of more than names")


def results_of(program: Json) -> set[str]:
    """The modules of transformers that define the result classes of a checked program."""
    texts = json.dumps(program)
    modules = re.findall(
        r'\\"type\\": *\\"(transformers\.(?:modeling_outputs|models\.\w+\.modeling_\w+))\.\w+\\"', texts
    )
    return set(modules)


# dicts whose keys are names of the file
_BY_NAME = frozenset(
    ("tensor_values", "sym_int_values", "sym_bool_values", "sym_float_values", "custom_obj_values",
     "as_string_to_argument", "opset_version", "range_constraints", "treespec_namedtuple_fields")
)  # fmt: skip
_RULES: dict[str, Callable[[str], None]] = {
    "name": _name, "as_name": _name, "forward_arg_names": _name, "user_input_name": _name,
    "parameter_name": _path, "buffer_name": _path, "tensor_constant_name": _path, "fqn": _path,
    "target": check_operator, "as_operator": check_operator, "expr_str": check_expression,
    "in_spec": _structure, "out_spec": _structure,
    "as_string": _text, "as_strings": _text, "type": _name, "verifiers": _name, "torch_version": _anything,
    "custom_obj_name": _file_of_code, "class_fqn": _file_of_code, "field_names": _name,
    "as_float": _float, "default_value": _text,
}  # fmt: skip
