// lut: y = table[x], each code of x by itself; LANES elements per beat; one cycle.
// Words: x as an unsigned number, from 0 up.
module lut #(
    parameter int LANES = 1,
    parameter int X_W = 8,
    parameter int Y_W = 8,
    parameter T_FILE = "t.mem"
) (
    input  logic                 clk,
    input  logic                 rst,
    input  logic [LANES*X_W-1:0] x_data,
    input  logic                 x_valid,
    output logic                 x_ready,
    output logic [LANES*Y_W-1:0] y_data,
    output logic                 y_valid,
    input  logic                 y_ready
);
  logic [Y_W-1:0] words [0:2**X_W-1];
  initial $readmemh(T_FILE, words);
  logic ce;
  assign ce = ~y_valid | y_ready;
  assign x_ready = ce;
  always_ff @(posedge clk) begin
    if (rst) y_valid <= 1'b0;
    else if (ce) y_valid <= x_valid;
  end
  for (genvar i = 0; i < LANES; i++) begin : g_lane
    always_ff @(posedge clk) if (ce) y_data[i*Y_W+:Y_W] <= words[x_data[i*X_W+:X_W]];
  end
endmodule
