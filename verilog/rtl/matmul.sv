// matmul: y = x · x1 of two streams, BATCH matrices x1 [K_SIZE, N_SIZE] a frame, fixed point, folded.
// All of x1 is written into one of two banks (operand_banks); rows of x meet it TOKENS at once, REPEAT
// blocks of rows with one matrix, then the next one. PAR_IN x PAR_OUT x TOKENS products a cycle, so a block of rows takes
//   (K_SIZE/PAR_IN) * (N_SIZE/PAR_OUT) cycles; a result leaves 5 cycles after its last product is requested, 6 where
// it is multiplied by MUL. The first outputs consume x, which a buffer replays for the others.
module matmul #(
    parameter int K_SIZE = 8,
    parameter int N_SIZE = 8,
    parameter int BATCH  = 1,
    parameter int REPEAT = 1,
    parameter int BLOCKS = 4,                    // blocks of rows per frame
    parameter int PAR_IN  = 2,
    parameter int PAR_OUT = 2,
    parameter int TOKENS  = 1,
    parameter int X_W = 8,
    parameter int X_S = 1,
    parameter int B_W = 8,
    parameter int B_S = 1,
    parameter int ACROSS = 0,                    // 0: a beat of x1 is PAR_IN elements along K; 1: PAR_OUT along N
    parameter int ACC_W = 24,
    parameter int MUL = 1,                       // the sums times MUL ...
    parameter int Q_W = 24,                      // ... have Q_W bits
    parameter int Q_F = 10,                      // and this fraction
    parameter int Y_W = 8,
    parameter int Y_F = 4,
    parameter int Y_S = 1,
    parameter int MODE = 1,
    parameter int W_START = 0,                   // the word that a beat of x1 goes to: see walk
    parameter int W_C0 = 1, parameter int W_C1 = 1, parameter int W_C2 = 1,
    parameter int W_C3 = 1, parameter int W_C4 = 1, parameter int W_C5 = 1,
    parameter int W_D0 = 0, parameter int W_D1 = 0, parameter int W_D2 = 0,
    parameter int W_D3 = 0, parameter int W_D4 = 0, parameter int W_D5 = 0,
    parameter int L_START = 0,                   // and its lane there
    parameter int L_C0 = 1, parameter int L_C1 = 1, parameter int L_C2 = 1,
    parameter int L_C3 = 1, parameter int L_C4 = 1, parameter int L_C5 = 1,
    parameter int L_D0 = 0, parameter int L_D1 = 0, parameter int L_D2 = 0,
    parameter int L_D3 = 0, parameter int L_D4 = 0, parameter int L_D5 = 0
) (
    input  logic                          clk,
    input  logic                          rst,
    input  logic [TOKENS*PAR_IN*X_W-1:0]  x_data,
    input  logic                          x_valid,
    output logic                          x_ready,
    input  logic [(ACROSS==0 ? PAR_IN : PAR_OUT)*B_W-1:0] x1_data,
    input  logic                          x1_valid,
    output logic                          x1_ready,
    output logic [TOKENS*PAR_OUT*Y_W-1:0] y_data,
    output logic                          y_valid,
    input  logic                          y_ready
);
  localparam int SF = K_SIZE / PAR_IN;
  localparam int NF = N_SIZE / PAR_OUT;
  localparam int SF_W = (SF > 1) ? $clog2(SF) : 1;
  localparam int NF_W = (NF > 1) ? $clog2(NF) : 1;
  localparam int REP_W = (REPEAT > 1) ? $clog2(REPEAT) : 1;
  localparam int BAT_W = (BATCH > 1) ? $clog2(BATCH) : 1;
  localparam int BLK_W = (BLOCKS > 1) ? $clog2(BLOCKS) : 1;
  localparam int WORDS = BATCH * SF * NF;        // of a bank
  localparam int A_W = $clog2(2 * WORDS);
  localparam int LANES = (ACROSS == 0) ? PAR_OUT : PAR_IN;
  localparam int GROUP = (ACROSS == 0) ? PAR_IN : PAR_OUT;
  localparam int XE_W = X_W + 1 - X_S;           // unsigned operands are zero-extended
  localparam int BE_W = B_W + 1 - B_S;
  localparam int P_W = XE_W + BE_W;
  localparam int S_W = P_W + $clog2(PAR_IN);

  // ---- x1 is written into one of two banks; w1 is read from the other
  logic whole, r_bank, starts, from_full, to_free, ce;
  logic [A_W-1:0] addr;
  logic [LANES*GROUP*B_W-1:0] w1;                // lane, element of its beat
  operand_banks #(
      .W(GROUP * B_W), .LANES(LANES), .WORDS(WORDS), .A_W(A_W),
      .W_START(W_START), .W_C0(W_C0), .W_C1(W_C1), .W_C2(W_C2), .W_C3(W_C3), .W_C4(W_C4), .W_C5(W_C5),
      .W_D0(W_D0), .W_D1(W_D1), .W_D2(W_D2), .W_D3(W_D3), .W_D4(W_D4), .W_D5(W_D5),
      .L_START(L_START), .L_C0(L_C0), .L_C1(L_C1), .L_C2(L_C2), .L_C3(L_C3), .L_C4(L_C4), .L_C5(L_C5),
      .L_D0(L_D0), .L_D1(L_D1), .L_D2(L_D2), .L_D3(L_D3), .L_D4(L_D4), .L_D5(L_D5)
  ) u_banks (
      .clk(clk), .rst(rst), .x_data(x1_data), .x_valid(x1_valid), .x_ready(x1_ready),
      .whole(whole), .taken(from_full), .freed(to_free), .ce(ce), .addr(addr), .word(w1)
  );

  // ---- stage 0: walk (block, nf, sf)
  logic go, first_row, freed, sf_last, nf_last, rep_last, bat_last, row_last, blk_last;
  logic [SF_W-1:0] sf;
  logic [NF_W-1:0] nf;
  logic [REP_W-1:0] rep;
  logic [BAT_W-1:0] bat;
  logic [BLK_W-1:0] blk;
  logic [A_W-1:0] base, begin_at, next_base;
  assign ce = ~y_valid | y_ready;
  assign first_row = (nf == '0);
  assign {nf_last, sf_last} = {nf == NF_W'(NF - 1), sf == SF_W'(SF - 1)};
  assign rep_last = (rep == REP_W'(REPEAT - 1));
  assign bat_last = (bat == BAT_W'(BATCH - 1));
  assign blk_last = (blk == BLK_W'(BLOCKS - 1));
  assign row_last = sf_last & nf_last;
  assign go = ce & (~first_row | x_valid) & (~starts | whole);
  assign x_ready = ce & first_row & (~starts | whole);
  assign begin_at = (r_bank ^ blk_last) ? A_W'(WORDS) : '0;
  assign next_base = (blk_last | (rep_last & bat_last)) ? begin_at : rep_last ? base + A_W'(SF * NF) : base;

  logic [TOKENS*PAR_IN*X_W-1:0] x_buf [0:SF-1];
  always_ff @(posedge clk) if (go & first_row) x_buf[sf] <= x_data;
  assign to_free = freed & ce;
  assign from_full = go & starts;

  always_ff @(posedge clk) begin
    if (rst) begin
      {sf, nf, rep, bat, blk, addr, base} <= '0;
      r_bank <= 1'b0;
      starts <= 1'b1;
    end else if (go) begin
      sf <= sf_last ? '0 : sf + 1'b1;
      if (sf_last) nf <= nf_last ? '0 : nf + 1'b1;
      addr <= row_last ? next_base : addr + 1'b1;
      starts <= row_last & blk_last;
      if (row_last) begin
        base <= next_base;
        blk <= blk_last ? '0 : blk + 1'b1;
        rep <= (rep_last | blk_last) ? '0 : rep + 1'b1;
        if (rep_last | blk_last) bat <= (bat_last | blk_last) ? '0 : bat + 1'b1;
        if (blk_last) r_bank <= ~r_bank;
      end
    end
  end

  // ---- stage 1: operands
  logic [TOKENS*PAR_IN*X_W-1:0] x1;
  logic v1, v2, v3, v4, f1, f2, f3, f4, first1, first2, first3, last1, last2, last3;
  always_ff @(posedge clk) if (ce) begin
    x1 <= first_row ? x_data : x_buf[sf];
    first1 <= (sf == '0);
    last1 <= sf_last;
    {first2, last2, first3, last3} <= {first1, last1, first2, last2};
  end

  // ---- stages 2, 3: products, then their sum; stage 4: accumulate; 5: scale, where MUL is not 1; then requantise
  logic vq, fq;                                  // what the requantiser holds is a result, the last one of a frame
  always_ff @(posedge clk) begin
    if (rst) {v1, v2, v3, v4, y_valid, f1, f2, f3, f4, freed} <= '0;
    else if (ce) begin
      {v1, v2, v3, v4, y_valid} <= {go, v1, v2, v3 & last3, vq};
      {f1, f2, f3, f4, freed} <= {go & row_last & blk_last, f1, f2, f3, fq};
    end
  end
  if (MUL == 1) begin : g_plain
    assign {vq, fq} = {v4, f4};
  end else begin : g_late
    always_ff @(posedge clk) begin
      if (rst) {vq, fq} <= '0;
      else if (ce) {vq, fq} <= {v4, f4};
    end
  end

  for (genvar t = 0; t < TOKENS; t++) begin : g_token
    for (genvar o = 0; o < PAR_OUT; o++) begin : g_out
      logic [PAR_IN*P_W-1:0] prod;
      logic signed [S_W-1:0] sum, sum3;
      logic signed [ACC_W-1:0] acc;
      logic signed [Q_W-1:0] q;
      for (genvar i = 0; i < PAR_IN; i++) begin : g_mul
        localparam int AT = (ACROSS == 0) ? o * PAR_IN + i : i * PAR_OUT + o;
        logic signed [XE_W-1:0] xe;
        logic signed [BE_W-1:0] we;
        logic signed [P_W-1:0] p;
        if (X_S == 1) begin : g_signed
          assign xe = x1[(t*PAR_IN+i)*X_W+:X_W];
        end else begin : g_unsigned
          assign xe = {1'b0, x1[(t*PAR_IN+i)*X_W+:X_W]};
        end
        if (B_S == 1) begin : g_signed_b
          assign we = w1[AT*B_W+:B_W];
        end else begin : g_unsigned_b
          assign we = {1'b0, w1[AT*B_W+:B_W]};
        end
        always_ff @(posedge clk) if (ce) p <= xe * we;
        assign prod[i*P_W+:P_W] = p;
      end
      always_comb begin
        sum = '0;
        for (int i = 0; i < PAR_IN; i++) sum = sum + S_W'($signed(prod[i*P_W+:P_W]));
      end
      always_ff @(posedge clk) if (ce) begin
        sum3 <= sum;
        if (v3) acc <= ACC_W'(sum3) + (first3 ? '0 : acc);
      end
      if (MUL == 1) begin : g_as_is
        assign q = acc;
      end else begin : g_scaled
        always_ff @(posedge clk) if (ce) q <= Q_W'(acc) * Q_W'(MUL);
      end
      logic [Y_W-1:0] y;
      requant #(.IN_W(Q_W), .IN_F(Q_F), .OUT_W(Y_W), .OUT_F(Y_F), .OUT_S(Y_S), .MODE(MODE)) u_requant (
          .x(q),
          .y(y)
      );
      always_ff @(posedge clk) if (ce & vq) y_data[(t*PAR_OUT+o)*Y_W+:Y_W] <= y;
    end
  end
endmodule
