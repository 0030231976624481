"""GGUF files, which llama.cpp and transformers open."""
