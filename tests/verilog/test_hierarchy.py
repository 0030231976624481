"""What a module's text instantiates, with and without parameters, in loops, among comments that only name modules."""

from __future__ import annotations

from espalier.verilog.rtl.hierarchy import TextInstance, instances_in
from espalier.verilog.rtl.library import RTL, library_text

TEXT = """// part u_old (
module whole (input logic clk);
  part #(
      .W($clog2(8) + (1)), .FILE("part u_file (")  // part u_note (
  ) u_a (
      .clk(clk)
  );
  for (genvar i = 0; i < 4; i++) begin : g_part
    part u_b (.clk(clk));
  end
  /* part u_c (); */
  logic [7:0] part_sum;
endmodule
"""


def test_instances_are_found_with_their_lines() -> None:
    assert instances_in(TEXT, {"part"}) == (TextInstance("u_a", "part", 3, 7), TextInstance("u_b", "part", 9, 9))
    assert instances_in(TEXT, {"other"}) == instances_in(TEXT, ()) == ()
    assert instances_in("part #(.W(1) u_a (", {"part"}) == (), "a text that somebody is writing"


def test_the_library_is_made_of_what_its_texts_say() -> None:
    library = {p.stem for p in RTL.glob("*.sv")}
    found = {m: [i.module for i in instances_in(library_text(m), library - {m})] for m in library}
    assert found["linear"] == ["row_operands", "requant"] and found["row_operands"] == ["row_walk"]
    assert found["softmax_rows"] == ["row_max", "powers", "reciprocal", "requant"] and found["relu"] == []
    assert sum(library_text(m).count(" u_") for m in library) == sum(map(len, found.values())), "none is missed"
