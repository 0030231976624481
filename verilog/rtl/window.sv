// window: the K_H x K_W elements under each place of a kernel, from an image whose pixels come row by row.
// A pixel is BLOCKS beats of LANES elements; IN_H x IN_W of them come, OUT_H x OUT_W windows leave. A window's beats
// come group of channels by group, in it kernel row by row, tap by tap, block by block; outside the image is PAD.
// Each cycle takes a beat while the ring of RING_ROWS rows has room for it, and gives one once the window is there:
//   OUT_H * OUT_W * K_H * K_W * BLOCKS cycles, and those until the first window is there; 2 from ring to output.
module window #(
    parameter int IN_H = 8,
    parameter int IN_W = 8,
    parameter int OUT_H = 8,
    parameter int OUT_W = 8,
    parameter int BLOCKS = 1,                    // beats of a pixel
    parameter int GROUPS = 1,                    // groups of them that leave one after the other
    parameter int K_H = 3,
    parameter int K_W = 3,
    parameter int STEP_H = 1,
    parameter int STEP_W = 1,
    parameter int GAP_H = 1,                     // dilation
    parameter int GAP_W = 1,
    parameter int TOP = 1,                       // padding before the first row and column
    parameter int LEFT = 1,
    parameter int RING_ROWS = 4,
    parameter int LANES = 1,
    parameter int W = 8,
    parameter logic signed [63:0] PAD = 0
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
  localparam int PER = BLOCKS / GROUPS;
  localparam int ROW = IN_W * BLOCKS;            // beats of a row
  localparam int ALL = IN_H * ROW;
  localparam int RING = RING_ROWS * ROW;
  localparam int A_W = (RING > 1) ? $clog2(RING) : 1;
  localparam int N_W = $clog2(ALL + RING + ((K_H + 1) * GAP_H + STEP_H + TOP + 2) * ROW
      + ((K_W + 1) * GAP_W + STEP_W + LEFT + 2) * BLOCKS) + 2;  // any count of beats, and its sign
  localparam int OH_W = (OUT_H > 1) ? $clog2(OUT_H) : 1;
  localparam int OW_W = (OUT_W > 1) ? $clog2(OUT_W) : 1;
  localparam int G_W = (GROUPS > 1) ? $clog2(GROUPS) : 1;
  localparam int KH_W = (K_H > 1) ? $clog2(K_H) : 1;
  localparam int KW_W = (K_W > 1) ? $clog2(K_W) : 1;
  localparam int B_W = (PER > 1) ? $clog2(PER) : 1;
  localparam int SLOT = (RING_ROWS - TOP % RING_ROWS) % RING_ROWS * ROW;
  localparam int JUMP = STEP_H % RING_ROWS * ROW;
  localparam int SKIP = GAP_H % RING_ROWS * ROW;
  localparam int BOTTOM = (K_H - 1) * GAP_H - TOP;  // last row and column of the first window
  localparam int RIGHT = (K_W - 1) * GAP_W - LEFT;

  function automatic int least(input int a, input int b);
    least = (a < b) ? a : b;
  endfunction
  function automatic logic signed [N_W-1:0] upto(input logic signed [N_W-1:0] sum,
                                                 input logic signed [N_W-1:0] most);
    upto = (sum > most) ? most : sum;
  endfunction
  function automatic logic [A_W-1:0] around(input logic [A_W-1:0] at, input logic [A_W-1:0] by);
    logic [A_W:0] sum;
    sum = {1'b0, at} + {1'b0, by};
    around = A_W'((sum >= (A_W + 1)'(RING)) ? sum - (A_W + 1)'(RING) : sum);
  endfunction
  localparam int LIMIT = (RING_ROWS >= IN_H) ? ALL : least((RING_ROWS - TOP) * ROW, ALL);

  // ---- what may be taken and given
  logic signed [N_W-1:0] taken, limit, need_row, need_col;
  logic ce, want, can, take, give, over, last, ends;
  assign ce = ~y_valid | y_ready;
  assign want = (taken != N_W'(ALL)) & (over | (taken < limit));
  assign can = ~over & (taken >= need_row + need_col);
  assign x_ready = ce & want;
  assign take = ce & want & x_valid;
  assign give = ce & can & (x_valid | ~want);
  assign ends = (over | (give & last)) & (taken + N_W'($signed({1'b0, take})) == N_W'(ALL));

  // ---- the ring
  logic [LANES*W-1:0] ring [0:RING-1];
  logic [A_W-1:0] wa;
  always_ff @(posedge clk) if (take) ring[wa] <= x_data;
  always_ff @(posedge clk) begin
    if (rst | ends) begin
      taken <= '0;
      wa <= '0;
    end else if (take) begin
      taken <= taken + 1'b1;
      wa <= around(wa, A_W'(RING > 1));
    end
  end

  // ---- the walk: output row, column, group, kernel row, tap, block; rows and columns count from the image's corner
  logic [OH_W-1:0] oh;
  logic [OW_W-1:0] ow;
  logic [G_W-1:0] g;
  logic [KH_W-1:0] kh;
  logic [KW_W-1:0] kw;
  logic [B_W-1:0] b;
  logic oh_last, ow_last, g_last, kh_last, kw_last, b_last, next_kh, next_g, next_ow, next_oh;
  assign oh_last = (oh == OH_W'(OUT_H - 1));
  assign ow_last = (ow == OW_W'(OUT_W - 1));
  assign g_last = (g == G_W'(GROUPS - 1));
  assign kh_last = (kh == KH_W'(K_H - 1));
  assign kw_last = (kw == KW_W'(K_W - 1));
  assign b_last = (b == B_W'(PER - 1));
  assign next_kh = kw_last & b_last;
  assign next_g = kh_last & next_kh;
  assign next_ow = g_last & next_g;
  assign next_oh = ow_last & next_ow;
  assign last = oh_last & next_oh;

  logic signed [N_W-1:0] top, row, left, col;    // rows; beats of a row
  logic [A_W-1:0] top_at, row_at, shift;
  always_ff @(posedge clk) begin
    if (rst | (give & next_ow)) begin
      left <= (rst | ow_last) ? N_W'(-LEFT * BLOCKS) : left + N_W'(STEP_W * BLOCKS);
      col <= (rst | ow_last) ? N_W'(-LEFT * BLOCKS) : left + N_W'(STEP_W * BLOCKS);
      need_col <= (rst | ow_last) ? N_W'(least((RIGHT + 1) * BLOCKS, ROW))
                                  : upto(need_col + N_W'(STEP_W * BLOCKS), N_W'(ROW));
    end else if (give & b_last) col <= kw_last ? left : col + N_W'(GAP_W * BLOCKS);
    if (rst | (give & next_oh)) begin
      top <= (rst | oh_last) ? N_W'(-TOP) : top + N_W'(STEP_H);
      row <= (rst | oh_last) ? N_W'(-TOP) : top + N_W'(STEP_H);
      top_at <= (rst | oh_last) ? A_W'(SLOT) : around(top_at, A_W'(JUMP));
      row_at <= (rst | oh_last) ? A_W'(SLOT) : around(top_at, A_W'(JUMP));
      need_row <= (rst | oh_last) ? N_W'(least(BOTTOM, IN_H - 1) * ROW)
                                  : upto(need_row + N_W'(STEP_H * ROW), N_W'((IN_H - 1) * ROW));
      limit <= (rst | oh_last) ? N_W'(LIMIT) : upto(limit + N_W'(STEP_H * ROW), N_W'(ALL));
    end else if (give & next_kh) begin
      row <= kh_last ? top : row + N_W'(GAP_H);
      row_at <= kh_last ? top_at : around(row_at, A_W'(SKIP));
    end
  end
  always_ff @(posedge clk) begin
    if (rst) begin
      {oh, ow, g, kh, kw, b, over} <= '0;
      shift <= '0;
    end else begin
      over <= (over | (give & last)) & ~ends;
      if (give) begin
        b <= b_last ? '0 : b + 1'b1;
        if (b_last) kw <= kw_last ? '0 : kw + 1'b1;
        if (next_kh) kh <= kh_last ? '0 : kh + 1'b1;
        if (next_g) g <= g_last ? '0 : g + 1'b1;
        if (next_g) shift <= g_last ? '0 : shift + A_W'(PER);
        if (next_ow) ow <= ow_last ? '0 : ow + 1'b1;
        if (next_oh) oh <= oh_last ? '0 : oh + 1'b1;
      end
    end
  end

  // ---- out of the ring, or the padding
  logic [LANES*W-1:0] got;
  logic v1, outside, outside1;
  assign outside = row[N_W-1] | col[N_W-1] | (row >= N_W'(IN_H)) | (col >= N_W'(ROW));
  always_ff @(posedge clk) if (ce) begin
    got <= ring[row_at + col[A_W-1:0] + shift + A_W'(b)];
    outside1 <= outside;
    y_data <= outside1 ? {LANES{W'(PAD)}} : got;
  end
  always_ff @(posedge clk) begin
    if (rst) {v1, y_valid} <= '0;
    else if (ce) {v1, y_valid} <= {give, v1};
  end
endmodule
