"""Low-rank adapters (LoRA): how they come to be, and PEFT's files."""
