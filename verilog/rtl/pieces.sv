// pieces: a function of one number as straight lines: the upper bits of x choose one, the LOW lower bits go along it.
// y = (base * 2^SHIFT + slope * low) in another format; LANES elements per beat; 4 cycles.
module pieces #(
    parameter int LANES = 1,
    parameter int X_W = 12,
    parameter int LOW = 6,                       // bits along a line, above 0
    parameter int B_W = 12,                      // base
    parameter int M_W = 12,                      // slope
    parameter int SHIFT = 4,                     // places from the base's fraction to the sum's
    parameter int S_W = 20,                      // of the sum
    parameter int S_F = 12,                      // its fraction
    parameter int Y_W = 8,
    parameter int Y_F = 4,
    parameter int Y_S = 1,
    parameter int MODE = 1,
    parameter T_FILE = "t.mem"                   // words {slope, base} by the upper bits of x as an unsigned number
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
  logic [M_W+B_W-1:0] words [0:2**(X_W-LOW)-1];
  initial $readmemh(T_FILE, words);
  logic ce, v1, v2, v3;
  assign ce = ~y_valid | y_ready;
  assign x_ready = ce;
  always_ff @(posedge clk) begin
    if (rst) {v1, v2, v3, y_valid} <= '0;
    else if (ce) {v1, v2, v3, y_valid} <= {x_valid, v1, v2, v3};
  end
  for (genvar i = 0; i < LANES; i++) begin : g_lane
    logic [M_W+B_W-1:0] word;
    logic [LOW-1:0] low;
    logic signed [M_W-1:0] slope;
    logic signed [LOW:0] along;
    logic signed [B_W-1:0] base;
    logic signed [M_W+LOW:0] p;
    logic signed [S_W-1:0] s;
    logic [Y_W-1:0] y;
    assign slope = word[B_W+:M_W];
    assign along = {1'b0, low};
    always_ff @(posedge clk) if (ce) begin
      word <= words[x_data[i*X_W+LOW+:X_W-LOW]];
      low <= x_data[i*X_W+:LOW];
      p <= slope * along;
      base <= word[B_W-1:0];
      s <= (S_W'(base) <<< SHIFT) + S_W'(p);
    end
    requant #(.IN_W(S_W), .IN_F(S_F), .OUT_W(Y_W), .OUT_F(Y_F), .OUT_S(Y_S), .MODE(MODE)) u_requant (
        .x(s),
        .y(y)
    );
    always_ff @(posedge clk) if (ce) y_data[i*Y_W+:Y_W] <= y;
  end
endmodule
