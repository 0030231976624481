// divide: x / x1, rounded (MODE 1: ties to even, 0: down) and saturated; a number over 0 saturates, 0 over 0 is 0.
// Magnitudes bit by bit: x is shifted up by UP places, x1 by DOWN; N_W = max(X_W + UP, 2) bits of quotient.
// LANES elements per beat; N_W + 1 cycles a beat, 2 from the last of them to the output.
module divide #(
    parameter int LANES = 1,
    parameter int X_W = 8,
    parameter int X_S = 1,                       // 1: signed
    parameter int X1_W = 8,
    parameter int X1_S = 1,
    parameter int UP = 4,
    parameter int DOWN = 0,
    parameter int Y_W = 8,
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
  localparam int N_W = (X_W + UP > 2) ? X_W + UP : 2;
  localparam int D_W = X1_W + DOWN;
  localparam int K_W = $clog2(N_W + 1);
  localparam int C_W = ((N_W > Y_W) ? N_W : Y_W) + 1;  // to compare a quotient with the largest result
  logic [K_W-1:0] k;
  logic ce, first, last, go, v1;
  assign ce = ~y_valid | y_ready;
  assign first = (k == '0);
  assign last = (k == K_W'(N_W));
  assign go = ce & (~first | (x_valid & x1_valid));
  assign x_ready = ce & first & x1_valid;
  assign x1_ready = ce & first & x_valid;
  always_ff @(posedge clk) begin
    if (rst) begin
      k <= '0;
      {v1, y_valid} <= '0;
    end else begin
      if (go) k <= last ? '0 : k + 1'b1;
      if (ce) {v1, y_valid} <= {go & last, v1};
    end
  end

  for (genvar i = 0; i < LANES; i++) begin : g_lane
    logic [X_W-1:0] a, a_size;
    logic [X1_W-1:0] b, b_size;
    logic a_minus, b_minus, minus, some;
    assign a = x_data[i*X_W+:X_W];
    assign b = x1_data[i*X1_W+:X1_W];
    assign a_minus = (X_S == 1) & a[X_W-1];
    assign b_minus = (X1_S == 1) & b[X1_W-1];
    assign a_size = a_minus ? -a : a;
    assign b_size = b_minus ? -b : b;

    logic [N_W-1:0] n;                           // what is left of x, and behind it the quotient
    logic [D_W-1:0] d;
    logic [D_W:0] r, next, less;
    logic fits;
    assign next = {r[D_W-1:0], n[N_W-1]};
    assign less = next - {1'b0, d};
    assign fits = (next >= {1'b0, d});
    always_ff @(posedge clk) if (go) begin
      if (first) begin
        n <= N_W'(a_size) << UP;
        d <= D_W'(b_size) << DOWN;
        r <= '0;
        minus <= a_minus ^ b_minus;
        some <= (a != '0);
      end else begin
        n <= {n[N_W-2:0], fits};
        r <= fits ? less : next;
      end
    end

    logic up, over;
    logic [C_W-1:0] q, most;
    logic [Y_W-1:0] size;
    assign up = (MODE == 1) ? ({r[D_W-1:0], 1'b0} > {1'b0, d}) | (({r[D_W-1:0], 1'b0} == {1'b0, d}) & n[0])
                            : minus & (r != '0);
    assign q = C_W'(n) + C_W'(up);
    assign most = minus ? ((Y_S == 1) ? C_W'(1) << (Y_W - 1) : '0) : (C_W'(1) << (Y_W - Y_S)) - 1'b1;
    assign over = (q > most) | (d == '0);
    assign size = over ? most[Y_W-1:0] : q[Y_W-1:0];
    always_ff @(posedge clk) if (ce) y_data[i*Y_W+:Y_W] <= ~some ? '0 : minus ? -size : size;
  end
endmodule
