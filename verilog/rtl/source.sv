// source: a constant, BEATS beats again and again from a memory; a beat a cycle, the first one a cycle after reset.
module source #(
    parameter int W = 8,
    parameter int BEATS = 4,
    parameter D_FILE = "d.mem"
) (
    input  logic         clk,
    input  logic         rst,
    output logic [W-1:0] y_data,
    output logic         y_valid,
    input  logic         y_ready
);
  localparam int A_W = (BEATS > 1) ? $clog2(BEATS) : 1;
  logic [W-1:0] rom [0:BEATS-1];
  initial $readmemh(D_FILE, rom);
  logic [A_W-1:0] at;
  logic ce;
  assign ce = ~y_valid | y_ready;
  always_ff @(posedge clk) begin
    if (rst) begin
      at <= '0;
      y_valid <= 1'b0;
    end else if (ce) begin
      at <= (at == A_W'(BEATS - 1)) ? '0 : at + 1'b1;
      y_valid <= 1'b1;
    end
  end
  always_ff @(posedge clk) if (ce) y_data <= rom[at];
endmodule
