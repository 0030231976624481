"""Low-rank adapters (LoRA): insertion into graphs, and files in the format of PEFT."""
