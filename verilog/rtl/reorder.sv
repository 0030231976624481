// reorder: the beats of a frame in another order. Two banks of BEATS beats: one is written while the other is read.
// A frame takes BEATS cycles on each side; its first beat leaves 3 cycles after its last one came.
module reorder #(
    parameter int W = 8,
    parameter int BEATS = 4,
    parameter int R_START = 0,                   // the order of reading: see walk
    parameter int R_C0 = 1,
    parameter int R_C1 = 1,
    parameter int R_C2 = 1,
    parameter int R_C3 = 1,
    parameter int R_C4 = 1,
    parameter int R_C5 = 1,
    parameter int R_D0 = 0,
    parameter int R_D1 = 0,
    parameter int R_D2 = 0,
    parameter int R_D3 = 0,
    parameter int R_D4 = 0,
    parameter int R_D5 = 0
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
  localparam int A_W = (BEATS > 1) ? $clog2(BEATS) : 1;
  localparam int M_W = $clog2(2 * BEATS);
  logic [W-1:0] mem [0:2*BEATS-1];
  logic [1:0] free, full;                        // banks that may be written, and that may be read
  logic ce, take, go, w_first, w_last, r_last, filled, freed, to_free, from_free, from_full;
  logic starts;                                  // the next beat read is the first of a frame
  logic w_bank, r_bank;
  logic [A_W-1:0] w_at, r_at;

  assign ce = ~y_valid | y_ready;
  assign w_first = (w_at == '0);
  assign w_last = (w_at == A_W'(BEATS - 1));
  assign x_ready = ~w_first | (free != '0);
  assign take = x_valid & x_ready;
  assign go = ce & (~starts | (full != '0));
  assign to_free = freed & ce;
  assign from_free = take & w_first;
  assign from_full = go & starts;

  walk #(.A_W(A_W), .START(R_START), .C0(R_C0), .C1(R_C1), .C2(R_C2), .C3(R_C3), .C4(R_C4), .C5(R_C5),
         .D0(R_D0), .D1(R_D1), .D2(R_D2), .D3(R_D3), .D4(R_D4), .D5(R_D5)) u_read (
      .clk(clk),
      .rst(rst),
      .step(go),
      .at(r_at),
      .last(r_last)
  );

  always_ff @(posedge clk) if (take) mem[w_bank ? M_W'(w_at) + M_W'(BEATS) : M_W'(w_at)] <= x_data;
  always_ff @(posedge clk) if (ce) y_data <= mem[r_bank ? M_W'(r_at) + M_W'(BEATS) : M_W'(r_at)];
  always_ff @(posedge clk) begin
    if (rst) begin
      w_at <= '0;
      w_bank <= 1'b0;
      r_bank <= 1'b0;
      starts <= 1'b1;
      filled <= 1'b0;
      freed <= 1'b0;
      y_valid <= 1'b0;
      free <= 2'd2;
      full <= 2'd0;
    end else begin
      if (take) w_at <= w_last ? '0 : w_at + 1'b1;
      if (take & w_last) w_bank <= ~w_bank;
      if (go) starts <= r_last;
      if (go & r_last) r_bank <= ~r_bank;
      filled <= take & w_last;
      if (ce) freed <= go & r_last;
      if (ce) y_valid <= go;
      free <= free + 2'(to_free) - 2'(from_free);
      full <= full + 2'(filled) - 2'(from_full);
    end
  end
endmodule
