// requant: one fixed-point value, (IN_W, IN_F) signed -> (OUT_W, OUT_F), combinational.
// MODE 0 = floor, 1 = nearest, ties to even. Always saturates. OUT_S 0: the result is unsigned.
// EVEN 1: the smallest code of a signed result is excluded, so that both ends are as far from 0.
module requant #(
    parameter int IN_W  = 24,
    parameter int IN_F  = 10,
    parameter int OUT_W = 8,
    parameter int OUT_F = 4,
    parameter int OUT_S = 1,
    parameter int MODE  = 1,
    parameter int EVEN  = 0
) (
    input  logic signed [IN_W-1:0] x,
    output logic [OUT_W-1:0] y
);
  localparam int SH = IN_F - OUT_F;              // places dropped; below 0: places won
  localparam int R_W = (SH > 0) ? ((SH < IN_W) ? IN_W - SH + 1 : 2) : IN_W - SH;
  localparam int L_W = OUT_W + 1 - OUT_S;        // the result as a signed number
  localparam int E_W = (SH > IN_W) ? SH : IN_W;  // wide enough to find the dropped bits in

  logic signed [R_W-1:0] r;
  logic [OUT_W-1:0] kept;
  localparam logic [OUT_W-1:0] TOP = OUT_W'(1) << (OUT_W - 1);
  if (SH <= 0) begin : g_up
    assign r = R_W'(x) <<< (-SH);
  end else begin : g_down
    logic signed [E_W:0] e;
    logic inc;
    assign e = (E_W + 1)'(x);
    if (MODE == 0) begin : g_floor
      assign inc = 1'b0;
    end else if (SH == 1) begin : g_one
      assign inc = e[0] & e[1];
    end else begin : g_even                      // half bit and (any below it, or odd)
      assign inc = e[SH-1] & ((|e[SH-2:0]) | e[SH]);
    end
    assign r = R_W'($signed(e[E_W:SH])) + R_W'($signed({1'b0, inc}));
  end

  if (R_W > L_W) begin : g_sat
    logic fits;                                  // all dropped bits equal the kept sign
    assign fits = (&r[R_W-1:L_W-1]) | ~(|r[R_W-1:L_W-1]);
    if (OUT_S == 1) begin : g_signed
      assign kept = fits ? r[OUT_W-1:0] : (r[R_W-1] ? TOP : ~TOP);
    end else begin : g_unsigned
      assign kept = r[R_W-1] ? '0 : (fits ? r[OUT_W-1:0] : '1);
    end
  end else if (OUT_S == 1) begin : g_ext
    assign kept = OUT_W'(r);
  end else begin : g_pos
    assign kept = r[R_W-1] ? '0 : OUT_W'($unsigned(r));
  end
  assign y = (EVEN == 1 && kept == TOP) ? TOP + 1'b1 : kept;
endmodule
