// replay: BEATS beats are given as they come, then TIMES - 1 times more; one cycle.
module replay #(
    parameter int W = 8,
    parameter int BEATS = 4,
    parameter int TIMES = 2
) (
    input  logic         clk,
    input  logic         rst,
    input  logic [W-1:0] x_data,
    input  logic         x_valid,
    output logic         x_ready,
    output logic [W-1:0] y_data,
    output logic         y_valid,
    input  logic         y_ready
);
  localparam int B_W = (BEATS > 1) ? $clog2(BEATS) : 1;
  localparam int T_W = (TIMES > 1) ? $clog2(TIMES) : 1;
  logic [W-1:0] kept [0:BEATS-1];
  logic [B_W-1:0] at;
  logic [T_W-1:0] round_of;
  logic ce, first, go, last;
  assign ce = ~y_valid | y_ready;
  assign first = (round_of == '0);
  assign x_ready = ce & first;
  assign go = ce & (x_valid | ~first);
  assign last = (at == B_W'(BEATS - 1));
  always_ff @(posedge clk) if (go & first) kept[at] <= x_data;
  always_ff @(posedge clk) begin
    if (rst) begin
      at <= '0;
      round_of <= '0;
      y_valid <= 1'b0;
    end else if (ce) begin
      y_valid <= go;
      if (go) begin
        at <= last ? '0 : at + 1'b1;
        if (last) round_of <= (round_of == T_W'(TIMES - 1)) ? '0 : round_of + 1'b1;
      end
    end
  end
  always_ff @(posedge clk) if (ce) y_data <= first ? x_data : kept[at];
endmodule
