// lines: all K_H x K_W pixels under each place of a kernel in one beat, from an image whose pixels come row by row.
// A pixel, all its channels, is a beat of LW bits; OUT_H x OUT_W windows leave, kernel row by row, tap by tap, and
//   where they reach beyond the image they hold PAD_LINE. A pixel a cycle goes through delays of GAP_H rows each.
// STEPS cycles a frame: IN_H * IN_W that take a pixel, and those in which the last windows end below the image.
// A window leaves a cycle after the step of its last pixel; FIRST steps lie before the first window's.
module lines #(
    parameter int IN_H = 8,
    parameter int IN_W = 8,
    parameter int OUT_H = 8,
    parameter int OUT_W = 8,
    parameter int K_H = 3,
    parameter int K_W = 3,
    parameter int STEP_H = 1,
    parameter int STEP_W = 1,
    parameter int GAP_H = 1,                     // dilation
    parameter int GAP_W = 1,
    parameter int TOP = 1,                       // padding before the first row and column
    parameter int LEFT = 1,
    parameter int STEPS = 73,
    parameter int FIRST = 9,
    parameter int LANES = 1,
    parameter int W = 8,
    parameter logic signed [63:0] PAD = 0
) (
    input  logic                       clk,
    input  logic                       rst,
    input  logic [LANES*W-1:0]         x_data,
    input  logic                       x_valid,
    output logic                       x_ready,
    output logic [K_H*K_W*LANES*W-1:0] y_data,
    output logic                       y_valid,
    input  logic                       y_ready
);
  localparam int LW = LANES * W;
  localparam int DELAY = IN_W * GAP_H;           // pixels between two rows of taps
  localparam int REACH = (K_W - 1) * GAP_W + 1;  // pixels of a row that are held
  localparam int R_W = REACH * LW;
  localparam int JUMP = STEP_H * IN_W - (OUT_W - 1) * STEP_W;  // steps from a row's last window to the next row's
  localparam int T_W = $clog2(STEPS + 1);
  localparam int D_W = (DELAY > 1) ? $clog2(DELAY) : 1;
  localparam int N_W = $clog2(IN_H + IN_W + (OUT_H + 1) * STEP_H + (OUT_W + 1) * STEP_W + K_H * GAP_H + K_W * GAP_W
      + TOP + LEFT) + 2;                         // any row or column, and its sign
  localparam int OH_W = (OUT_H > 1) ? $clog2(OUT_H) : 1;
  localparam int OW_W = (OUT_W > 1) ? $clog2(OUT_W) : 1;

  // ---- the steps of a frame
  logic ce, need, go, over, at_end, row_end, emit;
  logic [T_W-1:0] t, left;                       // left: steps until the next window
  logic [OH_W-1:0] oh;
  logic [OW_W-1:0] ow;
  logic signed [N_W-1:0] row, col;               // of the window's first tap
  assign ce = ~y_valid | y_ready;
  assign need = (t < T_W'(IN_H * IN_W));
  assign go = ce & (x_valid | ~need);
  assign x_ready = ce & need;
  assign at_end = (t == T_W'(STEPS - 1));
  assign row_end = (ow == OW_W'(OUT_W - 1));
  assign emit = go & ~over & (left == '0);

  always_ff @(posedge clk) begin
    if (rst | (go & at_end)) begin
      t <= '0;
      left <= T_W'(FIRST);
      oh <= '0;
      ow <= '0;
      row <= N_W'(-TOP);
      col <= N_W'(-LEFT);
      over <= 1'b0;
    end else if (go) begin
      t <= t + 1'b1;
      if (~emit) left <= left - 1'b1;
      else begin
        left <= row_end ? T_W'(JUMP - 1) : T_W'(STEP_W - 1);
        ow <= row_end ? '0 : ow + 1'b1;
        col <= row_end ? N_W'(-LEFT) : col + N_W'(STEP_W);
        if (row_end) begin
          oh <= oh + 1'b1;
          row <= row + N_W'(STEP_H);
          over <= (oh == OH_W'(OUT_H - 1));
        end
      end
    end
  end
  always_ff @(posedge clk) begin
    if (rst) y_valid <= 1'b0;
    else if (ce) y_valid <= emit;
  end

  // ---- the pixel that comes, and those whole rows before it
  logic [K_H*LW-1:0] fresh;                      // row 0: the newest
  assign fresh[LW-1:0] = x_data;
  if (K_H > 1) begin : g_rows
    logic [D_W-1:0] at, next;
    assign next = (at == D_W'(DELAY - 1)) ? '0 : at + 1'b1;
    always_ff @(posedge clk) begin
      if (rst) at <= '0;
      else if (go) at <= next;
    end
    for (genvar i = 1; i < K_H; i++) begin : g_row
      logic [LW-1:0] ring [0:DELAY-1];
      logic [LW-1:0] got;
      always_ff @(posedge clk) if (go) begin
        ring[at] <= fresh[(i-1)*LW+:LW];
        got <= ring[next];
      end
      assign fresh[i*LW+:LW] = got;
    end
  end

  // ---- the window: rows of taps, what lies outside the image replaced
  for (genvar i = 0; i < K_H; i++) begin : g_tap_row
    logic [R_W-1:0] held;                        // the newest lowest
    logic row_in;
    logic signed [N_W-1:0] here;
    assign here = row + N_W'(i * GAP_H);
    always_ff @(posedge clk) if (go) begin
      held <= R_W'({held, fresh[(K_H-1-i)*LW+:LW]});
      row_in <= ~here[N_W-1] & (here < N_W'(IN_H));
    end
    for (genvar j = 0; j < K_W; j++) begin : g_tap
      logic col_in;
      logic signed [N_W-1:0] there;
      assign there = col + N_W'(j * GAP_W);
      always_ff @(posedge clk) if (go) col_in <= ~there[N_W-1] & (there < N_W'(IN_W));
      assign y_data[(i*K_W+j)*LW+:LW] = (row_in & col_in) ? held[(K_W-1-j)*GAP_W*LW+:LW] : {LANES{W'(PAD)}};
    end
  end
endmodule
