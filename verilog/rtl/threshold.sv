// threshold: one bit an element, x >= T, or x < T where BELOW is set; LANES elements per beat; one cycle.
module threshold #(
    parameter int LANES = 1,
    parameter int X_W = 8,
    parameter int X_S = 1,                       // 1: x is signed
    parameter int T = 0,
    parameter int BELOW = 0
) (
    input  logic                 clk,
    input  logic                 rst,
    input  logic [LANES*X_W-1:0] x_data,
    input  logic                 x_valid,
    output logic                 x_ready,
    output logic [LANES-1:0]     y_data,
    output logic                 y_valid,
    input  logic                 y_ready
);
  localparam int C_W = (X_W > 31) ? X_W + 1 : 33; // holds x and T
  logic ce;
  assign ce = ~y_valid | y_ready;
  assign x_ready = ce;
  always_ff @(posedge clk) begin
    if (rst) y_valid <= 1'b0;
    else if (ce) y_valid <= x_valid;
  end
  for (genvar i = 0; i < LANES; i++) begin : g_lane
    logic signed [C_W-1:0] x;
    if (X_S == 1) begin : g_signed
      assign x = C_W'($signed(x_data[i*X_W+:X_W]));
    end else begin : g_unsigned
      assign x = C_W'(x_data[i*X_W+:X_W]);
    end
    if (T == 0) begin : g_sign
      always_ff @(posedge clk) if (ce) y_data[i] <= x[C_W-1] ^ (BELOW == 0);
    end else begin : g_from
      always_ff @(posedge clk) if (ce) y_data[i] <= (x < C_W'(T)) ^ (BELOW == 0);
    end
  end
endmodule
