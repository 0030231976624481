// fork: one stream to N readers; a beat is taken when every reader has it. Without latency.
module fork_stream #(
    parameter int W = 8,
    parameter int N = 2
) (
    input  logic           clk,
    input  logic           rst,
    input  logic [W-1:0]   x_data,
    input  logic           x_valid,
    output logic           x_ready,
    output logic [N*W-1:0] y_data,
    output logic [N-1:0]   y_valid,
    input  logic [N-1:0]   y_ready
);
  logic [N-1:0] had;                             // readers that have the present beat already
  assign y_data = {N{x_data}};
  assign y_valid = {N{x_valid}} & ~had;
  assign x_ready = &(y_ready | had);
  always_ff @(posedge clk) begin
    if (rst | (x_valid & x_ready)) had <= '0;
    else had <= had | (y_valid & y_ready);
  end
endmodule
