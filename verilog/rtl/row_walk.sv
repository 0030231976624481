// row_walk: how the folded layers go through a row: SF beats come with the first of NF rounds, and are kept for the
// others. In each step (`go`) it gives the addresses of weights and biases, and with the register behind it the beat.
// Of several GROUPS each row that comes uses the next group's words.
module row_walk #(
    parameter int SF = 4,
    parameter int NF = 4,
    parameter int GROUPS = 1,
    parameter int W = 8,
    parameter int A_W = 4,                       // of an address of SF*NF*GROUPS words
    parameter int B_W = 2                        // of an address of NF*GROUPS words
) (
    input  logic           clk,
    input  logic           rst,
    input  logic           ce,                   // clock enable of the pipeline
    input  logic           more,                 // whatever else a step needs is there
    input  logic [W-1:0]   x_data,
    input  logic           x_valid,
    output logic           x_ready,
    output logic           go,
    output logic           first_row,            // the round in which the row comes
    output logic           first,                // of a round
    output logic           last,
    output logic [A_W-1:0] addr,
    output logic [B_W-1:0] b_addr,
    output logic [W-1:0]   x                     // a cycle later
);
  localparam int SF_W = (SF > 1) ? $clog2(SF) : 1;
  localparam int NF_W = (NF > 1) ? $clog2(NF) : 1;
  logic [SF_W-1:0] sf;
  logic [NF_W-1:0] nf;
  assign first_row = (nf == '0);
  assign first = (sf == '0);
  assign last = (sf == SF_W'(SF - 1));
  assign go = ce & more & (~first_row | x_valid);
  assign x_ready = ce & more & first_row;

  logic [W-1:0] kept [0:SF-1];
  always_ff @(posedge clk) if (go & first_row) kept[sf] <= x_data;
  always_ff @(posedge clk) if (ce) x <= first_row ? x_data : kept[sf];

  always_ff @(posedge clk) begin
    if (rst) begin
      sf <= '0;
      nf <= '0;
      addr <= '0;
      b_addr <= '0;
    end else if (go) begin
      sf <= last ? '0 : sf + 1'b1;
      if (last) nf <= (nf == NF_W'(NF - 1)) ? '0 : nf + 1'b1;
      addr <= (addr == A_W'(SF * NF * GROUPS - 1)) ? '0 : addr + 1'b1;
      if (last) b_addr <= (b_addr == B_W'(NF * GROUPS - 1)) ? '0 : b_addr + 1'b1;
    end
  end
endmodule
