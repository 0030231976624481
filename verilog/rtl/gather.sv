// gather: of the BEATS beats of a frame LEAVE leave, in the order of a table; some of them are PAD in each lane.
// Words: {is PAD, address}. Two banks of BEATS beats: one is written while the other is read.
// BEATS cycles of writing, LEAVE of reading; the first beat leaves 4 cycles after the last one came.
module gather #(
    parameter int LANES = 1,
    parameter int W = 8,
    parameter int BEATS = 4,
    parameter int LEAVE = 4,
    parameter logic signed [63:0] PAD = 0,
    parameter T_FILE = "t.mem"
) (
    input  logic               clk,
    input  logic               rst,
    input  logic [LANES*W-1:0] x_data,
    input  logic               x_valid,
    output logic               x_ready,
    output logic [LANES*W-1:0] y_data,
    output logic               y_valid,
    input  logic               y_ready
);
  localparam int A_W = (BEATS > 1) ? $clog2(BEATS) : 1;
  localparam int M_W = $clog2(2 * BEATS);
  localparam int R_W = (LEAVE > 1) ? $clog2(LEAVE) : 1;
  logic [A_W:0] words [0:LEAVE-1];
  initial $readmemh(T_FILE, words);
  logic [LANES*W-1:0] mem [0:2*BEATS-1];
  logic [1:0] free, full;                        // banks that may be written, and that may be read
  logic ce, take, go, w_first, w_last, r_first, r_last, filled, last1, last2, to_free, from_free, from_full;
  logic w_bank, r_bank, bank1, v1, pad2;
  logic [A_W-1:0] w_at;
  logic [R_W-1:0] r_at;
  logic [A_W:0] word;
  logic [LANES*W-1:0] got;

  assign ce = ~y_valid | y_ready;
  assign w_first = (w_at == '0);
  assign w_last = (w_at == A_W'(BEATS - 1));
  assign r_first = (r_at == '0);
  assign r_last = (r_at == R_W'(LEAVE - 1));
  assign x_ready = ~w_first | (free != '0);
  assign take = x_valid & x_ready;
  assign go = ce & (~r_first | (full != '0));
  assign to_free = last2 & ce;
  assign from_free = take & w_first;
  assign from_full = go & r_first;

  always_ff @(posedge clk) if (take) mem[w_bank ? M_W'(w_at) + M_W'(BEATS) : M_W'(w_at)] <= x_data;
  always_ff @(posedge clk) if (ce) begin
    word <= words[r_at];
    bank1 <= r_bank;
    got <= mem[bank1 ? M_W'(word[A_W-1:0]) + M_W'(BEATS) : M_W'(word[A_W-1:0])];
    pad2 <= word[A_W];
  end
  assign y_data = pad2 ? {LANES{W'(PAD)}} : got;
  always_ff @(posedge clk) begin
    if (rst) begin
      w_at <= '0;
      r_at <= '0;
      {w_bank, r_bank, filled, last1, last2, v1, y_valid} <= '0;
      free <= 2'd2;
      full <= 2'd0;
    end else begin
      if (take) w_at <= w_last ? '0 : w_at + 1'b1;
      if (take & w_last) w_bank <= ~w_bank;
      if (go) r_at <= r_last ? '0 : r_at + 1'b1;
      if (go & r_last) r_bank <= ~r_bank;
      filled <= take & w_last;
      if (ce) {last1, last2} <= {go & r_last, last1};
      if (ce) {v1, y_valid} <= {go, v1};
      free <= free + 2'(to_free) - 2'(from_free);
      full <= full + 2'(filled) - 2'(from_full);
    end
  end
endmodule
