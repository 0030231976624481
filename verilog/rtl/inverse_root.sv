// inverse_root: r / 2^R_F = 1 / sqrt(u / 2^22) with v = max(SIZE*s2 - s1^2 + EPS, 1) = u * 4^j / 2^22, u in [2^22, 2^24).
// A table by the 8 top bits of u, then one step of Newton; a pipeline of 7 cycles.
module inverse_root #(
    parameter int SIZE = 4,
    parameter int S1_W = 11,
    parameter int S2_W = 19,
    parameter int V_W = 24,
    parameter int J_W = 4,
    parameter int R_F = 18,
    parameter int EPS_HIGH = 0,
    parameter int EPS_LOW = 1,
    parameter R_FILE = "r.mem"
) (
    input  logic                   clk,
    input  logic signed [S1_W-1:0] s1,
    input  logic [S2_W-1:0]        s2,
    output logic [R_F:0]           r,
    output logic [J_W-1:0]         j
);
  localparam int C_W = R_F + 2;
  localparam int P_W = 2 * R_F + 4;
  localparam int B_W = 24 + R_F + 1;
  localparam logic [C_W-1:0] THREE = C_W'(3) << R_F;
  logic [R_F:0] table_of [0:255];
  initial $readmemh(R_FILE, table_of);

  logic [V_W-1:0] m1, m2, v, v4;
  logic signed [V_W:0] wide;
  logic [J_W-1:0] top, j4, j5, j6, j7, j8;
  logic [23:0] u5, u6, u7;
  logic [R_F:0] r6, r7, r8, a7;
  logic [C_W-1:0] b8, c;
  assign wide = (V_W + 1)'(s1);
  always_comb begin                              // the pair of bits that holds the leading one
    top = '0;
    for (int k = 0; k < V_W; k++) if (v[k]) top = J_W'(k / 2);
  end
  assign c = THREE - b8;
  always_ff @(posedge clk) begin
    m1 <= V_W'($unsigned(wide * wide));
    m2 <= V_W'(s2) * V_W'(SIZE) + V_W'({34'(EPS_HIGH), 30'(EPS_LOW)});
    v <= (m1 == m2) ? V_W'(1) : m2 - m1;
    {v4, j4} <= {v, top};
    {u5, j5} <= {24'({v4, 22'b0} >> {j4, 1'b0}), j4};
    {r6, u6, j6} <= {table_of[u5[23:16]], u5, j5};
    {a7, r7, u7, j7} <= {(R_F + 1)'(P_W'(r6) * P_W'(r6) >> R_F), r6, u6, j6};
    {b8, r8, j8} <= {C_W'(B_W'(u7) * B_W'(a7) >> 22), r7, j7};
  end
  assign r = (R_F + 1)'(P_W'(r8) * P_W'(c) >> (R_F + 1));
  assign j = j8;
endmodule
