// fold_sum: the sum of COUNT beats, lane by lane, times MUL, in another format; for BLOCKS beats that come in turns.
// COUNT * BLOCKS beats come, and with the last round of them BLOCKS results leave; 3 cycles from beat to result.
module fold_sum #(
    parameter int COUNT = 4,
    parameter int BLOCKS = 1,
    parameter int LANES = 1,
    parameter int X_W = 8,
    parameter int X_S = 1,                       // 1: x is signed
    parameter int MUL = 1,                       // above 0
    parameter int P_F = 4,                       // fraction of sum * MUL
    parameter int Y_W = 8,
    parameter int Y_F = 4,
    parameter int Y_S = 1,
    parameter int MODE = 1
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
  localparam int C_W = (COUNT > 1) ? $clog2(COUNT) : 1;
  localparam int B_W = (BLOCKS > 1) ? $clog2(BLOCKS) : 1;
  localparam int S_W = X_W + 1 - X_S + $clog2(COUNT);
  localparam int M_W = $clog2(MUL + 1) + 1;
  localparam int P_W = S_W + ((MUL > 1) ? M_W : 0);
  logic [LANES*S_W-1:0] kept [0:BLOCKS-1];
  logic [LANES*S_W-1:0] old, sum, sum1;
  logic [C_W-1:0] at;
  logic [B_W-1:0] block;
  logic ce, go, last, v1, v2;
  assign ce = ~y_valid | y_ready;
  assign x_ready = ce;
  assign go = ce & x_valid;
  assign last = (at == C_W'(COUNT - 1));
  assign old = kept[block];
  always_ff @(posedge clk) begin
    if (rst) begin
      at <= '0;
      block <= '0;
      {v1, v2, y_valid} <= '0;
    end else if (ce) begin
      {v1, v2, y_valid} <= {x_valid & last, v1, v2};
      if (x_valid) begin
        block <= (block == B_W'(BLOCKS - 1)) ? '0 : block + 1'b1;
        if (block == B_W'(BLOCKS - 1)) at <= last ? '0 : at + 1'b1;
      end
    end
  end
  always_ff @(posedge clk) if (go) kept[block] <= sum;
  always_ff @(posedge clk) if (ce) sum1 <= sum;
  for (genvar i = 0; i < LANES; i++) begin : g_lane
    logic signed [S_W-1:0] x, s;
    logic signed [P_W-1:0] p;
    logic [Y_W-1:0] y;
    if (X_S == 1) begin : g_signed
      assign x = S_W'($signed(x_data[i*X_W+:X_W]));
    end else begin : g_unsigned
      assign x = S_W'(x_data[i*X_W+:X_W]);
    end
    assign sum[i*S_W+:S_W] = (at == '0) ? x : x + $signed(old[i*S_W+:S_W]);
    assign s = sum1[i*S_W+:S_W];
    if (MUL > 1) begin : g_times
      always_ff @(posedge clk) if (ce) p <= s * $signed(M_W'(MUL));
    end else begin : g_once
      always_ff @(posedge clk) if (ce) p <= s;
    end
    requant #(.IN_W(P_W), .IN_F(P_F), .OUT_W(Y_W), .OUT_F(Y_F), .OUT_S(Y_S), .MODE(MODE)) u_requant (
        .x(p),
        .y(y)
    );
    always_ff @(posedge clk) if (ce) y_data[i*Y_W+:Y_W] <= y;
  end
endmodule
