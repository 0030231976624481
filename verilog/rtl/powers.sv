// powers: e = table[t mod 2^T_BITS] >> (t >> T_BITS) with t = round(d * LOG2E / 2^DROP), 0 where not kept: 2^-(d log2 e)
// of fraction E_F. A pipeline of 4 cycles.
module powers #(
    parameter int D_W = 8,
    parameter int LOG2E = 23637,
    parameter int DROP = 10,
    parameter int T_BITS = 8,
    parameter int E_F = 14,
    parameter T_FILE = "t.mem"
) (
    input  logic           clk,
    input  logic [D_W-1:0] d,
    input  logic           kept,
    output logic [E_F:0]   e
);
  localparam int P_W = D_W + $clog2(LOG2E + 1) + 1;
  localparam int Q_W = (DROP > 0) ? P_W : P_W - DROP;
  logic [E_F:0] table_of [0:(1<<T_BITS)-1];
  initial $readmemh(T_FILE, table_of);
  logic [D_W-1:0] d2;
  logic [P_W-1:0] p3;
  logic [Q_W-1:0] t3, s4;
  logic [E_F:0] r4;
  logic k2, k3, k4;
  if (DROP > 0) begin : g_round
    assign t3 = (p3 + (P_W'(1) << (DROP - 1))) >> DROP;
  end else begin : g_exact
    assign t3 = Q_W'(p3) << (-DROP);
  end
  always_ff @(posedge clk) begin
    d2 <= d;
    p3 <= P_W'(d2) * P_W'(LOG2E);
    r4 <= table_of[t3[T_BITS-1:0]];
    s4 <= t3 >> T_BITS;
    {k2, k3, k4} <= {kept, k2, k3};
    e <= k4 ? r4 >> s4 : '0;
  end
endmodule
