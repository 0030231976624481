"""Test bench of a design: drives the inputs from files with random stalls, and logs every beat of every stream.

The same text for Verilator and Icarus. A log line is the beat in hexadecimal and the cycle of its transfer.
"""

from __future__ import annotations

from espalier.verilog.design.netlist import Design, Wire

STALLS = ("none", "input", "output", "both")  # sides that stall at random
LOCKED = 4  # multiple of `quiet` after which an unfinished simulation counts as stuck
QUIET = 64  # cycles added to a frame of the slowest engine


def quiet(design: Design) -> int:
    """Cycles without a transfer after which a design is idle: longer than a frame of the slowest engine."""
    return QUIET + max((e.steps for i in design.instances for e in i.engines()), default=0)


def bench(design: Design, frames: int) -> str:
    """Module `bench` with input clk and outputs `done` (after the last beat) and `stuck` (deadlock).

    Plusargs: +stall=0…3 (bits: inputs, outputs), +seed=N.
    """
    body = [_head(design), *(_source(design, k, frames) for k in range(len(design.inputs)))]
    body += [_log(design, wire) for wire in design.all_wires()]
    body.append(_handshakes(design))
    return "\n".join([*body, _tail(design, frames), "endmodule", ""])


def _head(design: Design) -> str:
    lines = [
        "// Generated: drives the design from files and logs every beat of every stream.",
        "module bench (",
        "    input  logic clk,",
        "    output logic done,",
        "    output logic stuck",
        ");",
        "  int stall, seed, cycle;",
        "  logic rst, rst_before;",
        "  initial begin",
        '    if (!$value$plusargs("stall=%d", stall)) stall = 0;',
        '    if (!$value$plusargs("seed=%d", seed)) seed = 1;',
        "    cycle = 0;",
        "    rst = 1'b1;",
        "    rst_before = 1'b1;",
        "  end",
        "  always_ff @(posedge clk) begin",
        "    cycle <= cycle + 1;",
        "    rst <= (cycle < 3);",
        "    rst_before <= rst;",
        "  end",
        "  // a new random word each cycle (xorshift)",
        "  logic [31:0] noise, n1, n2;",
        "  initial noise = 32'd2463534242;",
        "  assign n1 = noise ^ (noise << 13);",
        "  assign n2 = n1 ^ (n1 >> 17);",
        "  always_ff @(posedge clk) noise <= (cycle == 1) ? (n2 ^ (n2 << 5) ^ 32'(seed)) : (n2 ^ (n2 << 5));",
    ]
    for boundary in (*design.inputs, *design.outputs):
        lines += [
            f"  logic [{boundary.stream.width - 1}:0] {boundary.name}_data;",
            f"  logic {boundary.name}_valid, {boundary.name}_ready;",
        ]
    names = [b.name for b in (*design.inputs, *design.outputs)]
    pins = [f".{n}_{part}({n}_{part})" for n in names for part in ("data", "valid", "ready")]
    return "\n".join([*lines, f"  {design.name} dut (.clk(clk), .rst(rst), " + ", ".join(pins) + ");"])


def _source(design: Design, k: int, frames: int) -> str:
    boundary = design.inputs[k]
    name, beats = boundary.name, boundary.stream.beats * frames
    return f"""
  // {name}: a beat is held until its transfer; a stall delays the next one
  logic [{boundary.stream.width - 1}:0] {name}_beats [0:{beats - 1}];
  initial $readmemh("{name}.hex", {name}_beats);
  int {name}_at;
  initial {name}_at = 0;
  initial {name}_valid = 1'b0;
  initial {name}_data = '0;
  always_ff @(posedge clk) begin
    if (rst) {name}_valid <= 1'b0;
    else if (~{name}_valid | {name}_ready) begin
      if ({name}_at < {beats} && !(stall[0] && noise[{4 * k % 28}+:2] != 2'b00)) begin
        {name}_data <= {name}_beats[{name}_at];
        {name}_valid <= 1'b1;
        {name}_at <= {name}_at + 1;
      end else {name}_valid <= 1'b0;
    end
  end"""


def _log(design: Design, wire: Wire) -> str:
    name, at = design.label(wire), _at(design, wire)
    return f"""
  int f_{name};
  initial f_{name} = $fopen("{name}.log", "w");
  always_ff @(posedge clk) if (!rst && {at}_valid && {at}_ready) $fwrite(f_{name}, "%h %0d\\n", {at}_data, cycle);"""


