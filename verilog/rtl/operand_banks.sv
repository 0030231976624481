// operand_banks: the second operand of a matmul, whole, in one of two banks of WORDS words of LANES x W bits: one is
// written while the other is read. A beat is one lane of a word; two walks say which. `whole`: there is a bank to read,
// which `taken` begins with and `freed` gives back; `word` comes a cycle after `addr`, under the clock enable ce.
module operand_banks #(
    parameter int W = 8,
    parameter int LANES = 1,
    parameter int WORDS = 1,
    parameter int A_W = 1,                       // of an address over both banks
    parameter int W_START = 0,                   // the word that a beat goes to: see walk
    parameter int W_C0 = 1, parameter int W_C1 = 1, parameter int W_C2 = 1,
    parameter int W_C3 = 1, parameter int W_C4 = 1, parameter int W_C5 = 1,
    parameter int W_D0 = 0, parameter int W_D1 = 0, parameter int W_D2 = 0,
    parameter int W_D3 = 0, parameter int W_D4 = 0, parameter int W_D5 = 0,
    parameter int L_START = 0,                   // and its lane there
    parameter int L_C0 = 1, parameter int L_C1 = 1, parameter int L_C2 = 1,
    parameter int L_C3 = 1, parameter int L_C4 = 1, parameter int L_C5 = 1,
    parameter int L_D0 = 0, parameter int L_D1 = 0, parameter int L_D2 = 0,
    parameter int L_D3 = 0, parameter int L_D4 = 0, parameter int L_D5 = 0
) (
    input  logic               clk,
    input  logic               rst,
    input  logic [W-1:0]       x_data,
    input  logic               x_valid,
    output logic               x_ready,
    output logic               whole,
    input  logic               taken,
    input  logic               freed,
    input  logic               ce,
    input  logic [A_W-1:0]     addr,
    output logic [LANES*W-1:0] word
);
  localparam int L_W = (LANES > 1) ? $clog2(LANES) : 1;
  logic [1:0] free, full;                        // banks that may be written, and that may be read
  logic starts, w_last, l_last, bank, take, filled, from_free;
  logic [A_W-1:0] at, w_at;
  logic [L_W-1:0] lane;
  assign x_ready = ~starts | (free != '0);
  assign take = x_valid & x_ready;
  assign from_free = take & starts;
  assign whole = (full != '0);
  assign at = bank ? w_at + A_W'(WORDS) : w_at;
  walk #(.A_W(A_W), .START(W_START), .C0(W_C0), .C1(W_C1), .C2(W_C2), .C3(W_C3), .C4(W_C4), .C5(W_C5),
         .D0(W_D0), .D1(W_D1), .D2(W_D2), .D3(W_D3), .D4(W_D4), .D5(W_D5)) u_word (
      .clk(clk), .rst(rst), .step(take), .at(w_at), .last(w_last)
  );
  walk #(.A_W(L_W), .START(L_START), .C0(L_C0), .C1(L_C1), .C2(L_C2), .C3(L_C3), .C4(L_C4), .C5(L_C5),
         .D0(L_D0), .D1(L_D1), .D2(L_D2), .D3(L_D3), .D4(L_D4), .D5(L_D5)) u_lane (
      .clk(clk), .rst(rst), .step(take), .at(lane), .last(l_last)
  );
  always_ff @(posedge clk) begin
    if (rst) begin
      {bank, filled} <= '0;
      starts <= 1'b1;
      free <= 2'd2;
      full <= 2'd0;
    end else begin
      if (take) starts <= w_last & l_last;       // both walks end together
      if (take & w_last) bank <= ~bank;
      filled <= take & w_last;
      free <= free + 2'(freed) - 2'(from_free);
      full <= full + 2'(filled) - 2'(taken);
    end
  end
  for (genvar l = 0; l < LANES; l++) begin : g_lane
    logic [W-1:0] mem [0:2*WORDS-1];
    always_ff @(posedge clk) if (take & (lane == L_W'(l))) mem[at] <= x_data;
    always_ff @(posedge clk) if (ce) word[l*W+:W] <= mem[addr];
  end
endmodule
