// linear_blocks: y = x W^T + b with exponents for blocks of x, of the weights, or of both; fixed-point sums, folded.
// x comes as mantissas of blocks of X_STEPS beats, x1 as an exponent (E8M0) before each; rows of one token.
// The sum of PAR_IN products is put in its place by both exponents, exactly, so that the order does not matter.
// PAR_IN x PAR_OUT products per cycle, so a row takes (IN_SIZE/PAR_IN) * (OUT_SIZE/PAR_OUT) cycles; a result leaves
//   6 cycles after its last product is requested. The first outputs consume the input, which a buffer replays.
module linear_blocks #(
    parameter int IN_SIZE  = 16,
    parameter int OUT_SIZE = 16,
    parameter int PAR_IN   = 4,
    parameter int PAR_OUT  = 4,
    parameter int X_W = 8,
    parameter int X_S = 1,                       // 1: x is signed
    parameter int XE = 1,                        // 1: x has exponents
    parameter int X_STEPS = 4,                   // beats of a block of x
    parameter int X_MOST = 7,                    // the largest exponent less BASE
    parameter int BASE = 127,
    parameter int DROP = 6,                      // places of a mantissa behind its point
    parameter int W_W = 8,
    parameter int W_STEPS = 4,                   // beats of a block of weights
    parameter int W_MOST = 7,                    // the largest of their exponents; 0: they have none
    parameter int ACC_W = 24,
    parameter int ACC_F = 10,
    parameter int P_SHIFT = 0,                   // places from a product's fraction to the accumulator's
    parameter int Y_W = 8,
    parameter int Y_F = 4,
    parameter int Y_S = 1,
    parameter int MODE = 1,
    parameter W_FILE = "w.mem",                  // words: out block, in block
    parameter E_FILE = "e.mem",                  // exponents of weights: out block, block of weights
    parameter B_FILE = "b.mem"
) (
    input  logic                   clk,
    input  logic                   rst,
    input  logic [PAR_IN*X_W-1:0]  x_data,
    input  logic                   x_valid,
    output logic                   x_ready,
    input  logic [7:0]             x1_data,
    input  logic                   x1_valid,
    output logic                   x1_ready,
    output logic [PAR_OUT*Y_W-1:0] y_data,
    output logic                   y_valid,
    input  logic                   y_ready
);
  localparam int SF = IN_SIZE / PAR_IN;
  localparam int NF = OUT_SIZE / PAR_OUT;
  localparam int A_W = (SF * NF > 1) ? $clog2(SF * NF) : 1;
  localparam int BA_W = (NF > 1) ? $clog2(NF) : 1;
  localparam int XB = (SF + X_STEPS - 1) / X_STEPS;      // blocks of a row
  localparam int XB_W = (XB > 1) ? $clog2(XB) : 1;
  localparam int WB = (SF + W_STEPS - 1) / W_STEPS;
  localparam int EA_W = (WB * NF > 1) ? $clog2(WB * NF) : 1;
  localparam int XN_W = (X_STEPS > 1) ? $clog2(X_STEPS) : 1;
  localparam int WN_W = (W_STEPS > 1) ? $clog2(W_STEPS) : 1;
  localparam int EW_W = $clog2(W_MOST + 2);
  localparam int SH_W = $clog2(X_MOST + W_MOST + P_SHIFT + 2);
  localparam int P_W = X_W + 1 - X_S + W_W;      // an unsigned x is zero-extended
  localparam int S_W = P_W + $clog2(PAR_IN);
  localparam int L_W = ((ACC_W > S_W) ? ACC_W : S_W) + DROP;

  logic [PAR_OUT*PAR_IN*W_W-1:0] w_rom [0:SF*NF-1];
  logic [PAR_OUT*EW_W-1:0]       e_rom [0:WB*NF-1];
  logic [PAR_OUT*ACC_W-1:0]      b_rom [0:NF-1];
  initial $readmemh(W_FILE, w_rom);
  initial $readmemh(E_FILE, e_rom);
  initial $readmemh(B_FILE, b_rom);

  logic ce;                                      // clock enable of the pipeline
  assign ce = ~y_valid | y_ready;

  // ---- stage 0: walk through the row, and the blocks
  logic [A_W-1:0]  addr;
  logic [BA_W-1:0] b_addr;
  logic [PAR_IN*X_W-1:0] x1;
  logic go, first_row, first0, last0, asks;
  row_walk #(.SF(SF), .NF(NF), .GROUPS(1), .W(PAR_IN*X_W), .A_W(A_W), .B_W(BA_W)) u_walk (
      .clk(clk),
      .rst(rst),
      .ce(ce),
      .more(~asks | x1_valid),
      .x_data(x_data),
      .x_valid(x_valid),
      .x_ready(x_ready),
      .go(go),
      .first_row(first_row),
      .first(first0),
      .last(last0),
      .addr(addr),
      .b_addr(b_addr),
      .x(x1)
  );

  logic [EA_W-1:0] e_addr;
  logic [XB_W-1:0] xb;
  logic [XN_W-1:0] x_at;
  logic [WN_W-1:0] w_at;
  logic x_last, w_last;
  assign x_last = last0 | (x_at == XN_W'(X_STEPS - 1));
  assign w_last = last0 | (w_at == WN_W'(W_STEPS - 1));
  assign asks = first_row & (x_at == '0) & (XE == 1);
  assign x1_ready = ce & asks & x_valid;

  logic [7:0] e_buf [0:XB-1];
  logic [7:0] e;
  always_ff @(posedge clk) if (go & asks) e_buf[xb] <= x1_data;
  assign e = asks ? x1_data : e_buf[xb];

  always_ff @(posedge clk) begin
    if (rst) begin
      e_addr <= '0;
      xb <= '0;
      x_at <= '0;
      w_at <= '0;
    end else if (go) begin
      x_at <= x_last ? '0 : x_at + 1'b1;
      if (x_last) xb <= last0 ? '0 : xb + 1'b1;
      w_at <= w_last ? '0 : w_at + 1'b1;
      if (w_last) e_addr <= (e_addr == EA_W'(WB * NF - 1)) ? '0 : e_addr + 1'b1;
    end
  end

  // ---- stage 1: operands; 2, 3: products and their sum; 4: put in place; 5: accumulate; 6: requantise
  logic [PAR_OUT*PAR_IN*W_W-1:0] w1;
  logic [PAR_OUT*EW_W-1:0] we1, we2, we3;
  logic [PAR_OUT*ACC_W-1:0] b1, b2, b3, b4;
  logic [SH_W-1:0] xe1, xe2, xe3;
  logic v1, v2, v3, v4, v5, first1, first2, first3, first4, last1, last2, last3, last4;
  always_ff @(posedge clk) begin
    if (rst) {v1, v2, v3, v4, v5, y_valid} <= '0;
    else if (ce) {v1, v2, v3, v4, v5, y_valid} <= {go, v1, v2, v3, v4 & last4, v5};
  end
  always_ff @(posedge clk) if (ce) begin
    w1 <= w_rom[addr];
    we1 <= e_rom[e_addr];
    b1 <= b_rom[b_addr];
    xe1 <= (XE == 1) ? SH_W'(e - 8'(BASE)) : '0;
    {first1, last1} <= {first0, last0};
    {first2, last2, b2, xe2, we2} <= {first1, last1, b1, xe1, we1};
    {first3, last3, b3, xe3, we3} <= {first2, last2, b2, xe2, we2};
    {first4, last4, b4} <= {first3, last3, b3};
  end

  for (genvar o = 0; o < PAR_OUT; o++) begin : g_out
    logic [PAR_IN*P_W-1:0] prod;
    logic signed [S_W-1:0] sum, sum3;
    logic [SH_W-1:0] places;
    logic signed [L_W-1:0] wide;
    logic signed [ACC_W-1:0] placed, acc;
    always_ff @(posedge clk) if (ce) begin     // in one process: tools are slow with many
      for (int i = 0; i < PAR_IN; i++)
        prod[i*P_W+:P_W] <= P_W'($signed((X_W+1-X_S)'(x1[i*X_W+:X_W]))) * P_W'($signed(w1[(o*PAR_IN+i)*W_W+:W_W]));
    end
    always_comb begin
      sum = '0;
      for (int i = 0; i < PAR_IN; i++) sum = sum + S_W'($signed(prod[i*P_W+:P_W]));
    end
    assign places = xe3 + SH_W'(we3[o*EW_W+:EW_W]) + SH_W'(P_SHIFT);
    assign wide = L_W'(sum3) <<< places;
    always_ff @(posedge clk) if (ce) begin
      sum3 <= sum;
      placed <= ACC_W'(wide >>> DROP);
      if (v4) acc <= placed + (first4 ? $signed(b4[o*ACC_W+:ACC_W]) : acc);
    end
    logic [Y_W-1:0] y;
    requant #(.IN_W(ACC_W), .IN_F(ACC_F), .OUT_W(Y_W), .OUT_F(Y_F), .OUT_S(Y_S), .MODE(MODE)) u_requant (
        .x(acc),
        .y(y)
    );
    always_ff @(posedge clk) if (ce & v5) y_data[o*Y_W+:Y_W] <= y;
  end
endmodule
