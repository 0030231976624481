"""A clock for a design: place and route by nextpnr, for ECP5 and iCE40, whose tools are free; nobody's are for Xilinx.

An iCE40 has few pins, so that there the ports are registers of a harness, filled and read bit by bit.
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
MHZ = 200  # that is tried for
_FOUND = re.compile(r"Max frequency for clock[^:]*:\s*([\d.]+) MHz")


def router(family: str) -> Tool:
    """nextpnr for a family; raises SimulateError with how to install it."""
    if family not in FAMILIES:
        text = f"There is no free place and route for {family}."
        raise SimulateError(text, "Choose ecp5 or ice40 for a clock, or run synth/vivado.tcl in Vivado.")
    tool = nextpnr(family)
    if tool is None:
        raise SimulateError(f"There is no nextpnr-{family} here.", f"Install it: pip install yowasp-nextpnr-{family}.")
    return tool


def arguments(family: str, netlist: str) -> list[str]:
    """What nextpnr is to do with a netlist."""
    return [*FAMILIES[family], "--json", netlist, "--timing-allow-fail", "--freq", str(MHZ), "--seed", "1"]


def frequency(said: str) -> float | None:
    """MHz of the clock by nextpnr's last report; None where there is no path between registers."""
    found = _FOUND.findall(said)
    return float(found[-1]) if found else None


def netlist_script(design: Design, sources: tuple[str, ...], target: str) -> str:
    """Commands for Yosys that make a flat netlist with the harness around it."""
    return "\n".join([
        f"read_verilog -sv -defer {' '.join(sources)}", f"read_verilog -sv {design.name}.sv synth/{HARNESS}.sv",
        f"hierarchy -check -top {HARNESS}", f"synth_ice40 -dsp -top {HARNESS}",
        "setattr -mod -unset keep_hierarchy", "flatten", f"write_json {target}", "",
    ])  # fmt: skip


def harness(design: Design) -> str:
    """A top with four pins: inputs are shifted in, outputs are caught in registers and shifted out."""
    ins, outs, pins = _ports(design)
    return f"""// Generated: {design.name} between registers that are filled and read bit by bit, for place and route.
module {HARNESS} (
    input  logic clk,
    input  logic rst,
    input  logic bit_in,
    output logic bit_out
);
  logic [{ins}:0] into;  // the highest bit says that the outputs are caught
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
    """Bits that go in and come out, and the pins."""
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
    """The harness among the files of a synthesis."""
    (folder / "synth").mkdir(exist_ok=True)
    (folder / "synth" / f"{HARNESS}.sv").write_text(harness(design))
