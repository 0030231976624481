"""Sources of models: Hugging Face folders and ids, configurations, Python factories, .pt2 files, demos."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.borders import read_bytes
from espalier.model.errors import Interrupted, SourceError, first_line, nearest
from espalier.model.sources.info import KINDS, OBJECT, Loaded, SourceInfo, demo_folder
from espalier.model.sources.siblings import Siblings
from espalier.model.trust import Origin, factory_of, require

if TYPE_CHECKING:
    from torch import nn


def load_source(spec: str, inputs: tuple[str, ...] = (), seed: int = 0, *, origin: Origin = Origin.FILE) -> Loaded:
    """The model of `spec`, in eval mode; `inputs` chooses the example's inputs (empty: the default ones).

    Raises SourceError, and its subclass TrustError if a file (`origin`) names a factory that the user has not allowed.
    A factory is the user's own code and runs here; no other source executes code of a file.
    """
    import torch

    torch.manual_seed(seed)
    loaded = _loader(spec, origin)(spec)
    if loaded.program is not None:
        return replace(loaded, info=replace(loaded.info, inputs=tuple(loaded.example), seed=seed))
    loaded.model.eval()
    example = _choose(loaded.example, inputs)
    return replace(loaded, info=replace(loaded.info, inputs=tuple(example), seed=seed), example=example)


def _loader(spec: str, origin: Origin) -> Callable[[str], Loaded]:
    from espalier.model.sources import huggingface

    head = spec.partition(":")[0]
    if head in ("demo", "hf", "config") and ":" in spec:
        return {"demo": _demo, "hf": huggingface.from_hub, "config": huggingface.from_config}[head]
    if factory_of(spec):
        return partial(_factory, origin=origin)
    if spec.endswith(".pt2"):
        return _exported
    if Path(spec).expanduser().is_dir():
        return huggingface.from_folder
    raise _unknown(spec)


def _unknown(spec: str) -> SourceError:
    if spec.startswith(OBJECT):
        text = f"{spec.removeprefix(OBJECT)} was traced from a Python object, which cannot be opened again."
        hint = (
            "Forms such as pt2, onnx, packed and safetensors need no source. For others, give the model as "
            "file.py:factory or as a folder of transformers."
        )
        return SourceError(text, hint)
    path = Path(spec).expanduser()
    if path.suffix == ".onnx" and path.exists():
        hint = "Open the model that it was exported from: a Hugging Face folder, a file.py:factory or a .pt2 file."
        return SourceError(f"{path.name} is an ONNX file, which Espalier writes but does not read.", hint)
    if path.suffix in (".safetensors", ".bin", ".pt", ".pth", ".ckpt"):
        if not path.exists():
            return SourceError(f"There is no file {spec!r}.", "Check the path.")
        hint = "Give the folder with its config.json, or a file.py:factory that builds the model."
        return SourceError(f"{path.name} holds weights without a model.", hint)
    if not path.exists():
        return SourceError(f"There is no {spec!r}.", f"Give {KINDS}.")
    return SourceError(f"{path.name} is not a model that can be opened.", f"Give {KINDS}.")


def _choose(example: dict[str, Any], inputs: tuple[str, ...]) -> dict[str, Any]:
    usual = {k: v for k, v in example.items() if not k.startswith("?")}
    if not inputs:
        return usual
    examples = {k.removeprefix("?"): v for k, v in example.items()}
    for name in inputs:
        if name not in examples:
            raise SourceError(f"The model has no example for the input {name!r}.", nearest(name, examples))
    fixed = {k: v for k, v in usual.items() if isinstance(v, bool)}
    return {**{k: examples[k] for k in inputs}, **fixed}


def _demo(spec: str) -> Loaded:
    from espalier.model.sources.demos import DEMOS, load_demo
    from espalier.model.sources.huggingface import without_cache

    name = spec.partition(":")[2]
    model, example = load_demo(name)
    if "labels" in inspect.signature(model.forward).parameters:
        example["?labels"] = DEMOS[name].labelled()["labels"]
    folder = demo_folder(name)
    tokenizer = str(folder) if (folder / "tokenizer.json").exists() else None
    info = SourceInfo(spec, DEMOS[name].title, tokenizer=tokenizer, data=DEMOS[name].data)
    return Loaded(info, model, example, files=(folder / "model.safetensors",), uncached=without_cache(model))


# -- the user's own files


def _factory(spec: str, origin: Origin) -> Loaded:
    file, name = factory_of(spec) or (spec, "")
    path = Path(file).expanduser().resolve()
    if not path.exists():
        raise SourceError(f"There is no file {file!r}.", "Give the path of a Python file, then :factory.")
    functions = factories(path)
    if not name:
        available = f" It has: {', '.join(functions)}." if functions else ""
        suggestion = functions[0] if functions else "make_model"
        raise SourceError(f"{path.name} needs the name of a function.", f"Write {path.name}:{suggestion}.{available}")
    require(path, f"{name}()", origin)
    function = getattr(import_file(path), name, None)
    if not callable(function):
        raise SourceError(f"{path.name} has no function {name!r}.", "Name a function that returns the model.")
    result = call_user_code(function, path, f"{name}() in {path.name}")
    model, example, uncached = module_and_example(result, name)
    return Loaded(SourceInfo(f"{path}:{name}", f"{name} ({path.name})"), model, example, uncached=uncached)


def factories(path: Path) -> list[str]:
    """The functions and classes of a Python file, without running it; those callable without arguments first.

    Names with a leading underscore are skipped. Raises SourceError if the file is unreadable or its syntax is
    wrong.
    """
    try:
        tree = ast.parse(read_bytes(path), str(path))
    except SyntaxError as error:
        line = (error.text or "").strip()
        text = f"{path.name} is not valid Python: {error.msg} (line {error.lineno}{f': {line[:80]}' if line else ''})."
        raise SourceError(text, f"Correct {path.name}.") from error
    except (ValueError, OSError) as error:
        raise SourceError(f"{path.name} cannot be read as Python: {first_line(error)}", "Give a text file.") from error
    definitions = [n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef) and not n.name.startswith("_")]
    # In file order: functions without required arguments, classes without, then the others.
    return [n.name for n in sorted(definitions, key=lambda n: (_needs(n), isinstance(n, ast.ClassDef)))]


def _needs(node: ast.FunctionDef | ast.ClassDef) -> bool:
    """Whether a function or a class (by its `__init__`) needs arguments."""
    if isinstance(node, ast.ClassDef):
        initialisers = (n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__")
        return any(len(n.args.args) - 1 > len(n.args.defaults) or None in n.args.kw_defaults for n in initialisers)
    return len(node.args.posonlyargs + node.args.args) > len(node.args.defaults) or None in node.args.kw_defaults


def call_user_code(function: Callable[[], Any], path: Path, subject: str) -> Any:
    """Call the user's code; its exceptions are converted to SourceError with the line in `path`."""
    try:
        return function()
    except (KeyboardInterrupt, Interrupted):
        raise
    # The user's own code may raise anything, SystemExit too.
    except BaseException as error:
        text = f"{subject} raised {type(error).__name__}: {first_line(error)}{_line(error, path)}"
        raise SourceError(text, f"Correct {path.name}.") from error


