// fifo_ram: DEPTH beats in a memory that is read into a register, so that it becomes block RAM, and one beat there.
// A beat is at the output two cycles after it was taken; x_ready does not depend on y_ready.
module fifo_ram #(
    parameter int W = 8,
    parameter int DEPTH = 64
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
  logic push, pop, ce;
  assign ce = ~y_valid | y_ready;
  assign x_ready = (count != C_W'(DEPTH));
  assign push = x_valid & x_ready;
  assign pop = ce & (count != '0);
  always_ff @(posedge clk) if (push) mem[tail] <= x_data;
  always_ff @(posedge clk) if (ce) y_data <= mem[head];
  always_ff @(posedge clk) begin
    if (rst) begin
      head <= '0;
      tail <= '0;
      count <= '0;
      y_valid <= 1'b0;
    end else begin
      if (push) tail <= (tail == A_W'(DEPTH - 1)) ? '0 : tail + 1'b1;
      if (pop) head <= (head == A_W'(DEPTH - 1)) ? '0 : head + 1'b1;
      if (ce) y_valid <= pop;
      count <= count + C_W'(push) - C_W'(pop);
    end
  end
endmodule
