"""Rewrites an ONNX model so that onnxruntime computes it in integers: each file is one rewriting."""