def _line(error: BaseException, path: Path) -> str:
    trace, line = error.__traceback__, None
    while trace:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f" (line {line})" if line else ""


def import_file(path: Path) -> Any:
    """The module of a Python file, which may import modules of its folder. Raises SourceError."""
    loaded: list[Any] = []
    call_user_code(lambda: loaded.append(Siblings(path).load()), path, f"{path.name}, when imported,")
    return loaded[0]


def module_and_example(result: Any, name: str) -> tuple[nn.Module, dict[str, Any], tuple[Any, ...]]:
    """(a factory's module, example inputs, configurations whose caches are disabled for the capture)."""
    from torch import Tensor, nn

    from espalier.model.sources.huggingface import example_inputs, without_cache

    model, example = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
    if not isinstance(model, nn.Module):
        raise SourceError(f"{name}() returned {type(model).__name__}, not a torch module.",
                          "Return the module, or (module, example keyword inputs).")  # fmt: skip
    uncached = without_cache(model)
    if example is None and hasattr(model, "config"):
        return model, example_inputs(model), uncached
    if isinstance(example, Tensor | list | tuple):
        values = (example,) if isinstance(example, Tensor) else example
        example = dict(zip(inspect.signature(model.forward).parameters, values, strict=False))
    if not isinstance(example, dict) or not example:
        raise SourceError(f"{name}() returned a module without example inputs.",
                          "Return (module, {'x': torch.randn(2, …)}); give each free size at least 2.")  # fmt: skip
    return model, example, uncached


def _exported(spec: str) -> Loaded:
    from espalier.model.sources.pt2.reading import Unsafe, read_program

    path = Path(spec).expanduser().resolve()
    if not path.exists():
        raise SourceError(f"There is no file {spec!r}.", "Give the path of a .pt2 file.")
    try:
        program = read_program(path)
        args, kwargs = program.example_inputs or ((), {})
        names = [str(n) for n in program.graph_signature.user_inputs]
        example = {**dict(zip(names, args, strict=False)), **kwargs}
        # Guards are source that torch generates from the file and runs.
        model = program.module(check_guards=False)
    except Unsafe as error:
        hint = "Open the model that it was exported from, or export it again with plain tensors as example inputs."
        raise SourceError(f"{path.name} could run foreign code: {error}.", hint) from error
    # torch raises many types for a foreign or damaged archive.
    except Exception as error:
        raise SourceError(f"{path.name} is not a readable torch.export file ({first_line(error)}).",
                          "Write it with torch.export.save and this version of torch.") from error  # fmt: skip
    return Loaded(SourceInfo(str(path), path.name), model, example, program)
