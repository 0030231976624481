"""Design → files: generates the top module; the library modules are the `.sv` files of this folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from espalier.model.errors import EmitError
from espalier.model.files import explained, replacing_folder
from espalier.verilog.design.netlist import Design, Wire
from espalier.verilog.design.template import Template, port
from espalier.verilog.rtl.library import library_text, reserved

if TYPE_CHECKING:
    from espalier.verilog.timing.schedule import Schedule  # imports numba

BUILT = ("build/", "waves/")  # build products, which an emission may delete
LIST = "files.txt"  # lists the emitted files, so that the next emission deletes no others


@dataclass(frozen=True, slots=True)
class Emitted:
    """An emission: the folder and the names of its files."""

    folder: Path
    files: tuple[str, ...]


def texts(design: Design, planned: Schedule | None = None) -> dict[str, str]:
    """File name → content of the design's modules and memories; equal designs give equal texts.

    The schedule only affects comments.
    """
    files = {f"{design.name}.sv": top(design, planned)}
    own_texts = _own_texts(design)
    for module in modules(design):
        files[f"rtl/{module}.sv"] = design.edited.get(module) or own_texts.get(module) or library_text(module)
    for instance in design.instances:
        for memory in instance.memories():
            files[f"mem/{memory_file(instance, memory.parameter)}"] = memory.text()
    return files


def _own_texts(design: Design) -> dict[str, str]:
    """The modules from `Template.texts` of all instances; raises EmitError for a clash of names."""
    own_texts: dict[str, str] = {}
    used = reserved() | {design.name}
    for instance in design.instances:
        for module, text in instance.texts().items():
            if module in used or own_texts.setdefault(module, text) != text:
                text = f"{instance.node} defines a module {module}; the design has another of that name."
                raise EmitError(text, "Give the plug-in's module another name.", instance.node)
    return own_texts


def modules(design: Design) -> tuple[str, ...]:
    """The sorted names of the design's modules other than the top."""
    return tuple(sorted({m for i in design.instances for m in (i.module, *i.uses())}))


def memory_file(instance: Template, parameter: str) -> str:
    """File name of a memory."""
    return f"{instance.name}_{parameter.removesuffix('_FILE').lower()}.mem"


def write(
    design: Design, folder: Path, extra: dict[str, str] | None = None, planned: Schedule | None = None
) -> Emitted:
    """Write all files; an existing folder is replaced once the new one is complete, and left unchanged on errors.

    Raises EmitError for a folder with other files.
    """
    folder = folder.resolve()
    files = {**texts(design, planned), **(extra or {})}
    _check_folder(folder)
    files[LIST] = "".join(f"{name}\n" for name in sorted((*files, LIST)))
    with explained(folder, EmitError):
        folder.parent.mkdir(parents=True, exist_ok=True)
    with replacing_folder(folder, EmitError) as fresh:
        for name, text in files.items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return Emitted(folder, tuple(sorted(files)))


def _check_folder(folder: Path) -> None:
    """Check that a folder holds only files of an earlier emission and build products; raises EmitError."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise EmitError(f"{folder} is a file.", "Name a folder.")
    present = {str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir()}
    emitted = set((folder / LIST).read_text().splitlines()) if LIST in present else set[str]()
    foreign = sorted(name for name in present - emitted if not emitted or not name.startswith(BUILT))
    if foreign:
        text = f"The folder {folder} holds other files, such as {foreign[0]}."
        raise EmitError(text, "Name an empty or a new folder, or move them away.")


def _range(width: int) -> str:
    return f"[{width - 1}:0]"


def top(design: Design, planned: Schedule | None = None) -> str:
    """The top module, of instances and wires only."""
    lines = [
        f"// {design.name}: generated; change the graph, not this file.{_pace(planned)}",
        f"module {design.name} (",
    ]
    ports = ["    input  logic clk", "    input  logic rst"]
    for boundary, direction in [*((b, "in") for b in design.inputs), *((b, "out") for b in design.outputs)]:
        data, back = ("input ", "output") if direction == "in" else ("output", "input ")
        ports += [
            f"    {data} logic {_range(boundary.stream.width)} {boundary.name}_data",
            f"    {data} logic {boundary.name}_valid",
            f"    {back} logic {boundary.name}_ready",
        ]
    lines += [",\n".join(ports), ");"]
    for boundary in design.inputs:
        lines.append(f"  // {boundary.name}: {boundary.node}, {boundary.stream.label}")
    for wire in design.all_wires():
        if wire.source:
            lines += _declared(design, wire)
    for instance in design.instances:
        lines += ["", *_instance(design, instance, planned)]
    lines.append("")
    for boundary, wire in zip(design.outputs, design.ends, strict=True):
        name = design.label(wire)
        lines += [
            f"  assign {boundary.name}_data = {name}_data;",
            f"  assign {boundary.name}_valid = {name}_valid;",
            f"  assign {name}_ready = {boundary.name}_ready;",
        ]
    return "\n".join([*lines, "endmodule", ""])


def _declared(design: Design, wire: Wire) -> list[str]:
    name = design.label(wire)
    return [f"  logic {_range(design.stream(wire).width)} {name}_data;", f"  logic {name}_valid, {name}_ready;"]


def _number(value: int) -> str:
    """A parameter's value, with its size if it exceeds 32 bits."""
    return str(value) if -(1 << 31) < value < 1 << 31 else f"{'-' if value < 0 else ''}64'sd{abs(value)}"


def _pace(planned: Schedule | None) -> str:
    if planned is None or planned.stuck:
        return ""
    every, last = f"{planned.interval:.0f}", planned.latency
    return f" A sample every {every} cycles, its last result {last} cycles after its first beat."


def _instance(design: Design, instance: Template, planned: Schedule | None) -> list[str]:
    shape = "×".join(map(str, instance.shape)) or "scalar"
    remark = f"; {instance.remark()}" if instance.remark() else ""
    timing = planned.summary(design, instance) if planned else ""
    lines = [f"  // {instance.node}: {shape}, {instance.outputs[0].label}{remark}{timing and f'; {timing}'}"]
    values = [f".{name}({_number(value)})" for name, value in instance.parameters().items()]
    values += [f'.{m.parameter}("mem/{memory_file(instance, m.parameter)}")' for m in instance.memories()]
    if values:
        lines += [f"  {instance.module} #(", ",\n".join(f"      {v}" for v in values), f"  ) u_{instance.name} ("]
    else:
        lines.append(f"  {instance.module} u_{instance.name} (")
    pins = ["      .clk(clk)", "      .rst(rst)"]
    for k, wire in enumerate(design.wires[instance.name]):
        pins += [f"      .{port('x', k)}_{part}({design.label(wire)}_{part})" for part in ("data", "valid", "ready")]
    names = [design.label(Wire(instance.name, k)) for k in range(len(instance.outputs))]
    if len(names) == 1:
        pins += [f"      .y_{part}({names[0]}_{part})" for part in ("data", "valid", "ready")]
    else:  # several outputs share a port, the first in the lowest bits
        for part in ("data", "valid", "ready"):
            pins.append(f"      .y_{part}({{{', '.join(f'{n}_{part}' for n in reversed(names))}}})")
    return [*lines, ",\n".join(pins), "  );"]
