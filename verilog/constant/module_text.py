"""A network of adders as a SystemVerilog module: an `adder` per sum, registers, a `settle` per result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from espalier.verilog.constant.network import Network, Range, form_of
from espalier.verilog.constant.pipeline import Pipeline

FORMS = ("a+b", "a-b", "b-a")


@dataclass(frozen=True, slots=True)
class ResultRounding:
    """Rounding of a sum to a result: `drop` fraction bits (added if negative), ties to even; or a constant code."""

    drop: int = 0
    even: bool = False
    constant: int | None = None


@dataclass(frozen=True, slots=True)
class ModuleSpec:
    """Everything that the module's text depends on; `about`: the lines of its header comment."""

    module: str
    network: Network
    pipeline: Pipeline
    rounding: tuple[ResultRounding, ...]
    x_width: int
    y_width: int
    y_signed: bool
    relu: bool
    about: tuple[str, ...]


def module_text(spec: ModuleSpec) -> str:
    """The SystemVerilog file."""
    lines = [*(f"// {line}" for line in spec.about), f"module {spec.module} ("]
    x, y = len(spec.network.inputs) * spec.x_width, len(spec.network.outputs) * spec.y_width
    ports = [("input  logic", "", "clk"), ("input  logic", "", "rst"), ("input  logic", f"[{x - 1}:0] ", "x_data"),
             ("input  logic", "", "x_valid"), ("output logic", "", "x_ready"),
             ("output logic", f"[{y - 1}:0] ", "y_data"), ("output logic", "", "y_valid"),
             ("input  logic", "", "y_ready")]  # fmt: skip
    lines += [",\n".join(f"    {kind} {wide}{name}" for kind, wide, name in ports), ");"]
    lines += [*_control(spec.pipeline.stages), *_body(spec), "endmodule", ""]
    return "\n".join(lines)


def _control(stages: int) -> list[str]:
    shifted = f"{{live[{stages - 2}:0], x_valid}}" if stages > 1 else "x_valid"
    return [
        "  logic ce;                                      // the pipeline moves",
        f"  logic [{stages - 1}:0] live;",
        "  assign ce = ~y_valid | y_ready;",
        "  assign x_ready = ce;",
        f"  assign y_valid = live[{stages - 1}];",
        "  always_ff @(posedge clk) begin",
        "    if (rst) live <= '0;",
        f"    else if (ce) live <= {shifted};",
        "  end",
    ]


def _body(spec: ModuleSpec) -> Iterator[str]:
    net, ranges = spec.network, spec.network.ranges()
    used = {v for a in net.adders for v in (a.a, a.b)}
    used |= {o.value for o, s in zip(net.outputs, spec.rounding, strict=True) if s.constant is None}
    unused: list[str] = []
    yield ""
    for k, span in enumerate(net.inputs):
        bits = form_of(span).width
        low = k * spec.x_width
        if k in used:
            yield f"  logic [{bits - 1}:0] v{k};"
            yield f"  assign v{k} = x_data[{low}+:{bits}];"
            yield from _registers(spec, k, bits)
            low, bits = low + bits, spec.x_width - bits
        else:
            bits = spec.x_width
        if bits:
            unused.append(f"x_data[{low}+:{bits}]")
    if unused:
        yield "  logic unused;"
        yield f"  assign unused = &{{1'b0, {', '.join(unused)}}};"
    yield from _adders(spec, ranges)
    yield from _results(spec, ranges)


def _adders(spec: ModuleSpec, ranges: list[Range]) -> Iterator[str]:
    net, stages = spec.network, spec.pipeline.stage
    for k, adder in enumerate(net.adders):
        value = net.first + k
        here, bits = stages[value], form_of(ranges[value]).width
        if here != (stages[value - 1] if k else -1):
            yield f"\n  // ---- stage {here}"
        a, b = (form_of(ranges[v]) for v in (adder.a, adder.b))
        yield f"  logic [{bits - 1}:0] v{value};"
        yield (
            f"  adder #(.A_W({a.width}), .A_S({int(a.signed)}), .B_W({b.width}), .B_S({int(b.signed)}), "
            f".SHIFT({adder.shift}), .FORM({FORMS.index(adder.form)}), .Y_W({bits})) u_v{value} (\n"
            f"      .a({_name(spec, ranges, adder.a, here)}), .b({_name(spec, ranges, adder.b, here)}), .y(v{value})\n"
            "  );"
        )
        yield from _registers(spec, value, bits)


def _registers(spec: ModuleSpec, value: int, bits: int) -> Iterator[str]:
    """Delay registers of a value up to the last stage that reads it."""
    first, end = spec.pipeline.stage[value], spec.pipeline.last[value]
    if end > first:
        names = [f"v{value}_{k}" for k in range(first + 1, end + 1)]
        yield f"  logic [{bits - 1}:0] {', '.join(names)};"
        yield _shift_register([f"v{value}", *names])


def _name(spec: ModuleSpec, ranges: list[Range], value: int, stage: int) -> str:
    """Signal name of a value in a stage."""
    if len(spec.network.inputs) <= value < spec.network.first:
        number, form = spec.network.constants[value - len(spec.network.inputs)], form_of(ranges[value])
        return f"{form.width}'d{number % (1 << form.width)}"
    first = spec.pipeline.stage[value]
    return f"v{value}_{stage}" if stage > first else f"v{value}"


def _results(spec: ModuleSpec, ranges: list[Range]) -> Iterator[str]:
    """Round and saturate each result after its sum, then delay it to the last stage."""
    wide = spec.y_width
    ends: list[str] = []
    yield "\n  // ---- results"
    for k, (out, rounding) in enumerate(zip(spec.network.outputs, spec.rounding, strict=True)):
        if rounding.constant is not None:
            ends.append(f"{wide}'d{rounding.constant % (1 << wide)}")
            continue
        form, done = form_of(ranges[out.value]), spec.pipeline.done[k]
        names = [f"y{k}", *(f"y{k}_{n}" for n in range(done + 1, spec.pipeline.stages + 1))]
        ends.append(names[-1])
        yield f"  logic [{wide - 1}:0] {', '.join(names)};"
        yield (
            f"  settle #(.IN_W({form.width}), .IN_S({int(form.signed)}), .DROP({max(rounding.drop, 0)}), "
            f".UP({max(-rounding.drop, 0)}), .EVEN({int(rounding.even)}), .OUT_W({wide}), "
            f".OUT_S({int(spec.y_signed)}), .RELU({int(spec.relu)})) u_y{k} (\n"
            f"      .x({_name(spec, ranges, out.value, done)}), .y(y{k})\n"
            "  );"
        )
        yield _shift_register(names)
    yield f"  assign y_data = {{{', '.join(reversed(ends))}}};"


def _shift_register(names: list[str]) -> str:
    """Shift register: each name takes the value of the one before it."""
    sources, delayed = names[:-1], names[1:]
    sides = (f"{{{', '.join(v)}}}" if len(v) > 1 else v[0] for v in (delayed, sources))
    return f"  always_ff @(posedge clk) if (ce) {' <= '.join(sides)};"
