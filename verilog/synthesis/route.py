"""Clock frequency by place and route with nextpnr, for ECP5 and iCE40.

An iCE40 has few pins, so its design is placed in a harness with shift registers at the ports.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from espalier.model.errors import SimulateError
from espalier.verilog.design.netlist import Design
from espalier.verilog.proof.tools import Tool, nextpnr

HARNESS = "harness"
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "ecp5": ("--85k", "--package", "CABGA381", "--out-of-context"),
    "ice40": ("--up5k", "--package", "sg48", "--pcf-allow-unconstrained"),
}
MHZ = 200  # target frequency
_FREQUENCY = re.compile(r"Max frequency for clock[^:]*:\s*([\d.]+) MHz")


def router(family: str) -> Tool:
    """nextpnr for a family; raises SimulateError with an install hint."""
    if family not in FAMILIES:
        text = f"There is no free place and route for {family}."
        raise SimulateError(text, "Choose ecp5 or ice40 for a clock, or run synth/vivado.tcl in Vivado.")
    tool = nextpnr(family)
    if tool is None:
        raise SimulateError(f"nextpnr-{family} is not installed.", f"Install it: pip install yowasp-nextpnr-{family}.")
    return tool


def arguments(family: str, netlist: str) -> list[str]:
    """Arguments of nextpnr for a netlist."""
    return [*FAMILIES[family], "--json", netlist, "--timing-allow-fail", "--freq", str(MHZ), "--seed", "1"]


def frequency(output: str) -> float | None:
    """Clock frequency in MHz from nextpnr's last report; None without a path between registers."""
    reports = _FREQUENCY.findall(output)
    return float(reports[-1]) if reports else None


def netlist_script(design: Design, sources: tuple[str, ...], target: str) -> str:
    """Yosys script for a flat netlist of the design in its harness."""
    return "\n".join([
        f"read_verilog -sv -defer {' '.join(sources)}", f"read_verilog -sv {design.name}.sv synth/{HARNESS}.sv",
        f"hierarchy -check -top {HARNESS}", f"synth_ice40 -dsp -top {HARNESS}",
        "setattr -mod -unset keep_hierarchy", "flatten", f"write_json {target}", "",
    ])  # fmt: skip


def harness(design: Design) -> str:
    """A top with four pins: inputs are shifted in, outputs are captured and shifted out."""
    ins, outs, pins = _ports(design)
    return f"""// Generated: {design.name} between shift registers, for place and route.
module {HARNESS} (
    input  logic clk,
    input  logic rst,
    input  logic bit_in,
    output logic bit_out
);
  logic [{ins}:0] into;  // the highest bit captures the outputs
  logic [{outs - 1}:0] from, held;
  always_ff @(posedge clk) begin
    into <= {{into[{ins - 1}:0], bit_in}};
    held <= into[{ins}] ? from : {{held[{outs - 2}:0], 1'b0}};
  end
  assign bit_out = held[{outs - 1}];
  {design.name} dut (
      .clk(clk),
      .rst(rst),
{pins}
  );
endmodule
"""


def _ports(design: Design) -> tuple[int, int, str]:
    """(input bits, output bits, port connections)."""
    bits = {"into": 0, "from": 0}
    pins: list[str] = []

    def pin(name: str, side: str, width: int) -> None:
        low = bits[side]
        bits[side] += width
        pins.append(f"      .{name}({side}[{low + width - 1}:{low}])")

    for boundary in design.inputs:
        pin(f"{boundary.name}_data", "into", boundary.stream.width)
        pin(f"{boundary.name}_valid", "into", 1)
        pin(f"{boundary.name}_ready", "from", 1)
    for boundary in design.outputs:
        pin(f"{boundary.name}_data", "from", boundary.stream.width)
        pin(f"{boundary.name}_valid", "from", 1)
        pin(f"{boundary.name}_ready", "into", 1)
    return bits["into"], bits["from"], ",\n".join(pins)


def write_harness(design: Design, folder: Path) -> None:
    """Write the harness into the folder of a synthesis."""
    (folder / "synth").mkdir(exist_ok=True)
    (folder / "synth" / f"{HARNESS}.sv").write_text(harness(design))
