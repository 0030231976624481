// chain: A beats of the first stream, then B of the second, again and again; one cycle.
module chain #(
    parameter int W = 8,
    parameter int A = 1,
    parameter int B = 1
) (
    input  logic         clk,
    input  logic         rst,
    input  logic [W-1:0] x_data,
    input  logic         x_valid,
    output logic         x_ready,
    input  logic [W-1:0] x1_data,
    input  logic         x1_valid,
    output logic         x1_ready,
    output logic [W-1:0] y_data,
    output logic         y_valid,
    input  logic         y_ready
);
  localparam int N_W = $clog2(A + B);
  logic [N_W-1:0] at;
  logic ce, second, come;
  assign ce = ~y_valid | y_ready;
  assign second = (at >= N_W'(A));
  assign come = second ? x1_valid : x_valid;
  assign x_ready = ce & ~second;
  assign x1_ready = ce & second;
  always_ff @(posedge clk) begin
    if (rst) begin
      at <= '0;
      y_valid <= 1'b0;
    end else if (ce) begin
      y_valid <= come;
      if (come) at <= (at == N_W'(A + B - 1)) ? '0 : at + 1'b1;
    end
  end
  always_ff @(posedge clk) if (ce) y_data <= second ? x1_data : x_data;
endmodule
