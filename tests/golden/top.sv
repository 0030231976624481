// top: generated; change the graph, not this file. A sample every 64 cycles, its last result 82 cycles after its first beat.
module top (
    input  logic clk,
    input  logic rst,
    input  logic [7:0] x_data,
    input  logic x_valid,
    output logic x_ready,
    output logic [7:0] y_data,
    output logic y_valid,
    input  logic y_ready
);
  // x: x, 2×8 int 4/0, 2 a beat
  logic [3:0] a_y_data;
  logic a_y_valid, a_y_ready;
  logic [3:0] a_y_fifo_y_data;
  logic a_y_fifo_y_valid, a_y_fifo_y_ready;
  logic [7:0] b_y_data;
  logic b_y_valid, b_y_ready;

  // a: scalar, 2×8 int 4/0, 1 a beat; 64 cycles a sample (100%), first beat after 8
  linear #(
      .IN_SIZE(8),
      .OUT_SIZE(8),
      .PAR_IN(2),
      .PAR_OUT(1),
      .TOKENS(1),
      .GROUPS(1),
      .X_W(4),
      .X_S(1),
      .W_W(4),
      .B_W(10),
      .ACC_W(10),
      .ACC_F(0),
      .P_SHIFT(0),
      .Y_W(4),
      .Y_F(0),
      .Y_S(1),
      .MODE(1),
      .W_FILE("mem/a_w.mem"),
      .B_FILE("mem/a_b.mem")
  ) u_a (
      .clk(clk),
      .rst(rst),
      .x_data(x_data),
      .x_valid(x_valid),
      .x_ready(x_ready),
      .y_data(a_y_data),
      .y_valid(a_y_valid),
      .y_ready(a_y_ready)
  );

  // a: scalar, 2×8 int 4/0, 1 a beat; peak fill 2 beats, first beat after 1
  fifo #(
      .W(4),
      .DEPTH(3)
  ) u_a_y_fifo (
      .clk(clk),
      .rst(rst),
      .x_data(a_y_data),
      .x_valid(a_y_valid),
      .x_ready(a_y_ready),
      .y_data(a_y_fifo_y_data),
      .y_valid(a_y_fifo_y_valid),
      .y_ready(a_y_fifo_y_ready)
  );

  // b: 2×4, 2×4 int 4/0, 2 a beat; 32 cycles a sample (50%), first beat after 33
  linear #(
      .IN_SIZE(8),
      .OUT_SIZE(4),
      .PAR_IN(1),
      .PAR_OUT(2),
      .TOKENS(1),
      .GROUPS(1),
      .X_W(4),
      .X_S(1),
      .W_W(4),
      .B_W(10),
      .ACC_W(10),
      .ACC_F(0),
      .P_SHIFT(0),
      .Y_W(4),
      .Y_F(0),
      .Y_S(1),
      .MODE(1),
      .W_FILE("mem/b_w.mem"),
      .B_FILE("mem/b_b.mem")
  ) u_b (
      .clk(clk),
      .rst(rst),
      .x_data(a_y_fifo_y_data),
      .x_valid(a_y_fifo_y_valid),
      .x_ready(a_y_fifo_y_ready),
      .y_data(b_y_data),
      .y_valid(b_y_valid),
      .y_ready(b_y_ready)
  );

  assign y_data = b_y_data;
  assign y_valid = b_y_valid;
  assign b_y_ready = y_ready;
endmodule
