// adder: a + b 2^SHIFT (FORM 0), a - b 2^SHIFT (1) or b 2^SHIFT - a (2), exact in Y_W bits; combinational.
// What lies of a below b passes through, so that Y_W - SHIFT bits are added in forms 0 and 1.
// Its borders are kept, as synthesisers that merge sums into larger ones would lose what sums have in common.
(* keep_hierarchy = "yes" *)
module adder #(
    parameter int A_W = 8,
    parameter int A_S = 1,                       // 1: a is signed
    parameter int B_W = 8,
    parameter int B_S = 1,
    parameter int SHIFT = 0,
    parameter int FORM = 0,
    parameter int Y_W = 9
) (
    input  logic [A_W-1:0] a,
    input  logic [B_W-1:0] b,
    output logic [Y_W-1:0] y
);
  localparam int H_W = Y_W > SHIFT ? Y_W - SHIFT : 1;  // of a sum that is narrower than the shift, b is no part
  logic [Y_W-1:0] ea;                            // both as wide as they count
  logic [H_W-1:0] eb;
  assign ea = Y_W'($signed({(A_S == 1) & a[A_W-1], a}));
  assign eb = H_W'($signed({(B_S == 1) & b[B_W-1], b}));

  if (FORM == 2) begin : g_from
    assign y = (Y_W'(eb) << SHIFT) - ea;
  end else if (SHIFT >= Y_W) begin : g_below
    assign y = ea;
    logic unused;
    assign unused = &{1'b0, eb};
  end else begin : g_on
    if (FORM == 0) begin : g_add
      assign y[Y_W-1:SHIFT] = ea[Y_W-1:SHIFT] + eb;
    end else begin : g_sub
      assign y[Y_W-1:SHIFT] = ea[Y_W-1:SHIFT] - eb;
    end
    if (SHIFT > 0) begin : g_low
      assign y[SHIFT-1:0] = ea[SHIFT-1:0];
    end
  end
endmodule
