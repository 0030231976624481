// fold_max: the largest of COUNT beats, lane by lane, for BLOCKS beats that come in turns.
// COUNT * BLOCKS beats come, and with the last round of them BLOCKS results leave; one cycle.
module fold_max #(
    parameter int COUNT = 4,
    parameter int BLOCKS = 1,
    parameter int LANES = 1,
    parameter int W = 8,
    parameter int S = 1                          // 1: signed
) (
    input  logic               clk,
    input  logic               rst,
    input  logic [LANES*W-1:0] x_data,
    input  logic               x_valid,
    output logic               x_ready,
    output logic [LANES*W-1:0] y_data,
    output logic               y_valid,
    input  logic               y_ready
);
  localparam int C_W = (COUNT > 1) ? $clog2(COUNT) : 1;
  localparam int B_W = (BLOCKS > 1) ? $clog2(BLOCKS) : 1;
  logic [LANES*W-1:0] kept [0:BLOCKS-1];
  logic [LANES*W-1:0] old, most;
  logic [C_W-1:0] at;
  logic [B_W-1:0] block;
  logic ce, go, last;
  assign ce = ~y_valid | y_ready;
  assign x_ready = ce;
  assign go = ce & x_valid;
  assign last = (at == C_W'(COUNT - 1));
  assign old = kept[block];
  always_ff @(posedge clk) begin
    if (rst) begin
      at <= '0;
      block <= '0;
      y_valid <= 1'b0;
    end else if (ce) begin
      y_valid <= x_valid & last;
      if (x_valid) begin
        block <= (block == B_W'(BLOCKS - 1)) ? '0 : block + 1'b1;
        if (block == B_W'(BLOCKS - 1)) at <= last ? '0 : at + 1'b1;
      end
    end
  end
  for (genvar i = 0; i < LANES; i++) begin : g_lane
    logic [W-1:0] x, o;
    logic more;
    assign x = x_data[i*W+:W];
    assign o = old[i*W+:W];
    if (S == 1) begin : g_signed
      assign more = $signed(x) > $signed(o);
    end else begin : g_unsigned
      assign more = x > o;
    end
    assign most[i*W+:W] = ((at == '0) | more) ? x : o;
  end
  always_ff @(posedge clk) if (go) kept[block] <= most;
  always_ff @(posedge clk) if (ce) y_data <= most;
endmodule
