// softmax_rows: y = exp(x - max) / sum over each row of SIZE elements, PAR a beat; elements whose mask bit is not KEEP
// count as nothing and give 0, and so does a row without any other. All integer, with m the row's maximum:
//   t = round((m - x) * LOG2E / 2^DROP),  e = table[t mod 2^T_BITS] >> (t >> T_BITS),  r = floor(2^(E_F + R_F) / sum e)
//   y = requant(e * r, of fraction E_F + R_F);  the table holds 2^(E_F - i/2^T_BITS).
// Rows go through BANKS places: written (maximum), read (e, sum), divided (STEPS cycles), read again. A row takes
// max(SIZE/PAR, STEPS) cycles where BANKS is large enough.
module softmax_rows #(
    parameter int SIZE = 4,
    parameter int PAR = 1,
    parameter int BANKS = 4,
    parameter int X_W = 8,
    parameter int X_S = 1,
    parameter int KEEP = 1,
    parameter int LOG2E = 23637,
    parameter int DROP = 10,
    parameter int T_BITS = 8,
    parameter int E_F = 14,
    parameter int R_F = 15,
    parameter int BITS = 1,                      // of the quotient a cycle
    parameter int Y_W = 8,
    parameter int Y_F = 8,
    parameter int Y_S = 0,
    parameter int MODE = 1,
    parameter T_FILE = "t.mem"
) (
    input  logic               clk,
    input  logic               rst,
    input  logic [PAR*X_W-1:0] x_data,
    input  logic               x_valid,
    output logic               x_ready,
    input  logic [PAR-1:0]     x1_data,
    input  logic               x1_valid,
    output logic               x1_ready,
    output logic [PAR*Y_W-1:0] y_data,
    output logic               y_valid,
    input  logic               y_ready
);
  localparam int SF = SIZE / PAR;
  localparam int SF_W = (SF > 1) ? $clog2(SF) : 1;
  localparam int A_W = (BANKS * SF > 1) ? $clog2(BANKS * SF) : 1;
  localparam int K_W = (BANKS > 1) ? $clog2(BANKS) : 1;
  localparam int N_W = $clog2(BANKS + 1);
  localparam int XE_W = X_W + 1 - X_S;           // an unsigned x is zero-extended
  localparam int E_W = E_F + 1;
  localparam int S_W = E_W + $clog2(SIZE);
  localparam int R_W = R_F + 1;
  localparam int STEPS = R_W / BITS;
  localparam int D_W = (STEPS > 1) ? $clog2(STEPS) : 1;

  logic [N_W-1:0] free, peaked, summed, divided; // rows that wait for each of the four
  logic w_go, e_go, d_go, o_go, ce, w_done, e_done, d_done, o_done;
  logic to_free, from_free, from_peaked, from_summed, from_divided;
  logic [SF_W-1:0] w_k, e_k, o_k;
  logic [A_W-1:0] w_at, e_at, o_at;
  logic [K_W-1:0] w_b, e_b, d_b, o_b;
  logic w_last, e_last, d_last, o_last;
  logic [D_W-1:0] d_k;

  assign w_last = (w_k == SF_W'(SF - 1));
  assign e_last = (e_k == SF_W'(SF - 1));
  assign o_last = (o_k == SF_W'(SF - 1));
  assign d_last = (d_k == D_W'(STEPS - 1));
  logic room;
  assign room = (w_k != '0) | (free != '0);
  assign x_ready = room & x1_valid;
  assign x1_ready = room & x_valid;
  assign w_go = room & x_valid & x1_valid;
  assign e_go = (e_k != '0) | (peaked != '0);
  assign d_go = (d_k != '0) | (summed != '0);
  assign ce = ~y_valid | y_ready;
  assign o_go = ce & ((o_k != '0) | (divided != '0));
  assign to_free = o_done & ce;
  assign from_free = w_go & (w_k == '0);
  assign from_peaked = e_go & (e_k == '0);
  assign from_summed = d_go & (d_k == '0);
  assign from_divided = o_go & (o_k == '0);
  always_ff @(posedge clk) begin
    if (rst) begin
      free <= N_W'(BANKS);
      {peaked, summed, divided} <= '0;
      {w_k, e_k, o_k, d_k, w_at, e_at, o_at, d_b, e_b, o_b} <= '0;
    end else begin
      free <= free + N_W'(to_free) - N_W'(from_free);
      peaked <= peaked + N_W'(w_done) - N_W'(from_peaked);
      summed <= summed + N_W'(e_done) - N_W'(from_summed);
      divided <= divided + N_W'(d_done) - N_W'(from_divided);
      if (w_go) w_k <= w_last ? '0 : w_k + 1'b1;
      if (e_go) e_k <= e_last ? '0 : e_k + 1'b1;
      if (o_go) o_k <= o_last ? '0 : o_k + 1'b1;
      if (d_go) d_k <= d_last ? '0 : d_k + 1'b1;
      if (w_go) w_at <= (w_at == A_W'(BANKS * SF - 1)) ? '0 : w_at + 1'b1;
      if (e_go) e_at <= (e_at == A_W'(BANKS * SF - 1)) ? '0 : e_at + 1'b1;
      if (o_go) o_at <= (o_at == A_W'(BANKS * SF - 1)) ? '0 : o_at + 1'b1;
      if (e_go & e_last) e_b <= (e_b == K_W'(BANKS - 1)) ? '0 : e_b + 1'b1;
      if (d_go & d_last) d_b <= (d_b == K_W'(BANKS - 1)) ? '0 : d_b + 1'b1;
      if (o_go & o_last) o_b <= (o_b == K_W'(BANKS - 1)) ? '0 : o_b + 1'b1;
    end
  end

  // ---- rows come; the maximum of each
  logic [PAR*(X_W+1)-1:0] mem [0:BANKS*SF-1];    // mask bits, elements
  logic signed [XE_W-1:0] max_of [0:BANKS-1];
  logic [PAR-1:0] kept;
  logic vw, lastw;
  logic signed [XE_W-1:0] most;
  assign kept = (KEEP == 1) ? x1_data : ~x1_data;
  row_max #(.PAR(PAR), .X_W(X_W), .X_S(X_S)) u_max (
      .clk(clk), .x(x_data), .kept(kept), .first(w_k == '0), .go(vw), .most(most)
  );
  always_ff @(posedge clk) begin
    if (w_go) mem[w_at] <= {kept, x_data};
    lastw <= w_last;
    if (vw & lastw) max_of[w_b] <= most;
  end
  always_ff @(posedge clk) begin
    if (rst) begin
      {vw, w_done} <= '0;
      w_b <= '0;
    end else begin
      {vw, w_done} <= {w_go, vw & lastw};
      if (vw & lastw) w_b <= (w_b == K_W'(BANKS - 1)) ? '0 : w_b + 1'b1;
    end
  end
  function automatic logic signed [XE_W-1:0] wide(input logic [X_W-1:0] x);
    wide = (X_S == 1) ? XE_W'($signed(x)) : XE_W'({1'b0, x});
  endfunction

  // ---- e of each element, and their sum
  logic [PAR*E_W-1:0] e_mem [0:BANKS*SF-1];
  logic [S_W-1:0] sum_of [0:BANKS-1];
  logic [PAR*(X_W+1)-1:0] q1;
  logic signed [XE_W-1:0] max1;
  logic [PAR*E_W-1:0] e5;
  logic [5:0] first, last, valid;                // of the stages
  logic [5*A_W-1:0] at;
  logic [6*K_W-1:0] bank;
  logic [S_W-1:0] beat, beat6, total, total7;
  always_ff @(posedge clk) begin
    q1 <= mem[e_at];
    max1 <= max_of[e_b];
    first <= {first[4:0], e_k == '0};
    last <= {last[4:0], e_last};
    at <= {at[4*A_W-1:0], e_at};
    bank <= {bank[5*K_W-1:0], e_b};
    beat6 <= beat;
    if (valid[4]) e_mem[at[4*A_W+:A_W]] <= e5;
    if (valid[5]) total7 <= total;
    if (valid[5] & last[5]) sum_of[bank[5*K_W+:K_W]] <= total;
  end
  always_ff @(posedge clk) begin
    if (rst) {valid, e_done} <= '0;
    else {valid, e_done} <= {valid[4:0], e_go, valid[5] & last[5]};
  end
  for (genvar i = 0; i < PAR; i++) begin : g_exp
    logic [XE_W-1:0] d;
    assign d = $unsigned(max1 - wide(q1[i*X_W+:X_W]));
    powers #(.D_W(XE_W), .LOG2E(LOG2E), .DROP(DROP), .T_BITS(T_BITS), .E_F(E_F), .T_FILE(T_FILE)) u_powers (
        .clk(clk), .d(d), .kept(q1[PAR*X_W+i]), .e(e5[i*E_W+:E_W])
    );
  end
  always_comb begin
    beat = '0;
    for (int i = 0; i < PAR; i++) beat = beat + S_W'(e5[i*E_W+:E_W]);
    total = first[5] ? beat6 : total7 + beat6;
  end

  // ---- the reciprocal of each sum
  logic [R_W-1:0] rec_of [0:BANKS-1];
  logic [R_W-1:0] quotient;
  reciprocal #(.S_W(S_W), .R_W(R_W), .E_F(E_F), .BITS(BITS)) u_reciprocal (
      .clk(clk), .step(d_go), .first(d_k == '0), .by(sum_of[d_b]), .quotient(quotient)
  );
  always_ff @(posedge clk) begin
    if (d_go & d_last) rec_of[d_b] <= quotient;
    d_done <= ~rst & d_go & d_last;
  end

  // ---- products leave
  logic [PAR*E_W-1:0] eo;
  logic [R_W-1:0] ro;
  logic vo1, vo2, lo1, lo2;
  always_ff @(posedge clk) if (ce) begin
    eo <= e_mem[o_at];
    ro <= rec_of[o_b];
  end
  always_ff @(posedge clk) begin
    if (rst) {vo1, vo2, y_valid, lo1, lo2, o_done} <= '0;
    else if (ce) {vo1, vo2, y_valid, lo1, lo2, o_done} <= {o_go, vo1, vo2, o_go & o_last, lo1, lo2};
  end
  for (genvar i = 0; i < PAR; i++) begin : g_out
    logic [E_W+R_W-1:0] p;
    logic [Y_W-1:0] y;
    always_ff @(posedge clk) if (ce) p <= (E_W + R_W)'(eo[i*E_W+:E_W]) * (E_W + R_W)'(ro);
    requant #(.IN_W(E_W + R_W + 1), .IN_F(E_F + R_F), .OUT_W(Y_W), .OUT_F(Y_F), .OUT_S(Y_S), .MODE(MODE)) u_requant (
        .x($signed({1'b0, p})),
        .y(y)
    );
    always_ff @(posedge clk) if (ce) y_data[i*Y_W+:Y_W] <= y;
  end
endmodule
