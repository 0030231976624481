// row_max: the largest kept element of a row, PAR elements a beat; the lowest number where none is kept. A beat counts
// in the cycle after it came, if `go` says so; `most` then holds the row with it.
module row_max #(
    parameter int PAR = 1,
    parameter int X_W = 8,
    parameter int X_S = 1
) (
    input  logic                       clk,
    input  logic [PAR*X_W-1:0]         x,
    input  logic [PAR-1:0]             kept,
    input  logic                       first,
    input  logic                       go,
    output logic signed [X_W-X_S:0]    most
);
  localparam int XE_W = X_W + 1 - X_S;           // an unsigned x is zero-extended
  localparam logic signed [XE_W-1:0] LOWEST = {1'b1, {(XE_W - 1) {1'b0}}};
  function automatic logic signed [XE_W-1:0] wide(input logic [X_W-1:0] v);
    wide = (X_S == 1) ? XE_W'($signed(v)) : XE_W'({1'b0, v});
  endfunction
  logic [PAR*X_W-1:0] xw;
  logic [PAR-1:0] kw;
  logic begins;
  logic signed [XE_W-1:0] peak;
  always_comb begin
    most = begins ? LOWEST : peak;
    for (int i = 0; i < PAR; i++) if (kw[i] & (wide(xw[i*X_W+:X_W]) > most)) most = wide(xw[i*X_W+:X_W]);
  end
  always_ff @(posedge clk) begin
    xw <= x;
    kw <= kept;
    begins <= first;
    if (go) peak <= most;
  end
endmodule
