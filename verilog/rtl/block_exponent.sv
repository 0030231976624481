// block_exponent: the shared exponent of each block of a row, as OCP MX has it: floor(log2 max|x|), in E8M0.
// A row comes as BEATS beats of PAR elements, a block of it as STEPS of them; the last block may be short.
// BASE is the exponent of the step of x, which a block of zeros gives too. A cycle a beat; out 2 cycles after the last.
module block_exponent #(
    parameter int PAR = 1,
    parameter int X_W = 8,
    parameter int X_S = 1,                       // 1: x is signed
    parameter int STEPS = 4,
    parameter int BEATS = 8,
    parameter int BASE = 127
) (
    input  logic               clk,
    input  logic               rst,
    input  logic [PAR*X_W-1:0] x_data,
    input  logic               x_valid,
    output logic               x_ready,
    output logic [7:0]         y_data,
    output logic               y_valid,
    input  logic               y_ready
);
  localparam int N_W = (STEPS > 1) ? $clog2(STEPS) : 1;
  localparam int R_W = (BEATS > 1) ? $clog2(BEATS) : 1;
  logic [N_W-1:0] at;                            // beat of the block
  logic [R_W-1:0] beat;                          // beat of the row
  logic [X_W-1:0] now, seen;                     // bits that are in any magnitude: only the highest counts
  logic [7:0] top;
  logic ce, go, v1, ends;
  assign ce = ~y_valid | y_ready;
  assign x_ready = ce;
  assign go = ce & x_valid;
  assign ends = (at == N_W'(STEPS - 1)) | (beat == R_W'(BEATS - 1));
  always_ff @(posedge clk) begin
    if (rst) begin
      at <= '0;
      beat <= '0;
      {v1, y_valid} <= '0;
    end else if (ce) begin
      {v1, y_valid} <= {x_valid & ends, v1};
      if (x_valid) begin
        at <= ends ? '0 : at + 1'b1;
        beat <= (beat == R_W'(BEATS - 1)) ? '0 : beat + 1'b1;
      end
    end
  end
  logic [PAR*X_W-1:0] sizes;
  for (genvar i = 0; i < PAR; i++) begin : g_lane
    logic [X_W-1:0] x;
    assign x = x_data[i*X_W+:X_W];
    if (X_S == 1) begin : g_signed
      assign sizes[i*X_W+:X_W] = (x ^ {X_W{x[X_W-1]}}) + X_W'(x[X_W-1]);
    end else begin : g_unsigned
      assign sizes[i*X_W+:X_W] = x;
    end
  end
  always_comb begin
    now = '0;
    for (int i = 0; i < PAR; i++) now = now | sizes[i*X_W+:X_W];
    top = 8'(BASE);
    for (int k = 1; k < X_W; k++) if (seen[k]) top = 8'(BASE + k);
  end
  always_ff @(posedge clk) begin
    if (go) seen <= (at == '0) ? now : seen | now;
    if (ce) y_data <= top;
  end
endmodule
