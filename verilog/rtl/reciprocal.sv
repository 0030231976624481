// reciprocal: floor(2^(E_F + R_W - 1) / by) for by from 2^E_F on, 0 for 0: restoring division, BITS bits per step.
// The first of R_W/BITS steps takes `by`; `quotient` holds the bits so far, with those of the present step.
module reciprocal #(
    parameter int S_W = 18,
    parameter int R_W = 16,
    parameter int E_F = 14,
    parameter int BITS = 1
) (
    input  logic           clk,
    input  logic           step,
    input  logic           first,
    input  logic [S_W-1:0] by,
    output logic [R_W-1:0] quotient
);
  logic [S_W-1:0] held, now;
  logic [S_W:0] rest, left;
  logic [R_W-1:0] found;
  assign now = first ? by : held;
  always_comb begin
    left = first ? (S_W + 1)'(1) << E_F : rest;
    quotient = first ? '0 : found;
    for (int i = 0; i < BITS; i++) begin
      quotient = quotient << 1;
      if ((now != '0) & (left >= {1'b0, now})) begin
        quotient[0] = 1'b1;
        left = left - {1'b0, now};
      end
      left = left << 1;
    end
  end
  always_ff @(posedge clk) if (step) begin
    held <= now;
    rest <= left;
    found <= quotient;
  end
endmodule
