"""Explanations of the inspector's terms, for tooltips. No Qt."""

from __future__ import annotations

import re

from espalier.app.translation import translated

# Symbols in the formulas of formats.
SIGNS: dict[str, str] = translated(
    {
        "rne": "rne: rounded to the nearest whole number; a half goes to the even one, so that rounding has no bias",
        "clip": "clip: cut off at the ends of the range",
        "floor": "floor: rounded down to a whole number",
        "ceil": "ceil: rounded up to a whole number",
        "round": "round: rounded to the nearest whole number",
        "sign": "sign: −1 or 1",
        "minifloat": "minifloat: rounded to the nearest value that the small float has",
        "emax": "emax: the largest exponent of the small float",
        "log2": "log2: the logarithm to base 2",
        "mean": "mean: over the values that share a scale",
        "max": "max: over the values that share a scale",
        "w": "w: the width in bits",
        "e": "e: the exponent that a block or a value has",
        "s": "s: the scale",
        "f": "f: the fraction width, the bits after the binary point",
    }
)


def explain_formula(formula: str) -> str:
    """Explain the symbols of a formula, one per line, in their order."""
    symbols = dict.fromkeys(re.findall(r"[A-Za-z]+2?", formula))
    return "\n".join(SIGNS[word] for word in symbols if word in SIGNS)


TERMS: dict[str, str] = translated(
    {
        "port": "Where values enter or leave a node; each port can have a number format of its own",
        "format": "How the values of a port are stored: float as traced, or the chosen number format",
        "data_in": "data_in: the values that flow into the node",
        "weight": "weight: the node's stored matrix or kernel",
        "bias": "bias: what the node adds to each output",
        "data_out": "data_out: the values that the node outputs",
        "SQNR": "Signal to quantisation noise ratio, 10·log10(Σx² / Σ(x − q(x))²) in dB: 6 dB more is one bit more",
        "width": "Bits of one value, with its sign",
        "frac": "Bits after the binary point: the step between two values is 2 to the power of minus this",
        "exp": "Bits of the exponent",
        "rand": "Stochastic rounding: up with a probability that grows with the input",
        "±1": "Values are −1 and +1; else 0 and 1",
        "limit": "Magnitude up to which a value becomes zero, as a multiple of the mean magnitude",
        "bias w": "Bits of the exponent bias shared by a block",
        "block": "Number of values that share one scale",
        "scale": "Which values share one scale",
        "Precision": "The number formats of the node's ports",
        "Pruning": "Which weights of the node are zeroed; their values are kept, so a lower sparsity restores them",
        "method": "What is pruned first. l1, l2: values nearest to zero; random: any. With data: wanda |w|·‖x‖, "
        "snip |w·g|, hessian w²·g², movement −w·g, where x is the input and g the gradient",
        "scope": "local: the same share of each weight; global: the smallest of all selected together; "
        "row: of each output",
        "pattern": "elements: any; n of m: n of every m consecutive inputs are kept (2 of 4 runs on sparse tensor "
        "cores); blocks: outputs × inputs are pruned as a whole",
        "activation pruning": "Which input values are zeroed, before the format. top-k: the smallest of each "
        "sample; threshold: all up to a magnitude, measured on data; random: the same positions in every sample",
        "sparsity": "The share of the weight's values that is zero",
        "LoRA rank": "Rows of A and columns of B: the rank of the correction s·B·A of the weight",
        "LoRA alpha": "Scale of the correction: s = alpha / rank",
        "LoRA dropout": "The share of the adapter's input that is dropped in training",
        "LoRA insert": "Add an adapter to each selected layer; results stay the same until it is trained; all "
        "other parameters are frozen",
        "LoRA fuse": "Add s·B·A to the weights and remove the adapters",
        "LoRA remove": "Remove the adapters; the weights are as before",
        "frozen": "The layers' own weights and biases; adapters train all the same",
        "inputs": "The inputs that the model was traced with",
        "input": "Shape of the input; batch and seq are variable",
        "output": "Shape of the output; batch and seq are variable",
        "parameters": "Trained values of the node",
        "MACs": "Multiply–accumulate operations for one run at the sizes that were traced",
        "attributes": "Settings of the module or arguments of the function",
        "source": "The line of the model's code that makes the node, or where the model came from",
        "operations": "Operations of the selected nodes, with counts",
        "size": "Common size of all selected nodes: inputs → outputs",
        "nodes": "All operations of the graph",
        "layers": "Nodes with a weight that can be quantised",
        "min … max": "Minimum and maximum; pruned values count as 0 in all of these statistics",
        "mean ± σ": "The mean, and the standard deviation σ: how far values typically lie from the mean",
        "mean ± 3σ": "99.7 % of normally distributed values lie in this range: what lies beyond it are outliers",
        "mean of |x|": "The mean magnitude: scales of binary and ternary formats follow it",
        "1 % … 99 %": "1 % of the values lie below this range and 1 % above",
        "quartiles": "25 %, 50 % (the median) and 75 % of the values lie below these",
        "zeros": "Values that are exactly 0",
        "not finite": "Values that are infinite or NaN",
        "traced at": "The sizes of the free dimensions in the example that was traced",
    }
)
