"""Design → files. The only place that knows how SystemVerilog is written; the modules themselves lie in verilog/rtl."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from espalier.model.errors import EmitError
from espalier.model.files import explained, replacing_folder
from espalier.verilog.design.netlist import Design, Wire
from espalier.verilog.design.template import Template, port
from espalier.verilog.rtl.library import ours, reserved

if TYPE_CHECKING:
    from espalier.verilog.timing.schedule import Schedule  # it brings numba, which nobody needs before

BUILT = ("build/", "waves/")  # what is made from the design, and goes with it
LIST = "files.txt"  # names all that was written, so that the next emission takes away nothing else


@dataclass(frozen=True, slots=True)
class Emitted:
    """What was written: the folder and its files by name."""

    folder: Path
    files: tuple[str, ...]


def texts(design: Design, planned: Schedule | None = None) -> dict[str, str]:
    """File name → content of everything that describes the design; equal designs give equal texts.

    The schedule adds to the comments, to nothing else.
    """
    found = {f"{design.name}.sv": top(design, planned)}
    made = _own_texts(design)
    for module in modules(design):
        found[f"rtl/{module}.sv"] = design.edited.get(module) or made.get(module) or ours(module)
    for instance in design.instances:
        for memory in instance.memories():
            found[f"mem/{memory_file(instance, memory.parameter)}"] = memory.text()
    return found


def _own_texts(design: Design) -> dict[str, str]:
    """The modules that the instances bring, each once and none by the name of another; raises EmitError."""
    made: dict[str, str] = {}
    taken = reserved() | {design.name}
    for instance in design.instances:
        for module, text in instance.texts().items():
            if module in taken or made.setdefault(module, text) != text:
                text = f"{instance.node} brings a module {module}; the design has another of that name."
                raise EmitError(text, "Give the plug-in's module another name.", instance.node)
    return made


def modules(design: Design) -> tuple[str, ...]:
    """The modules that the design needs, of the library or made for it, sorted."""
    return tuple(sorted({m for i in design.instances for m in (i.module, *i.uses())}))


def memory_file(instance: Template, parameter: str) -> str:
    """The file that a memory's words lie in."""
    return f"{instance.name}_{parameter.removesuffix('_FILE').lower()}.mem"


def write(design: Design, folder: Path, more: dict[str, str] | None = None, planned: Schedule | None = None) -> Emitted:
    """All files at once: a folder that is there already is replaced when the new one is whole, or left as it was.

    Raises EmitError for a folder that holds something else.
    """
    folder = folder.resolve()
    files = {**texts(design, planned), **(more or {})}
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
    """Whether all that lies there was written by an emission before; what was built there does not count."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise EmitError(f"{folder} is a file.", "Name a folder.")
    held = {str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir()}
    known = set((folder / LIST).read_text().splitlines()) if LIST in held else set[str]()
    foreign = sorted(name for name in held - known if not known or not name.startswith(BUILT))
    if foreign:
        text = f"The folder {folder} holds other files, such as {foreign[0]}."
        raise EmitError(text, "Name an empty or a new one, or move them away.")


def _range(width: int) -> str:
    return f"[{width - 1}:0]"


def top(design: Design, planned: Schedule | None = None) -> str:
    """The top module: instances and wires only."""
    lines = [
        f"// {design.name}: generated; change the graph, not this file.{_pace(planned)}",
        f"module {design.name} (",
    ]
    ports = ["    input  logic clk", "    input  logic rst"]
    for boundary, way in [*((b, "in") for b in design.inputs), *((b, "out") for b in design.outputs)]:
        data, back = ("input ", "output") if way == "in" else ("output", "input ")
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
    """A parameter's value: one beyond 32 bits needs its size."""
    return str(value) if -(1 << 31) < value < 1 << 31 else f"{'-' if value < 0 else ''}64'sd{abs(value)}"


def _pace(planned: Schedule | None) -> str:
    if planned is None or planned.stuck:
        return ""
    return f" A sample every {planned.interval:.0f} cycles, its last result after {planned.latency}."


def _instance(design: Design, instance: Template, planned: Schedule | None) -> list[str]:
    shape = "×".join(map(str, instance.shape)) or "scalar"
    remark = f"; {instance.remark()}" if instance.remark() else ""
    when = planned.told(design, instance) if planned else ""
    lines = [f"  // {instance.node}: {shape}, {instance.outputs[0].label}{remark}{when and f'; {when}'}"]
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
    else:  # several outputs are one port each way, the first in the lowest bits
        for part in ("data", "valid", "ready"):
            pins.append(f"      .y_{part}({{{', '.join(f'{n}_{part}' for n in reversed(names))}}})")
    return [*lines, ",\n".join(pins), "  );"]
