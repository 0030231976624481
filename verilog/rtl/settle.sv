// settle: a sum into the format of a result; combinational. DROP places go, or UP come, then it saturates.
// Half a step is in the sum already, so rounding is to cut: EVEN clears the last bit where the dropped ones are 0
//   (what lay halfway went up to an odd number), which is nearest with ties to even. Where no place is left to drop,
//   as adders carry no common zeros, every sum lay halfway. RELU: what is below 0 becomes 0.
module settle #(
    parameter int IN_W  = 12,
    parameter int IN_S  = 1,                     // 1: x is signed
    parameter int DROP  = 0,
    parameter int UP    = 0,
    parameter int EVEN  = 0,
    parameter int OUT_W = 8,
    parameter int OUT_S = 1,
    parameter int RELU  = 0
) (
    input  logic [IN_W-1:0] x,
    output logic [OUT_W-1:0] y
);
  localparam int R_W = ((IN_W > DROP) ? IN_W - DROP : 1) + UP + 1;  // all that is left, and its sign
  localparam int L_W = OUT_W + 1 - OUT_S;        // the result as a signed number
  localparam int E_W = (DROP > IN_W) ? DROP : IN_W;
  localparam logic [OUT_W-1:0] TOP = OUT_W'(1) << (OUT_W - 1);

  logic signed [E_W:0] e;
  logic signed [R_W-1:0] r;
  logic [OUT_W-1:0] cut;
  logic neg, fits;
  assign e = (E_W + 1)'($signed({(IN_S == 1) & x[IN_W-1], x}));
  if (DROP == 0) begin : g_up
    assign r = (R_W'(e) <<< UP) & {{(R_W - 1){1'b1}}, EVEN == 0};
  end else if (EVEN == 1) begin : g_even
    assign r = R_W'($signed(e[E_W:DROP])) & {{(R_W - 1){1'b1}}, |e[DROP-1:0]};
  end else begin : g_floor
    logic unused;
    assign unused = &{1'b0, e[DROP-1:0]};
    assign r = R_W'($signed(e[E_W:DROP]));
  end
  assign neg = r[R_W-1];

  if (R_W > L_W) begin : g_sat
    assign fits = (&r[R_W-1:L_W-1]) | ~(|r[R_W-1:L_W-1]);  // all that goes equals the kept sign
    assign cut = r[OUT_W-1:0];
  end else begin : g_all
    assign fits = 1'b1;
    assign cut = OUT_W'(r);
  end
  if (OUT_S == 0 || RELU == 1) begin : g_pos
    assign y = neg ? '0 : (fits ? cut : ((OUT_S == 1) ? ~TOP : '1));
  end else begin : g_signed
    assign y = fits ? cut : (neg ? TOP : ~TOP);
  end
endmodule
