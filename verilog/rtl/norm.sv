// norm: y = (x - mean) / sqrt(var + eps) * gamma + beta over each row of SIZE elements, PAR per beat; CENTER 0: without
// the mean (RMS norm). All integer, with N = SIZE, S1 = sum x (CENTER 0: 0), S2 = sum x^2:
//   v = max(N*S2 - S1^2 + EPS, 1) = u * 4^j / 2^22 with u in [2^22, 2^24);  r = rsqrt(u), of fraction R_F: a table of
//   256 entries, one step of Newton;  t = (N*x - S1) * r >> (j + R_F - T_F);  y = requant(t * gamma + beta).
// Rows go through BANKS places: written (sums), then 9 cycles of root, then read. A row takes SIZE/PAR cycles.
module norm #(
    parameter int SIZE = 4,
    parameter int PAR = 1,
    parameter int BANKS = 4,
    parameter int CENTER = 1,
    parameter int X_W = 8,
    parameter int X_S = 1,
    parameter int EPS_HIGH = 0,                  // EPS = EPS_HIGH * 2^30 + EPS_LOW
    parameter int EPS_LOW = 1,
    parameter int V_W = 24,                      // bits of v
    parameter int R_F = 18,
    parameter int T_F = 14,
    parameter int T_W = 18,
    parameter int G_W = 8,
    parameter int G_SHIFT = 0,                   // places from the fraction of t * gamma to the sum's
    parameter int ACC_W = 32,
    parameter int ACC_F = 20,
    parameter int Y_W = 8,
    parameter int Y_F = 4,
    parameter int Y_S = 1,
    parameter int MODE = 1,
    parameter R_FILE = "r.mem",
    parameter G_FILE = "g.mem",
    parameter B_FILE = "b.mem"
) (
    input  logic               clk,
    input  logic               rst,
    input  logic [PAR*X_W-1:0] x_data,
    input  logic               x_valid,
    output logic               x_ready,
    output logic [PAR*Y_W-1:0] y_data,
    output logic               y_valid,
    input  logic               y_ready
);
  localparam int SF = SIZE / PAR;
  localparam int SF_W = (SF > 1) ? $clog2(SF) : 1;
  localparam int A_W = (BANKS * SF > 1) ? $clog2(BANKS * SF) : 1;
  localparam int K_W = (BANKS > 1) ? $clog2(BANKS) : 1;
  localparam int C_W = $clog2(BANKS + 1);
  localparam int XE_W = X_W + 1 - X_S;           // an unsigned x is zero-extended
  localparam int L_W = $clog2(SIZE + 1);         // bits of N
  localparam int S1_W = XE_W + L_W;
  localparam int S2_W = 2 * XE_W + L_W;
  localparam int J_W = (V_W > 2) ? $clog2((V_W + 1) / 2) : 1;
  localparam int D_W = S1_W + 1;                 // N*x - S1
  localparam int Z_W = D_W + R_F + 2;

  logic [C_W-1:0] free, added, rooted;           // rows that wait for each of the three
  logic room, w_go, r_go, o_go, ce, w_last, o_last, w_done, r_done, o_done;
  logic to_free, from_free, from_rooted;
  logic [2:0] valid, last;                       // stages of the sums
  logic [7:0] root;                              // stages of the root that hold a row
  logic [SF_W-1:0] w_k, o_k;
  logic [A_W-1:0] w_at, o_at;
  logic [K_W-1:0] w_b, r_b, z_b, o_b;
  assign w_last = (w_k == SF_W'(SF - 1));
  assign o_last = (o_k == SF_W'(SF - 1));
  assign room = (w_k != '0) | (free != '0);
  assign x_ready = room;
  assign w_go = room & x_valid;
  assign r_go = (added != '0);
  assign ce = ~y_valid | y_ready;
  assign o_go = ce & ((o_k != '0) | (rooted != '0));
  assign to_free = o_done & ce;
  assign from_free = w_go & (w_k == '0);
  assign from_rooted = o_go & (o_k == '0);
  always_ff @(posedge clk) begin
    if (rst) begin
      free <= C_W'(BANKS);
      {added, rooted, w_k, o_k, w_at, o_at, w_b, r_b, z_b, o_b} <= '0;
    end else begin
      free <= free + C_W'(to_free) - C_W'(from_free);
      added <= added + C_W'(w_done) - C_W'(r_go);
      rooted <= rooted + C_W'(r_done) - C_W'(from_rooted);
      if (w_go) w_k <= w_last ? '0 : w_k + 1'b1;
      if (o_go) o_k <= o_last ? '0 : o_k + 1'b1;
      if (w_go) w_at <= (w_at == A_W'(BANKS * SF - 1)) ? '0 : w_at + 1'b1;
      if (o_go) o_at <= (o_at == A_W'(BANKS * SF - 1)) ? '0 : o_at + 1'b1;
      if (valid[2] & last[2]) w_b <= (w_b == K_W'(BANKS - 1)) ? '0 : w_b + 1'b1;
      if (r_go) r_b <= (r_b == K_W'(BANKS - 1)) ? '0 : r_b + 1'b1;
      if (root[7]) z_b <= (z_b == K_W'(BANKS - 1)) ? '0 : z_b + 1'b1;
      if (o_go & o_last) o_b <= (o_b == K_W'(BANKS - 1)) ? '0 : o_b + 1'b1;
    end
  end

  function automatic logic signed [XE_W-1:0] wide(input logic [X_W-1:0] x);
    wide = (X_S == 1) ? XE_W'($signed(x)) : XE_W'({1'b0, x});
  endfunction

  // ---- rows come; the sums of each
  logic [PAR*X_W-1:0] mem [0:BANKS*SF-1];
  logic signed [S1_W-1:0] s1_of [0:BANKS-1];
  logic [S2_W-1:0] s2_of [0:BANKS-1];
  logic signed [S1_W-1:0] sum1;
  logic [S2_W-1:0] sum2;
  row_sums #(.PAR(PAR), .CENTER(CENTER), .X_W(X_W), .X_S(X_S), .S1_W(S1_W), .S2_W(S2_W)) u_sums (
      .clk(clk),
      .x(x_data),
      .first(w_k == '0),
      .go(valid[2]),
      .sum1(sum1),
      .sum2(sum2)
  );
  always_ff @(posedge clk) if (w_go) mem[w_at] <= x_data;
  always_ff @(posedge clk) begin
    last <= {last[1:0], w_last};
    if (valid[2] & last[2]) begin
      s1_of[w_b] <= sum1;
      s2_of[w_b] <= sum2;
    end
  end
  always_ff @(posedge clk) begin
    if (rst) {valid, w_done} <= '0;
    else {valid, w_done} <= {valid[1:0], w_go, valid[2] & last[2]};
  end

  // ---- the root of each row's variance
  logic [R_F:0] r;
  logic [J_W-1:0] j;
  logic signed [S1_W-1:0] s1r;
  logic [S2_W-1:0] s2r;
  logic [R_F:0] r_of [0:BANKS-1];
  logic [J_W-1:0] j_of [0:BANKS-1];
  always_ff @(posedge clk) begin
    {s1r, s2r} <= {s1_of[r_b], s2_of[r_b]};
    if (root[7]) begin
      r_of[z_b] <= r;
      j_of[z_b] <= j;
    end
  end
  always_ff @(posedge clk) begin
    if (rst) {root, r_done} <= '0;
    else {root, r_done} <= {root[6:0], r_go, root[7]};
  end
  inverse_root #(
      .SIZE(SIZE), .S1_W(S1_W), .S2_W(S2_W), .V_W(V_W), .J_W(J_W), .R_F(R_F), .EPS_HIGH(EPS_HIGH), .EPS_LOW(EPS_LOW),
      .R_FILE(R_FILE)
  ) u_root (
      .clk(clk),
      .s1((CENTER == 1) ? s1r : '0),
      .s2(s2r),
      .r(r),
      .j(j)
  );

  // ---- the row leaves
  logic [PAR*G_W-1:0] g_rom [0:SF-1];
  logic [PAR*ACC_W-1:0] b_rom [0:SF-1];
  initial $readmemh(G_FILE, g_rom);
  initial $readmemh(B_FILE, b_rom);
  logic [PAR*X_W-1:0] x1;
  logic [PAR*G_W-1:0] g1, g2, g3, g4;
  logic [PAR*ACC_W-1:0] b1, b2, b3, b4, b5;
  logic signed [S1_W-1:0] mean1;
  logic [R_F:0] r1, r2;
  logic [J_W-1:0] j1, j2, j3;
  logic [5:0] vo, lo;
  always_ff @(posedge clk) if (ce) begin
    x1 <= mem[o_at];
    {mean1, r1, j1} <= {s1_of[o_b], r_of[o_b], j_of[o_b]};
    {r2, j2, j3} <= {r1, j1, j2};
    {g1, g2, g3, g4} <= {g_rom[o_k], g1, g2, g3};
    {b1, b2, b3, b4, b5} <= {b_rom[o_k], b1, b2, b3, b4};
  end
  always_ff @(posedge clk) begin
    if (rst) {vo, y_valid, lo, o_done} <= '0;
    else if (ce) begin
      {y_valid, vo} <= {vo, o_go};
      {o_done, lo} <= {lo, o_go & o_last};
    end
  end
  for (genvar i = 0; i < PAR; i++) begin : g_out
    logic signed [D_W-1:0] d;
    logic signed [Z_W-1:0] z;
    logic signed [T_W-1:0] t;
    logic signed [T_W+G_W-1:0] m;
    logic signed [ACC_W-1:0] sum;
    logic [Y_W-1:0] y;
    always_ff @(posedge clk) if (ce) begin
      d <= D_W'(wide(x1[i*X_W+:X_W])) * $signed(D_W'(SIZE)) - D_W'(mean1);
      z <= Z_W'(d) * $signed(Z_W'(r2));
      t <= T_W'(z >>> (R_F - T_F) >>> j3);
      m <= (T_W + G_W)'(t) * (T_W + G_W)'($signed(g4[i*G_W+:G_W]));
      sum <= (ACC_W'(m) <<< G_SHIFT) + $signed(b5[i*ACC_W+:ACC_W]);
    end
    requant #(.IN_W(ACC_W), .IN_F(ACC_F), .OUT_W(Y_W), .OUT_F(Y_F), .OUT_S(Y_S), .MODE(MODE)) u_requant (
        .x(sum),
        .y(y)
    );
    always_ff @(posedge clk) if (ce) y_data[i*Y_W+:Y_W] <= y;
  end
endmodule
