// scale_shift: y = x * m + b, with constants that repeat after PERIOD beats; LANES elements per beat; 4 cycles.
module scale_shift #(
    parameter int LANES = 1,
    parameter int PERIOD = 1,
    parameter int X_W = 8,
    parameter int X_S = 1,                       // 1: x is signed
    parameter int M_W = 8,
    parameter int S_W = 20,                      // of the sum
    parameter int S_F = 8,                       // its fraction, which b has too
    parameter int P_SHIFT = 0,                   // places from a product's fraction to the sum's
    parameter int Y_W = 8,
    parameter int Y_F = 4,
    parameter int Y_S = 1,
    parameter int MODE = 1,
    parameter int EVEN = 0,                      // 1: the smallest code is excluded
    parameter M_FILE = "m.mem",
    parameter B_FILE = "b.mem"
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
  localparam int A_W = (PERIOD > 1) ? $clog2(PERIOD) : 1;
  localparam int XE_W = X_W + 1 - X_S;           // an unsigned x is zero-extended
  localparam int P_W = XE_W + M_W;
  localparam int F_W = (P_W > S_W) ? P_W : S_W;  // the constants may keep sums narrower than any product could be
  logic [LANES*M_W-1:0] m_rom [0:PERIOD-1];
  logic [LANES*S_W-1:0] b_rom [0:PERIOD-1];
  initial $readmemh(M_FILE, m_rom);
  initial $readmemh(B_FILE, b_rom);

  logic [A_W-1:0] at;
  logic [LANES*X_W-1:0] x1;
  logic [LANES*M_W-1:0] m1;
  logic [LANES*S_W-1:0] b1, b2;
  logic ce, v1, v2, v3;
  assign ce = ~y_valid | y_ready;
  assign x_ready = ce;
  always_ff @(posedge clk) begin
    if (rst) begin
      at <= '0;
      {v1, v2, v3, y_valid} <= '0;
    end else if (ce) begin
      {v1, v2, v3, y_valid} <= {x_valid, v1, v2, v3};
      if (x_valid) at <= (at == A_W'(PERIOD - 1)) ? '0 : at + 1'b1;
    end
  end
  always_ff @(posedge clk) if (ce) begin
    x1 <= x_data;
    m1 <= m_rom[at];
    b1 <= b_rom[at];
    b2 <= b1;
  end
  for (genvar i = 0; i < LANES; i++) begin : g_lane
    logic signed [XE_W-1:0] x;
    logic signed [M_W-1:0] m;
    logic signed [P_W-1:0] p;
    logic signed [S_W-1:0] s;
    logic [Y_W-1:0] y;
    if (X_S == 1) begin : g_signed
      assign x = x1[i*X_W+:X_W];
    end else begin : g_unsigned
      assign x = {1'b0, x1[i*X_W+:X_W]};
    end
    assign m = m1[i*M_W+:M_W];
    always_ff @(posedge clk) if (ce) begin
      p <= x * m;
      s <= S_W'((F_W'(p) <<< P_SHIFT) + F_W'($signed(b2[i*S_W+:S_W])));
    end
    requant #(
        .IN_W(S_W), .IN_F(S_F), .OUT_W(Y_W), .OUT_F(Y_F), .OUT_S(Y_S), .MODE(MODE), .EVEN(EVEN)
    ) u_requant (
        .x(s),
        .y(y)
    );
    always_ff @(posedge clk) if (ce) y_data[i*Y_W+:Y_W] <= y;
  end
endmodule
