// row_sums: the sums of a row's elements and of their squares, PAR elements a beat. A beat counts three cycles after it
// came, in the cycle in which `go` says so; sum1 and sum2 then hold the row with it. CENTER 0: sum1 stays 0.
module row_sums #(
    parameter int PAR = 1,
    parameter int CENTER = 1,
    parameter int X_W = 8,
    parameter int X_S = 1,
    parameter int S1_W = 11,
    parameter int S2_W = 19
) (
    input  logic                   clk,
    input  logic [PAR*X_W-1:0]     x,
    input  logic                   first,
    input  logic                   go,
    output logic signed [S1_W-1:0] sum1,
    output logic [S2_W-1:0]        sum2
);
  localparam int XE_W = X_W + 1 - X_S;           // an unsigned x is zero-extended
  function automatic logic signed [XE_W-1:0] wide(input logic [X_W-1:0] v);
    wide = (X_S == 1) ? XE_W'($signed(v)) : XE_W'({1'b0, v});
  endfunction
  logic [PAR*X_W-1:0] xa, xb;
  logic [PAR*2*XE_W-1:0] squares;
  logic [2:0] begins;
  logic signed [S1_W-1:0] beat1, beat1c, held1;
  logic [S2_W-1:0] beat2, beat2c, held2;
  for (genvar i = 0; i < PAR; i++) begin : g_square
    logic signed [2*XE_W-1:0] e;
    assign e = (2 * XE_W)'(wide(xa[i*X_W+:X_W]));
    always_ff @(posedge clk) squares[i*2*XE_W+:2*XE_W] <= e * e;
  end
  always_comb begin
    beat1 = '0;
    beat2 = '0;
    for (int i = 0; i < PAR; i++) begin
      if (CENTER == 1) beat1 = beat1 + S1_W'(wide(xb[i*X_W+:X_W]));
      beat2 = beat2 + S2_W'(squares[i*2*XE_W+:2*XE_W]);
    end
    sum1 = begins[2] ? beat1c : held1 + beat1c;
    sum2 = begins[2] ? beat2c : held2 + beat2c;
  end
  always_ff @(posedge clk) begin
    {xa, xb} <= {x, xa};
    {beat1c, beat2c} <= {beat1, beat2};
    begins <= {begins[1:0], first};
    if (go) {held1, held2} <= {sum1, sum2};
  end
endmodule
