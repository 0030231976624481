// linear_block_weights: linear_blocks for a x in fixed point, of weights with exponents for blocks; the same cycles.
module linear_block_weights #(
    parameter int IN_SIZE  = 16,
    parameter int OUT_SIZE = 16,
    parameter int PAR_IN   = 4,
    parameter int PAR_OUT  = 4,
    parameter int X_W = 8,
    parameter int X_S = 1,                       // 1: x is signed
    parameter int W_W = 8,
    parameter int W_STEPS = 4,                   // beats of a block of weights
    parameter int W_MOST = 7,                    // the largest of their exponents
    parameter int ACC_W = 24,
    parameter int ACC_F = 10,
    parameter int P_SHIFT = 0,                   // places from a product's fraction to the accumulator's
    parameter int Y_W = 8,
    parameter int Y_F = 4,
    parameter int Y_S = 1,
    parameter int MODE = 1,
    parameter W_FILE = "w.mem",                  // words: out block, in block
    parameter E_FILE = "e.mem",                  // exponents of weights: out block, block of weights
    parameter B_FILE = "b.mem"
) (
    input  logic                   clk,
    input  logic                   rst,
    input  logic [PAR_IN*X_W-1:0]  x_data,
    input  logic                   x_valid,
    output logic                   x_ready,
    output logic [PAR_OUT*Y_W-1:0] y_data,
    output logic                   y_valid,
    input  logic                   y_ready
);
  logic unused;
  linear_blocks #(
      .IN_SIZE(IN_SIZE), .OUT_SIZE(OUT_SIZE), .PAR_IN(PAR_IN), .PAR_OUT(PAR_OUT), .X_W(X_W), .X_S(X_S), .XE(0),
      .X_STEPS(IN_SIZE / PAR_IN), .X_MOST(0), .BASE(0), .DROP(0), .W_W(W_W), .W_STEPS(W_STEPS), .W_MOST(W_MOST),
      .ACC_W(ACC_W), .ACC_F(ACC_F), .P_SHIFT(P_SHIFT), .Y_W(Y_W), .Y_F(Y_F), .Y_S(Y_S), .MODE(MODE),
      .W_FILE(W_FILE), .E_FILE(E_FILE), .B_FILE(B_FILE)
  ) u_blocks (
      .clk(clk),
      .rst(rst),
      .x_data(x_data),
      .x_valid(x_valid),
      .x_ready(x_ready),
      .x1_data(8'd0),
      .x1_valid(1'b0),
      .x1_ready(unused),
      .y_data(y_data),
      .y_valid(y_valid),
      .y_ready(y_ready)
  );
endmodule
