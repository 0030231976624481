// softmax: softmax_rows without a mask.
module softmax #(
    parameter int SIZE = 4,
    parameter int PAR = 1,
    parameter int BANKS = 4,
    parameter int X_W = 8,
    parameter int X_S = 1,
    parameter int LOG2E = 23637,
    parameter int DROP = 10,
    parameter int T_BITS = 8,
    parameter int E_F = 14,
    parameter int R_F = 15,
    parameter int BITS = 1,
    parameter int Y_W = 8,
    parameter int Y_F = 8,
    parameter int Y_S = 0,
    parameter int MODE = 1,
    parameter T_FILE = "t.mem"
) (
    input  logic               clk,
    input  logic               rst,
    input  logic [PAR*X_W-1:0] x_data,
    input  logic               x_valid,
    output logic               x_ready,
    output logic [PAR*Y_W-1:0] y_data,
    output logic               y_valid,
    input  logic               y_ready
);
  logic unused_ready;
  softmax_rows #(
      .SIZE(SIZE), .PAR(PAR), .BANKS(BANKS), .X_W(X_W), .X_S(X_S), .KEEP(1), .LOG2E(LOG2E), .DROP(DROP),
      .T_BITS(T_BITS), .E_F(E_F), .R_F(R_F), .BITS(BITS), .Y_W(Y_W), .Y_F(Y_F), .Y_S(Y_S), .MODE(MODE), .T_FILE(T_FILE)
  ) u_rows (
      .clk(clk),
      .rst(rst),
      .x_data(x_data),
      .x_valid(x_valid),
      .x_ready(x_ready),
      .x1_data({PAR{1'b1}}),
      .x1_valid(1'b1),
      .x1_ready(unused_ready),
      .y_data(y_data),
      .y_valid(y_valid),
      .y_ready(y_ready)
  );
endmodule
