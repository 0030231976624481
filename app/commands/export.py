"""Command `export`: writes weights, ONNX, torch programs, recipes and scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from espalier.app.commands.command import Answer, Arguments, Command, Parser, UsageError
from espalier.app.commands.console import Console, size
from espalier.app.commands.export_check import check_lines, check_options
from espalier.app.commands.opening import opened
from espalier.app.commands.option_flags import add_options, read_options
from espalier.passes.export import FORMS, checked_export, export
from espalier.passes.export.checking.target import CheckOptions
from espalier.passes.export.settings import ExecuTorchOptions, GgufOptions, OnnxOptions, Settings

_FORMS = """forms:
  safetensors         a folder with the fake-quantised weights
  packed              one file in the bits of the formats
  compressed-tensors  a folder with weights as codes and scales, which transformers and vLLM read
  torchao             a folder with weights as tensors of torchao, which transformers reads
  gguf                one file for llama.cpp
  onnx                QuantizeLinear and DequantizeLinear
  openvino            an .xml and a .bin for OpenVINO, whole numbers in 4 or 8 bits
  executorch          a .pte for ExecuTorch, whole numbers in 4 or 8 bits by XNNPACK
  pt2                 a torch.export file
  adapter             the LoRA adapters as PEFT saves them
  script              Python
  recipe              TOML or JSON
  graphml             the graph for Gephi, yEd, networkx"""


def _arguments(parser: Parser) -> None:
    parser.add_argument("target", metavar="PROJECT|SOURCE", help="the project")
    parser.add_argument("--as", dest="form", required=True, choices=tuple(FORMS), help="the form, see above")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the file or folder to write")
    text = (
        "onnx: leave activations in float if ONNX has no equivalent format, and report it; "
        "compressed-tensors, torchao, gguf, openvino, executorch: weights, too"
    )
    parser.add_argument("--leave-float", action="store_true", help=text)
    add_options(parser.add_argument_group("onnx"), OnnxOptions)
    add_options(parser.add_argument_group("executorch"), ExecuTorchOptions)
    add_options(parser.add_argument_group("gguf"), GgufOptions)
    text = (
        "run the file in its runtime beside a float file and the runtime's quantisers (onnx, openvino, torchao, "
        "executorch, gguf): accuracy, time"
    )
    check = parser.add_argument_group("check")
    check.add_argument("--check", action="store_true", help=text)
    add_options(check, CheckOptions)


def _run(args: Arguments, console: Console) -> Answer:
    onnx, planned = read_options(OnnxOptions, args), read_options(ExecuTorchOptions, args)
    if args.form != "onnx" and onnx != OnnxOptions():
        raise UsageError(f"--as {args.form} has none of the options of ONNX.", "Remove them, or write --as onnx.")
    if args.form != "executorch" and planned != ExecuTorchOptions():
        raise UsageError(f"--as {args.form} has no option --largest.", "Remove it, or write --as executorch.")
    gguf: GgufOptions = read_options(GgufOptions, args)
    if args.form != "gguf" and gguf != GgufOptions():
        raise UsageError(f"--as {args.form} has no option --ids-only.", "Remove it, or write --as gguf.")
    if not args.check and read_options(CheckOptions, args) != CheckOptions():
        raise UsageError("An option of the check is of no use without --check.", "Add --check, or remove the option.")
    with opened(args.target, args, console) as target:
        settings = Settings(args.leave_float, onnx=onnx, executorch=planned, gguf=gguf)
        what = target.project, target.store, args.form, Path(args.output), settings
        done = checked_export(*what, check_options(args, target), target.context) if args.check else export(*what)
    data: dict[str, Any] = {"files": list(done.files), "bytes": done.bytes, "warnings": list(done.notes)}
    if done.max_abs_diff is not None:
        data["max_abs_diff"] = done.max_abs_diff
    if done.float32_bytes is not None:
        data |= {"float32_bytes": done.float32_bytes, "packed_bytes": done.packed_bytes}
    if done.tensors:
        data["tensors"] = list(done.tensors)
    if done.check is not None:
        data["check"] = done.check.to_json()
    return Answer(data, lambda: _lines(data))


def _lines(data: dict[str, Any]) -> Iterable[str]:
    yield from data["files"]
    yield f"{size(data['bytes'])} in {len(data['files'])} {'file' if len(data['files']) == 1 else 'files'}"
    if "packed_bytes" in data:
        yield from _coded_lines(data)
    elif tensors := data.get("tensors"):
        yield from _packed_lines(tensors)
    if "max_abs_diff" in data:
        most = f"{data['max_abs_diff']:.3g}"
        yield f"run and compared with the model: on the inputs tried, results differ by up to {most}"
    yield from (f"note: {n}" for n in data["warnings"])
    if "check" in data:
        yield from check_lines(data["check"], data["bytes"])


def _coded_lines(data: dict[str, Any]) -> Iterable[str]:
    """What the tensors became, counted, and the bytes beside those of float32 and of the packed file."""
    counts = Counter((t["label"] or "float", t["stored"]) for t in data["tensors"])
    for (label, stored), count in counts.items():
        taken = sum(t["bytes"] for t in data["tensors"] if ((t["label"] or "float"), t["stored"]) == (label, stored))
        yield f"{count} × {label} as {stored}: {size(taken)}"
    total, whole, packed = data["bytes"], data["float32_bytes"], data["packed_bytes"]
    yield f"{total / whole:.2f} × the weights in float32 ({size(whole)})"
    yield f"{total / packed:.2f} × the packed file ({size(packed)})"


def _packed_lines(tensors: list[dict[str, Any]]) -> Iterable[str]:
    """Table of the stored tensors with ideal and actual bytes."""
    width = max(len(t["tensor"]) for t in tensors)
    kind = max(len(t["label"]) for t in tensors)
    yield f"{'tensor':{width}}  {'format':{kind}}  {'layout':6}  {'ideal bytes':>13}  {'bytes':>11}"
    for t in tensors:
        ideal = f"{t['ideal_bytes']:,.3f}".rstrip("0").rstrip(".")
        yield f"{t['tensor']:{width}}  {t['label']:{kind}}  {t['layout']:6}  {ideal:>13}  {t['bytes']:>11,}"
    ideal, real = sum(t["ideal_bytes"] for t in tensors), sum(t["bytes"] for t in tensors)
    yield f"tensors: {size(real)}, of which padding to whole bytes {real - ideal:g} bytes; the rest is header and graph"


ABOUT = "exports a project: weights, ONNX, a torch program, a recipe or a script"
COMMAND = Command("export", ABOUT, _arguments, _run, _FORMS)
