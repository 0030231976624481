// walk: an address that goes through six nested loops, the innermost first, and begins again after the last.
// Loop l runs C<l> times; D<l> is what is added when it is the one that goes on (the loops within begin again).
module walk #(
    parameter int A_W = 8,
    parameter int START = 0,
    parameter int C0 = 1,
    parameter int C1 = 1,
    parameter int C2 = 1,
    parameter int C3 = 1,
    parameter int C4 = 1,
    parameter int C5 = 1,
    parameter int D0 = 0,
    parameter int D1 = 0,
    parameter int D2 = 0,
    parameter int D3 = 0,
    parameter int D4 = 0,
    parameter int D5 = 0
) (
    input  logic           clk,
    input  logic           rst,
    input  logic           step,
    output logic [A_W-1:0] at,
    output logic           last                  // this is the last address of the round
);
  logic [5:0] wrap;                              // the loop is at its last turn
  assign last = &wrap;
  for (genvar l = 0; l < 6; l++) begin : g_loop
    localparam int C = (l == 0) ? C0 : (l == 1) ? C1 : (l == 2) ? C2 : (l == 3) ? C3 : (l == 4) ? C4 : C5;
    if (C > 1) begin : g_count
      localparam int K_W = $clog2(C);
      logic [K_W-1:0] k;
      logic below;                               // all loops within are at their last turn
      assign below = &(wrap | (6'h3f << l));
      assign wrap[l] = (k == K_W'(C - 1));
      always_ff @(posedge clk) begin
        if (rst) k <= '0;
        else if (step & below) k <= wrap[l] ? '0 : k + 1'b1;
      end
    end else begin : g_once
      assign wrap[l] = 1'b1;
    end
  end

  logic [A_W-1:0] more;
  assign more = ~wrap[0] ? A_W'(D0) : ~wrap[1] ? A_W'(D1) : ~wrap[2] ? A_W'(D2)
              : ~wrap[3] ? A_W'(D3) : ~wrap[4] ? A_W'(D4) : A_W'(D5);
  always_ff @(posedge clk) begin
    if (rst) at <= A_W'(START);
    else if (step) at <= last ? A_W'(START) : at + more;
  end
endmodule
