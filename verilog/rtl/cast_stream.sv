// cast_stream: LANES elements per beat into another fixed-point format; one cycle.
module cast_stream #(
    parameter int LANES = 1,
    parameter int X_W = 16,
    parameter int X_F = 8,
    parameter int X_S = 1,
    parameter int Y_W = 8,
    parameter int Y_F = 4,
    parameter int Y_S = 1,
    parameter int MODE = 1
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
  localparam int XE_W = X_W + 1 - X_S;           // an unsigned x is zero-extended
  logic ce;
  assign ce = ~y_valid | y_ready;
  assign x_ready = ce;
  always_ff @(posedge clk) begin
    if (rst) y_valid <= 1'b0;
    else if (ce) y_valid <= x_valid;
  end
  for (genvar i = 0; i < LANES; i++) begin : g_lane
    logic signed [XE_W-1:0] x;
    logic [Y_W-1:0] y;
    if (X_S == 1) begin : g_signed
      assign x = x_data[i*X_W+:X_W];
    end else begin : g_unsigned
      assign x = {1'b0, x_data[i*X_W+:X_W]};
    end
    requant #(.IN_W(XE_W), .IN_F(X_F), .OUT_W(Y_W), .OUT_F(Y_F), .OUT_S(Y_S), .MODE(MODE)) u_requant (
        .x(x),
        .y(y)
    );
    always_ff @(posedge clk) if (ce) y_data[i*Y_W+:Y_W] <= y;
  end
endmodule
