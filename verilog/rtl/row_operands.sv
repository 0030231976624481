// row_operands: what a folded layer computes with in each step: a beat of its row, the weights that meet it and the
// biases of their outputs, a cycle behind the walk through the row, which asks for a step wherever it can (`ce`).
module row_operands #(
    parameter int SF = 4,                        // beats of a row
    parameter int NF = 4,                        // rounds that a row is met in
    parameter int GROUPS = 1,                    // each row that comes uses the next group's words
    parameter int X_W = 8,                       // of a beat
    parameter int W_W = 8,                       // of all weights of a step
    parameter int B_W = 8,                       // of all biases of a round
    parameter W_FILE = "w.mem",                  // words: group, round, beat
    parameter B_FILE = "b.mem"
) (
    input  logic           clk,
    input  logic           rst,
    input  logic           ce,                   // clock enable of the pipeline
    input  logic [X_W-1:0] x_data,
    input  logic           x_valid,
    output logic           x_ready,
    output logic           v,                    // there is a step: the first, the last of a round
    output logic           first,
    output logic           last,
    output logic [X_W-1:0] x,
    output logic [W_W-1:0] w,
    output logic [B_W-1:0] b
);
  localparam int WORDS = SF * NF * GROUPS;
  localparam int ROUNDS = NF * GROUPS;
  localparam int WA_W = (WORDS > 1) ? $clog2(WORDS) : 1;
  localparam int BA_W = (ROUNDS > 1) ? $clog2(ROUNDS) : 1;

  logic [W_W-1:0] w_rom [0:WORDS-1];
  logic [B_W-1:0] b_rom [0:ROUNDS-1];
  initial $readmemh(W_FILE, w_rom);
  initial $readmemh(B_FILE, b_rom);

  logic [WA_W-1:0] addr;
  logic [BA_W-1:0] b_addr;
  logic go, first0, last0, unused;
  row_walk #(.SF(SF), .NF(NF), .GROUPS(GROUPS), .W(X_W), .A_W(WA_W), .B_W(BA_W)) u_walk (
      .clk(clk),
      .rst(rst),
      .ce(ce),
      .more(1'b1),
      .x_data(x_data),
      .x_valid(x_valid),
      .x_ready(x_ready),
      .go(go),
      .first_row(unused),
      .first(first0),
      .last(last0),
      .addr(addr),
      .b_addr(b_addr),
      .x(x)
  );

  always_ff @(posedge clk) begin
    if (rst) v <= 1'b0;
    else if (ce) v <= go;
  end
  always_ff @(posedge clk) if (ce) begin
    w <= w_rom[addr];
    b <= b_rom[b_addr];
    {first, last} <= {first0, last0};
  end
endmodule
