// linear: y = x W^T + b over TOKENS rows at once, fixed point, folded.
// A row of IN_SIZE elements arrives as IN_SIZE/PAR_IN beats; OUT_SIZE/PAR_OUT beats leave.
// PAR_IN x PAR_OUT x TOKENS products per cycle, so a block of TOKENS rows takes
//   (IN_SIZE/PAR_IN) * (OUT_SIZE/PAR_OUT) cycles; a result leaves 5 cycles after its last product is requested.
// The first outputs consume the input, which a buffer replays for the others.
// Of several GROUPS each row that comes uses the next group's weights.
module linear #(
    parameter int IN_SIZE  = 16,
    parameter int OUT_SIZE = 16,
    parameter int PAR_IN   = 4,
    parameter int PAR_OUT  = 4,
    parameter int TOKENS   = 1,
    parameter int GROUPS   = 1,
    parameter int X_W = 8,
    parameter int X_S = 1,                       // 1: x is signed
    parameter int W_W = 8,
    parameter int B_W = 16,                      // bias, in the accumulator's fraction
    parameter int ACC_W = 24,
    parameter int ACC_F = 10,
    parameter int P_SHIFT = 0,                   // places from a product's fraction to the accumulator's
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
  localparam int XE_W = X_W + 1 - X_S;           // an unsigned x is zero-extended
  localparam int FULL_W = XE_W + W_W;            // sums are right modulo 2^ACC_W, so nothing needs to be wider
  localparam int P_W = (FULL_W < ACC_W) ? FULL_W : ACC_W;
  localparam int S_W = (P_W + $clog2(PAR_IN) < ACC_W) ? P_W + $clog2(PAR_IN) : ACC_W;

  logic ce;                                      // clock enable of the pipeline
  assign ce = ~y_valid | y_ready;

  // ---- stages 0, 1: walk through the row, read the operands
  logic [TOKENS*PAR_IN*X_W-1:0]  x1;
  logic [PAR_OUT*PAR_IN*W_W-1:0] w1;
  logic [PAR_OUT*B_W-1:0] b1, b2, b3;
  logic v1, v2, v3, v4, first1, first2, first3, last1, last2, last3;
  row_operands #(
      .SF(SF), .NF(NF), .GROUPS(GROUPS), .X_W(TOKENS*PAR_IN*X_W), .W_W(PAR_OUT*PAR_IN*W_W), .B_W(PAR_OUT*B_W),
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

  // ---- stages 2, 3: products, then their sum; stage 4: accumulate; stage 5: requantise
  always_ff @(posedge clk) begin
    if (rst) {v2, v3, v4, y_valid} <= '0;
    else if (ce) {v2, v3, v4, y_valid} <= {v1, v2, v3 & last3, v4};
  end
  always_ff @(posedge clk) if (ce) begin
    {first2, last2, b2} <= {first1, last1, b1};
    {first3, last3, b3} <= {first2, last2, b2};
  end

  for (genvar t = 0; t < TOKENS; t++) begin : g_token
    for (genvar o = 0; o < PAR_OUT; o++) begin : g_out
      logic [PAR_IN*P_W-1:0] prod;
      logic signed [S_W-1:0] sum, sum3;
      logic signed [ACC_W-1:0] acc;
      always_ff @(posedge clk) if (ce) begin   // in one process: tools are slow with many
        for (int i = 0; i < PAR_IN; i++)
          prod[i*P_W+:P_W] <= P_W'(FULL_W'($signed(XE_W'(x1[(t*PAR_IN+i)*X_W+:X_W])))
                                   * FULL_W'($signed(w1[(o*PAR_IN+i)*W_W+:W_W])));
      end
      always_comb begin
        sum = '0;
        for (int i = 0; i < PAR_IN; i++) sum = sum + S_W'($signed(prod[i*P_W+:P_W]));
      end
      always_ff @(posedge clk) if (ce) begin
        sum3 <= sum;
        if (v3) acc <= (ACC_W'(sum3) <<< P_SHIFT) + (first3 ? ACC_W'($signed(b3[o*B_W+:B_W])) : acc);
      end
      logic [Y_W-1:0] y;
      requant #(.IN_W(ACC_W), .IN_F(ACC_F), .OUT_W(Y_W), .OUT_F(Y_F), .OUT_S(Y_S), .MODE(MODE)) u_requant (
          .x(acc),
          .y(y)
      );
      always_ff @(posedge clk) if (ce & v4) y_data[(t*PAR_OUT+o)*Y_W+:Y_W] <= y;
    end
  end
endmodule