def _handshakes(design: Design) -> str:
    pairs = [f"{at}_valid, {at}_ready" for wire in design.all_wires() for at in (_at(design, wire),)]
    high = 2 * len(pairs) - 1
    return f"""
  // with +watch: valid and ready of every stream, whenever one of them changes
  logic [{high}:0] shakes, shakes_before;
  logic watch;
  int f_shakes;
  assign shakes = {{{", ".join(reversed(pairs))}}};
  initial begin
    watch = 1'b0;
    if ($test$plusargs("watch") != 0) begin
      watch = 1'b1;
      f_shakes = $fopen("handshakes.log", "w");
    end
  end
  always_ff @(posedge clk) if (watch && !rst) begin
    shakes_before <= shakes;
    if (shakes !== shakes_before || rst_before) $fwrite(f_shakes, "%h %h\\n", cycle, shakes);
  end"""


def _tail(design: Design, frames: int) -> str:
    lines, ends = [], []
    for k, boundary in enumerate(design.outputs):
        name, beats = boundary.name, boundary.stream.beats * frames
        lines.append(f"""
  int {name}_seen;
  initial {name}_seen = 0;
  initial {name}_ready = 1'b0;
  always_ff @(posedge clk) begin
    {name}_ready <= !(stall[1] && noise[{(4 * k + 14) % 28}+:2] != 2'b00);
    if (!rst && {name}_valid && {name}_ready) {name}_seen <= {name}_seen + 1;
  end""")
        ends.append(f"{name}_seen >= {beats}")
    taken = [f"({at}_valid && {at}_ready)" for wire in design.all_wires() for at in (_at(design, wire),)]
    lines.append(f"""
  // streams without an effect on the outputs may still move: done after a while without a transfer
  int quiet;
  initial quiet = 0;
  always_ff @(posedge clk) quiet <= ({" || ".join(taken)}) ? 0 : quiet + 1;
  assign done = quiet > {quiet(design)} && {" && ".join(ends)};
  assign stuck = quiet > {LOCKED * quiet(design)} && !done;""")
    return "\n".join(lines)


def _at(design: Design, wire: Wire) -> str:
    name = design.label(wire)
    return f"dut.{name}" if wire.source else name


DRIVER = """// Clock driver: runs until the bench is done or stuck, or for `limit` cycles.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include "Vbench.h"
#include "verilated.h"
#if VM_TRACE_FST
#include "verilated_fst_c.h"
typedef VerilatedFstC Trace;
const char* const TRACE = "waves.fst";
#elif VM_TRACE
#include "verilated_vcd_c.h"
typedef VerilatedVcdC Trace;
const char* const TRACE = "waves.vcd";
#endif

int main(int argc, char** argv) {
  auto context = std::make_unique<VerilatedContext>();
  context->commandArgs(argc, argv);
  unsigned long long limit = 1000000000ULL;
  for (int i = 1; i < argc; i++)
    if (!std::strncmp(argv[i], "+limit=", 7)) limit = std::strtoull(argv[i] + 7, nullptr, 10);
#if VM_TRACE
  context->traceEverOn(true);
#endif
  auto bench = std::make_unique<Vbench>(context.get());
#if VM_TRACE
  Trace trace;
  bool traced = false;
  for (int i = 1; i < argc; i++) traced = traced || !std::strcmp(argv[i], "+watch");
  if (traced) {
    bench->trace(&trace, 4);  // bench, top, instances
    trace.open(TRACE);
  }
#endif
  unsigned long long cycles = 0;
  bench->clk = 0;
  bench->eval();
  while (!bench->done && !bench->stuck && cycles < limit) {
    for (int level = 1; level >= 0; level--) {
      bench->clk = level;
      bench->eval();
      context->timeInc(1);
#if VM_TRACE
      if (traced) trace.dump(context->time());
#endif
    }
    if (++cycles % 100000 == 0) {
      std::printf("cycle %llu\\n", cycles);
      std::fflush(stdout);
    }
  }
#if VM_TRACE
  if (traced) trace.close();
#endif
  const bool done = bench->done;
  bench->final();
  std::printf("%s %llu\\n", done ? "done" : "stuck", cycles);
  return done ? 0 : 3;
}
"""

CLOCK = """// Clock driver for Icarus Verilog: runs until the bench is done or stuck, or for +limit cycles.
`timescale 1ns / 1ps
module clocked;
  logic clk, done, stuck;
  int limit;
  reg [8*16-1:0] trace;
  bench b (.clk(clk), .done(done), .stuck(stuck));
  initial begin
    if ($value$plusargs("trace=%s", trace)) begin
      $dumpfile(trace);
      $dumpvars(3, b);  // bench, top, instances
    end
    if (!$value$plusargs("limit=%d", limit)) limit = 1000000000;
    clk = 1'b0;
    while (done !== 1'b1 && stuck !== 1'b1 && b.cycle < limit) begin
      #1 clk = 1'b1;
      #1 clk = 1'b0;
    end
    if (done === 1'b1) $display("done %0d", b.cycle);
    else $display("stuck %0d", b.cycle);
    $finish;
  end
endmodule
"""
