// pair: two streams element by element, in another format: the sum (OP 0), the difference (1), the product (2), the
// larger (3) or the smaller (4) of both; or a bit, whether the first is larger (5), not smaller (6), equal (7) or not (8).
// LANES elements per beat; both streams move together; 2 cycles.
module pair #(
    parameter int OP = 0,
    parameter int LANES = 1,
    parameter int X_W = 8,
    parameter int X_S = 1,                       // 1: signed
    parameter int X_UP = 0,                      // places to the result's fraction, of sums
    parameter int X1_W = 8,
    parameter int X1_S = 1,
    parameter int X1_UP = 0,
    parameter int S_W = 9,                       // of the exact result
    parameter int S_F = 4,
    parameter int Y_W = 8,
    parameter int Y_F = 4,
    parameter int Y_S = 1,
    parameter int MODE = 1
) (
    input  logic                  clk,
    input  logic                  rst,
    input  logic [LANES*X_W-1:0]  x_data,
    input  logic                  x_valid,
    output logic                  x_ready,
    input  logic [LANES*X1_W-1:0] x1_data,
    input  logic                  x1_valid,
    output logic                  x1_ready,
    output logic [LANES*Y_W-1:0]  y_data,
    output logic                  y_valid,
    input  logic                  y_ready
);
  localparam int A_W = X_W + 1 - X_S;            // an unsigned number is zero-extended
  localparam int B_W = X1_W + 1 - X1_S;
  logic ce, v1;
  assign ce = ~y_valid | y_ready;
  assign x_ready = ce & x1_valid;
  assign x1_ready = ce & x_valid;
  always_ff @(posedge clk) begin
    if (rst) {v1, y_valid} <= '0;
    else if (ce) {v1, y_valid} <= {x_valid & x1_valid, v1};
  end
  for (genvar i = 0; i < LANES; i++) begin : g_lane
    logic signed [A_W-1:0] a;
    logic signed [B_W-1:0] b;
    logic signed [S_W-1:0] s;
    logic [Y_W-1:0] y;
    if (X_S == 1) begin : g_signed
      assign a = x_data[i*X_W+:X_W];
    end else begin : g_unsigned
      assign a = {1'b0, x_data[i*X_W+:X_W]};
    end
    if (X1_S == 1) begin : g_signed1
      assign b = x1_data[i*X1_W+:X1_W];
    end else begin : g_unsigned1
      assign b = {1'b0, x1_data[i*X1_W+:X1_W]};
    end
    if (OP == 0) begin : g_sum
      always_ff @(posedge clk) if (ce) s <= (S_W'(a) <<< X_UP) + (S_W'(b) <<< X1_UP);
    end else if (OP == 1) begin : g_difference
      always_ff @(posedge clk) if (ce) s <= (S_W'(a) <<< X_UP) - (S_W'(b) <<< X1_UP);
    end else if (OP == 2) begin : g_product
      always_ff @(posedge clk) if (ce) s <= S_W'(a) * S_W'(b);
    end else begin : g_compare
      logic signed [S_W-1:0] p, q;
      logic first;                               // whether p is taken; the bit itself
      assign p = S_W'(a) <<< X_UP;
      assign q = S_W'(b) <<< X1_UP;
      assign first = (OP == 4) ? p < q : (OP == 6) ? p >= q : (OP == 7) ? p == q : (OP == 8) ? p != q : p > q;
      if (OP < 5) begin : g_one
        always_ff @(posedge clk) if (ce) s <= first ? p : q;
      end else begin : g_bit
        always_ff @(posedge clk) if (ce) s <= {{(S_W - 1){1'b0}}, first};
      end
    end
    requant #(.IN_W(S_W), .IN_F(S_F), .OUT_W(Y_W), .OUT_F(Y_F), .OUT_S(Y_S), .MODE(MODE)) u_requant (
        .x(s),
        .y(y)
    );
    always_ff @(posedge clk) if (ce) y_data[i*Y_W+:Y_W] <= y;
  end
endmodule
