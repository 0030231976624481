// pick: of every PERIOD beats those from START on, COUNT of them; the others are dropped. One cycle.
module pick #(
    parameter int W = 8,
    parameter int PERIOD = 4,
    parameter int START = 0,
    parameter int COUNT = 1
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
  localparam int K_W = (PERIOD > 1) ? $clog2(PERIOD) : 1;
  logic [K_W-1:0] k;
  logic ce, kept;
  assign ce = ~y_valid | y_ready;
  assign x_ready = ce;
  assign kept = ((K_W + 1)'(k) - (K_W + 1)'(START)) < (K_W + 1)'(COUNT);
  always_ff @(posedge clk) begin
    if (rst) begin
      k <= '0;
      y_valid <= 1'b0;
    end else if (ce) begin
      y_valid <= x_valid & kept;
      if (x_valid) k <= (k == K_W'(PERIOD - 1)) ? '0 : k + 1'b1;
    end
  end
  always_ff @(posedge clk) if (ce) y_data <= x_data;
endmodule
