// resize: PAR_IN elements per beat in, PAR_OUT a beat out, in the same order.
// Beats gather in a register of lcm(PAR_IN, PAR_OUT) elements, which then moves to another one to be handed out, so
// that a group takes max(lcm/PAR_IN, lcm/PAR_OUT) cycles. It is filled by shifting, which takes no tables.
module resize #(
    parameter int PAR_IN  = 2,
    parameter int PAR_OUT = 3,
    parameter int W = 8
) (
    input  logic                 clk,
    input  logic                 rst,
    input  logic [PAR_IN*W-1:0]  x_data,
    input  logic                 x_valid,
    output logic                 x_ready,
    output logic [PAR_OUT*W-1:0] y_data,
    output logic                 y_valid,
    input  logic                 y_ready
);
  function automatic int common(input int a, input int b);
    common = a;
    while (common % b != 0) common = common + a;
  endfunction
  localparam int G = common(PAR_IN, PAR_OUT);
  localparam int FILLS = G / PAR_IN;
  localparam int DRAINS = G / PAR_OUT;
  localparam int F_W = (FILLS > 1) ? $clog2(FILLS) : 1;
  localparam int D_W = (DRAINS > 1) ? $clog2(DRAINS) : 1;

  logic [G*W-1:0] held, pushed, given;
  logic [F_W-1:0] fill;
  logic [D_W-1:0] drain;
  logic full, move, take, last;

  assign last = (drain == D_W'(DRAINS - 1));
  assign move = full & (~y_valid | (y_ready & last));
  assign x_ready = ~full | move;
  assign take = x_valid & x_ready;
  if (FILLS == 1) begin : g_whole
    assign pushed = x_data;
  end else begin : g_shift
    assign pushed = {x_data, held[G*W-1:PAR_IN*W]};
  end
  if (DRAINS == 1) begin : g_all
    assign y_data = given;
  end else begin : g_turns
    for (genvar b = 0; b < PAR_OUT * W; b++) begin : g_bit  // bit by bit, which becomes the slices' multiplexers
      logic [DRAINS-1:0] turns;
      for (genvar d = 0; d < DRAINS; d++) begin : g_turn
        assign turns[d] = given[d*PAR_OUT*W+b];
      end
      assign y_data[b] = turns[drain];
    end
  end

  always_ff @(posedge clk) begin
    if (take) held <= pushed;
    if (move) given <= held;
  end
  always_ff @(posedge clk) begin
    if (rst) begin
      fill <= '0;
      full <= 1'b0;
    end else if (take) begin
      fill <= (fill == F_W'(FILLS - 1)) ? '0 : fill + 1'b1;
      full <= (fill == F_W'(FILLS - 1));
    end else if (move) begin
      full <= 1'b0;
    end
  end
  always_ff @(posedge clk) begin
    if (rst) begin
      drain <= '0;
      y_valid <= 1'b0;
    end else if (move) begin
      drain <= '0;
      y_valid <= 1'b1;
    end else if (y_valid & y_ready) begin
      drain <= last ? '0 : drain + 1'b1;
      y_valid <= ~last;
    end
  end
endmodule
