// block_mantissa: elements of blocks under their exponents (x1, E8M0, one a block), as OCP MX has them:
// y = clip(x / 2^(e - (Y_W - 2))), nearest, ties to even; the smallest code is excluded. With BACK what these stand for
// leaves in the fixed point in which x came, where all that a block can hold of it is a multiple of its step.
// A row comes as BEATS beats of PAR elements, a block of it as STEPS of them; 2 cycles.
module block_mantissa #(
    parameter int PAR = 1,
    parameter int X_W = 8,
    parameter int X_S = 1,                       // 1: x is signed
    parameter int STEPS = 4,
    parameter int BEATS = 8,
    parameter int BASE = 127,                    // exponent of the step of x
    parameter int Y_W = 8,                       // bits of an element
    parameter int BACK = 0,
    parameter int O_W = Y_W                      // bits of y: those of x with BACK
) (
    input  logic               clk,
    input  logic               rst,
    input  logic [PAR*X_W-1:0] x_data,
    input  logic               x_valid,
    output logic               x_ready,
    input  logic [7:0]         x1_data,
    input  logic               x1_valid,
    output logic               x1_ready,
    output logic [PAR*O_W-1:0] y_data,
    output logic               y_valid,
    input  logic               y_ready
);
  localparam int N_W = (STEPS > 1) ? $clog2(STEPS) : 1;
  localparam int R_W = (BEATS > 1) ? $clog2(BEATS) : 1;
  localparam int G = X_W + 1;                    // places behind the point: all that are dropped
  localparam int V_W = X_W + 1 - X_S + Y_W - 2 + G;
  localparam int Q_W = V_W - G + 1;
  localparam int S_W = $clog2(X_W + 1);
  localparam logic signed [Q_W-1:0] TOP = Q_W'((64'd1 << (Y_W - 1)) - 1);
  logic [N_W-1:0] at;
  logic [R_W-1:0] beat;
  logic [7:0] held, e;
  logic [S_W-1:0] drop;
  logic [PAR*X_W-1:0] x1;
  logic ce, go, starts, ends, v1;
  assign ce = ~y_valid | y_ready;
  assign starts = (at == '0);
  assign ends = (at == N_W'(STEPS - 1)) | (beat == R_W'(BEATS - 1));
  assign x_ready = ce & (x1_valid | ~starts);
  assign x1_ready = ce & x_valid & starts;
  assign go = x_valid & (x1_valid | ~starts);
  assign e = starts ? x1_data : held;
  always_ff @(posedge clk) begin
    if (rst) begin
      at <= '0;
      beat <= '0;
      {v1, y_valid} <= '0;
    end else if (ce) begin
      {v1, y_valid} <= {go, v1};
      if (go) begin
        at <= ends ? '0 : at + 1'b1;
        beat <= (beat == R_W'(BEATS - 1)) ? '0 : beat + 1'b1;
      end
    end
  end
  always_ff @(posedge clk) if (ce) begin
    held <= e;
    drop <= S_W'(e - 8'(BASE));
    x1 <= x_data;
  end
  for (genvar i = 0; i < PAR; i++) begin : g_lane
    logic signed [V_W-1:0] v;
    logic signed [Q_W-1:0] q, cut;
    logic up;
    if (X_S == 1) begin : g_signed
      assign v = $signed({x1[i*X_W+:X_W], {(Y_W - 2 + G){1'b0}}}) >>> drop;
    end else begin : g_unsigned
      assign v = $signed({1'b0, x1[i*X_W+:X_W], {(Y_W - 2 + G){1'b0}}}) >>> drop;
    end
    assign up = v[G-1] & ((|v[G-2:0]) | v[G]);  // half, and any below it or odd
    assign q = Q_W'($signed(v[V_W-1:G])) + Q_W'($signed({1'b0, up}));
    assign cut = (q > TOP) ? TOP : (q < -TOP) ? -TOP : q;
    if (BACK == 1) begin : g_back
      logic signed [Q_W+X_W-1:0] wide;
      assign wide = (Q_W + X_W)'(cut) <<< drop;
      always_ff @(posedge clk) if (ce) y_data[i*O_W+:O_W] <= O_W'(wide >>> (Y_W - 2));
    end else begin : g_element
      always_ff @(posedge clk) if (ce) y_data[i*O_W+:O_W] <= O_W'(cut);
    end
  end
endmodule
