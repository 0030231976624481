// depthwise: y[c] = sum over TAPS of x[c] w[c] + b[c], lane by lane: LANES channels at once, BLOCKS times.
// TAPS beats of a block of channels come one after the other; one leaves, 4 cycles after the last of them.
module depthwise #(
    parameter int TAPS = 9,
    parameter int BLOCKS = 1,
    parameter int LANES = 1,
    parameter int X_W = 8,
    parameter int X_S = 1,                       // 1: x is signed
    parameter int W_W = 8,
    parameter int ACC_W = 24,
    parameter int ACC_F = 10,
    parameter int P_SHIFT = 0,                   // places from a product's fraction to the accumulator's
    parameter int Y_W = 8,
    parameter int Y_F = 4,
    parameter int Y_S = 1,
    parameter int MODE = 1,
    parameter W_FILE = "w.mem",                  // words: block, tap
    parameter B_FILE = "b.mem"                   // in the accumulator's fraction
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
  localparam int WORDS = TAPS * BLOCKS;
  localparam int A_W = (WORDS > 1) ? $clog2(WORDS) : 1;
  localparam int T_W = (TAPS > 1) ? $clog2(TAPS) : 1;
  localparam int B_W = (BLOCKS > 1) ? $clog2(BLOCKS) : 1;
  localparam int XE_W = X_W + 1 - X_S;           // an unsigned x is zero-extended
  localparam int P_W = XE_W + W_W;
  localparam int F_W = (P_W > ACC_W) ? P_W : ACC_W;  // the constants may keep sums narrower than any product could be
  logic [LANES*W_W-1:0]   w_rom [0:WORDS-1];
  logic [LANES*ACC_W-1:0] b_rom [0:BLOCKS-1];
  initial $readmemh(W_FILE, w_rom);
  initial $readmemh(B_FILE, b_rom);

  logic [A_W-1:0] addr;
  logic [T_W-1:0] tap;
  logic [B_W-1:0] block;
  logic ce, last, v1, v2, v3, first1, first2, last1, last2;
  assign ce = ~y_valid | y_ready;
  assign x_ready = ce;
  assign last = (tap == T_W'(TAPS - 1));
  always_ff @(posedge clk) begin
    if (rst) begin
      addr <= '0;
      tap <= '0;
      block <= '0;
      {v1, v2, v3, y_valid} <= '0;
    end else if (ce) begin
      {v1, v2, v3, y_valid} <= {x_valid, v1, v2 & last2, v3};
      if (x_valid) begin
        addr <= (addr == A_W'(WORDS - 1)) ? '0 : addr + 1'b1;
        tap <= last ? '0 : tap + 1'b1;
        if (last) block <= (block == B_W'(BLOCKS - 1)) ? '0 : block + 1'b1;
      end
    end
  end

  logic [LANES*X_W-1:0] x1;
  logic [LANES*W_W-1:0] w1;
  logic [LANES*ACC_W-1:0] b1, b2;
  always_ff @(posedge clk) if (ce) begin
    x1 <= x_data;
    w1 <= w_rom[addr];
    b1 <= b_rom[block];
    {first1, last1} <= {tap == '0, last};
    {first2, last2, b2} <= {first1, last1, b1};
  end
  for (genvar i = 0; i < LANES; i++) begin : g_lane
    logic signed [XE_W-1:0] x;
    logic signed [W_W-1:0] w;
    logic signed [P_W-1:0] p;
    logic signed [ACC_W-1:0] acc;
    logic [Y_W-1:0] y;
    if (X_S == 1) begin : g_signed
      assign x = x1[i*X_W+:X_W];
    end else begin : g_unsigned
      assign x = {1'b0, x1[i*X_W+:X_W]};
    end
    assign w = w1[i*W_W+:W_W];
    always_ff @(posedge clk) if (ce) begin
      p <= x * w;
      if (v2) acc <= ACC_W'((F_W'(p) <<< P_SHIFT) + (first2 ? F_W'($signed(b2[i*ACC_W+:ACC_W])) : F_W'(acc)));
    end
    requant #(.IN_W(ACC_W), .IN_F(ACC_F), .OUT_W(Y_W), .OUT_F(Y_F), .OUT_S(Y_S), .MODE(MODE)) u_requant (
        .x(acc),
        .y(y)
    );
    always_ff @(posedge clk) if (ce) y_data[i*Y_W+:Y_W] <= y;
  end
endmodule
