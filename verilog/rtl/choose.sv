// choose: element by element x1 where the bit x is set, x2 where it is not, in another format.
// LANES elements per beat; all streams move together; 2 cycles.
module choose #(
    parameter int LANES = 1,
    parameter int X1_W = 8,
    parameter int X1_S = 1,                      // 1: signed
    parameter int X1_UP = 0,                     // places to the result's fraction
    parameter int X2_W = 8,
    parameter int X2_S = 1,
    parameter int X2_UP = 0,
    parameter int S_W = 9,                       // of what holds both
    parameter int S_F = 4,
    parameter int Y_W = 8,
    parameter int Y_F = 4,
    parameter int Y_S = 1,
    parameter int MODE = 1
) (
    input  logic                  clk,
    input  logic                  rst,
    input  logic [LANES-1:0]      x_data,
    input  logic                  x_valid,
    output logic                  x_ready,
    input  logic [LANES*X1_W-1:0] x1_data,
    input  logic                  x1_valid,
    output logic                  x1_ready,
    input  logic [LANES*X2_W-1:0] x2_data,
    input  logic                  x2_valid,
    output logic                  x2_ready,
    output logic [LANES*Y_W-1:0]  y_data,
    output logic                  y_valid,
    input  logic                  y_ready
);
  localparam int A_W = X1_W + 1 - X1_S;          // an unsigned number is zero-extended
  localparam int B_W = X2_W + 1 - X2_S;
  logic ce, v1;
  assign ce = ~y_valid | y_ready;
  assign x_ready = ce & x1_valid & x2_valid;
  assign x1_ready = ce & x_valid & x2_valid;
  assign x2_ready = ce & x_valid & x1_valid;
  always_ff @(posedge clk) begin
    if (rst) {v1, y_valid} <= '0;
    else if (ce) {v1, y_valid} <= {x_valid & x1_valid & x2_valid, v1};
  end
  for (genvar i = 0; i < LANES; i++) begin : g_lane
    logic signed [A_W-1:0] a;
    logic signed [B_W-1:0] b;
    logic signed [S_W-1:0] s;
    logic [Y_W-1:0] y;
    if (X1_S == 1) begin : g_signed1
      assign a = x1_data[i*X1_W+:X1_W];
    end else begin : g_unsigned1
      assign a = {1'b0, x1_data[i*X1_W+:X1_W]};
    end
    if (X2_S == 1) begin : g_signed2
      assign b = x2_data[i*X2_W+:X2_W];
    end else begin : g_unsigned2
      assign b = {1'b0, x2_data[i*X2_W+:X2_W]};
    end
    always_ff @(posedge clk) if (ce) s <= x_data[i] ? S_W'(a) <<< X1_UP : S_W'(b) <<< X2_UP;
    requant #(.IN_W(S_W), .IN_F(S_F), .OUT_W(Y_W), .OUT_F(Y_F), .OUT_S(Y_S), .MODE(MODE)) u_requant (
        .x(s),
        .y(y)
    );
    always_ff @(posedge clk) if (ce) y_data[i*Y_W+:Y_W] <= y;
  end
endmodule
