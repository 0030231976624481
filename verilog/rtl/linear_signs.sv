// linear_signs: y = x W^T + b for weights -1, 0, +1: adds and subtracts, no product; folded as `linear` is.
// A subtracted x is added with its bits inverted; what is missing then, a constant, is part of b. For a x of one
// bit and weights without zeros, that is XNOR and a count of ones.
// PAR_IN x PAR_OUT x TOKENS terms a cycle, so a block of TOKENS rows takes
//   (IN_SIZE/PAR_IN) * (OUT_SIZE/PAR_OUT) cycles; a result leaves 4 cycles after its last term is requested.
// Of several GROUPS each row that comes uses the next group's weights.
module linear_signs #(
    parameter int IN_SIZE  = 16,
    parameter int OUT_SIZE = 16,
    parameter int PAR_IN   = 4,
    parameter int PAR_OUT  = 4,
    parameter int TOKENS   = 1,
    parameter int GROUPS   = 1,
    parameter int X_W = 8,
    parameter int X_S = 1,                       // 1: x is signed
    parameter int W_W = 1,                       // 1: the bit of a weight is + ; 2: negative, not zero
    parameter int ACC_W = 24,
    parameter int ACC_F = 10,
    parameter int P_SHIFT = 0,                   // places from a term's fraction to the accumulator's
    parameter int Y_W = 8,
    parameter int Y_F = 4,
    parameter int Y_S = 1,
    parameter int MODE = 1,
    parameter W_FILE = "w.mem",                  // words: out block, in block
    parameter B_FILE = "b.mem"
) (
    input  logic                          clk,
    input  logic                          rst,
    input  logic [TOKENS*PAR_IN*X_W-1:0]  x_data,
    input  logic                          x_valid,
    output logic                          x_ready,
    output logic [TOKENS*PAR_OUT*Y_W-1:0] y_data,
    output logic                          y_valid,
    input  logic                          y_ready
);
  localparam int SF = IN_SIZE / PAR_IN;
  localparam int NF = OUT_SIZE / PAR_OUT;
  localparam int T_W = X_W + 1 - X_S + $clog2(PAR_IN);
  localparam int S_W = (T_W < ACC_W) ? T_W : ACC_W; // sums are right modulo 2^ACC_W

  logic ce;                                      // clock enable of the pipeline
  assign ce = ~y_valid | y_ready;

  // ---- stages 0, 1: walk through the row, read the operands
  logic [TOKENS*PAR_IN*X_W-1:0]  x1;
  logic [PAR_OUT*PAR_IN*W_W-1:0] w1;
  logic [PAR_OUT*ACC_W-1:0] b1, b2;
  logic v1, v2, v3, first1, first2, last1, last2;
  row_operands #(
      .SF(SF), .NF(NF), .GROUPS(GROUPS), .X_W(TOKENS*PAR_IN*X_W), .W_W(PAR_OUT*PAR_IN*W_W), .B_W(PAR_OUT*ACC_W),
      .W_FILE(W_FILE), .B_FILE(B_FILE)
  ) u_operands (
      .clk(clk),
      .rst(rst),
      .ce(ce),
      .x_data(x_data),
      .x_valid(x_valid),
      .x_ready(x_ready),
      .v(v1),
      .first(first1),
      .last(last1),
      .x(x1),
      .w(w1),
      .b(b1)
  );

  // ---- stage 2: the sum of the terms; stage 3: accumulate; stage 4: requantise
  always_ff @(posedge clk) begin
    if (rst) {v2, v3, y_valid} <= '0;
    else if (ce) {v2, v3, y_valid} <= {v1, v2 & last2, v3};
  end
  always_ff @(posedge clk) if (ce) {first2, last2, b2} <= {first1, last1, b1};

  for (genvar t = 0; t < TOKENS; t++) begin : g_token
    for (genvar o = 0; o < PAR_OUT; o++) begin : g_out
      logic [PAR_IN*X_W-1:0] terms;
      logic signed [S_W-1:0] sum, sum2;
      logic signed [ACC_W-1:0] acc;
      for (genvar i = 0; i < PAR_IN; i++) begin : g_term
        logic [X_W-1:0] x;
        logic [W_W-1:0] w;
        assign x = x1[(t*PAR_IN+i)*X_W+:X_W];
        assign w = w1[(o*PAR_IN+i)*W_W+:W_W];
        if (W_W == 1) begin : g_binary
          assign terms[i*X_W+:X_W] = x ^ {X_W{~w[0]}};
        end else begin : g_ternary
          assign terms[i*X_W+:X_W] = (x ^ {X_W{w[W_W-1]}}) & {X_W{w[0]}};
        end
      end
      always_comb begin
        sum = '0;
        for (int i = 0; i < PAR_IN; i++) begin
          if (X_S == 1) sum = sum + S_W'($signed(terms[i*X_W+:X_W]));
          else sum = sum + S_W'(terms[i*X_W+:X_W]);
        end
      end
      always_ff @(posedge clk) if (ce) begin
        sum2 <= sum;
        if (v2) acc <= (ACC_W'(sum2) <<< P_SHIFT) + (first2 ? ACC_W'($signed(b2[o*ACC_W+:ACC_W])) : acc);
      end
      logic [Y_W-1:0] y;
      requant #(.IN_W(ACC_W), .IN_F(ACC_F), .OUT_W(Y_W), .OUT_F(Y_F), .OUT_S(Y_S), .MODE(MODE)) u_requant (
          .x(acc),
          .y(y)
      );
      always_ff @(posedge clk) if (ce & v3) y_data[(t*PAR_OUT+o)*Y_W+:Y_W] <= y;
    end
  end
endmodule
