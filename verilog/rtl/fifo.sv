// fifo: DEPTH beats; a beat is at the output in the cycle after it was taken.
// Simultaneous reading and writing when full is not allowed through (ready does not depend on y_ready).
module fifo #(
    parameter int W = 8,
    parameter int DEPTH = 4
) (
    input  logic         clk,
    input  logic         rst,
    input  logic [W-1:0] x_data,
    input  logic         x_valid,
    output logic         x_ready,
    output logic [W-1:0] y_data,
    output logic         y_valid,
    input  logic         y_ready
);
  localparam int A_W = (DEPTH > 1) ? $clog2(DEPTH) : 1;
  localparam int C_W = $clog2(DEPTH + 1);
  logic [W-1:0] mem [0:DEPTH-1];
  logic [A_W-1:0] head, tail;
  logic [C_W-1:0] count;
  logic push, pop;
  assign x_ready = (count != C_W'(DEPTH));
  assign y_valid = (count != '0);
  assign push = x_valid & x_ready;
  assign pop = y_valid & y_ready;
  assign y_data = mem[head];
  always_ff @(posedge clk) if (push) mem[tail] <= x_data;
  always_ff @(posedge clk) begin
    if (rst) begin
      head <= '0;
      tail <= '0;
      count <= '0;
    end else begin
      if (push) tail <= (tail == A_W'(DEPTH - 1)) ? '0 : tail + 1'b1;
      if (pop) head <= (head == A_W'(DEPTH - 1)) ? '0 : head + 1'b1;
      count <= count + C_W'(push) - C_W'(pop);
    end
  end
endmodule
