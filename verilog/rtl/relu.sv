// relu: max(x, 0) on LANES signed elements per beat; one cycle.
module relu #(
    parameter int LANES = 1,
    parameter int W = 8
) (
    input  logic               clk,
    input  logic               rst,
    input  logic [LANES*W-1:0] x_data,
    input  logic               x_valid,
    output logic               x_ready,
    output logic [LANES*W-1:0] y_data,
    output logic               y_valid,
    input  logic               y_ready
);
  logic ce;
  assign ce = ~y_valid | y_ready;
  assign x_ready = ce;
  always_ff @(posedge clk) begin
    if (rst) y_valid <= 1'b0;
    else if (ce) y_valid <= x_valid;
  end
  for (genvar i = 0; i < LANES; i++) begin : g_lane
    always_ff @(posedge clk) if (ce) y_data[i*W+:W] <= x_data[i*W+:W] & {W{~x_data[i*W+W-1]}};
  end
endmodule
