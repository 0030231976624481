"""Names of leaf modules, without torch: class → op."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from espalier.model.graph.graph import Node

OP_OF_CLASS: dict[str, str] = {
    "Linear": "linear", "NonDynamicallyQuantizableLinear": "linear", "Conv1d": "conv1d", "Conv2d": "conv2d",
    "Conv3d": "conv3d", "ConvTranspose1d": "conv_transpose1d", "ConvTranspose2d": "conv_transpose2d",
    "ConvTranspose3d": "conv_transpose3d", "Embedding": "embedding",
    "LayerNorm": "layer_norm", "GroupNorm": "group_norm", "RMSNorm": "rms_norm", "BatchNorm1d": "batch_norm",
    "BatchNorm2d": "batch_norm", "BatchNorm3d": "batch_norm", "InstanceNorm1d": "instance_norm",
    "InstanceNorm2d": "instance_norm",
    "Dropout": "dropout", "Dropout1d": "dropout", "Dropout2d": "dropout", "Dropout3d": "dropout",
    "AlphaDropout": "dropout",
    "ReLU": "relu", "ReLU6": "relu6", "GELU": "gelu", "SiLU": "silu", "Tanh": "tanh", "Sigmoid": "sigmoid",
    "Softmax": "softmax", "LogSoftmax": "log_softmax", "LeakyReLU": "leaky_relu", "ELU": "elu",
    "Hardtanh": "hardtanh", "Hardswish": "hardswish", "Hardsigmoid": "hardsigmoid", "Softplus": "softplus",
    "Mish": "mish", "PReLU": "prelu", "SELU": "selu", "CELU": "celu", "GLU": "glu", "LogSigmoid": "logsigmoid",
    "Identity": "identity", "Flatten": "flatten", "Unflatten": "unflatten", "MaxPool1d": "max_pool1d",
    "MaxPool2d": "max_pool2d", "AvgPool1d": "avg_pool1d", "AvgPool2d": "avg_pool2d",
    "AdaptiveAvgPool1d": "adaptive_avg_pool1d", "AdaptiveAvgPool2d": "adaptive_avg_pool2d",
    "AdaptiveMaxPool2d": "adaptive_max_pool2d", "PixelShuffle": "pixel_shuffle", "Upsample": "interpolate",
    "Conv1D": "linear",
}  # fmt: skip

# Classes of the allow-list that are created as another class.
_CREATED_AS = {"NonDynamicallyQuantizableLinear": "Linear"}
_BY_WORD = {name.lower(): name for name in reversed(OP_OF_CLASS) if name != "Conv1D"}


def class_of_name(word: str) -> str | None:
    """The leaf class for "BatchNorm2d" or, as in the MASE labs, "batch_norm2d"; None for others."""
    return word if word in OP_OF_CLASS else _BY_WORD.get(word.lower().replace("_", ""))


def is_of_class(node: Node, name: str) -> bool:
    """Whether a node is a module of the class `name`, or the corresponding function."""
    cls = node.attrs.get("class")
    if cls is None:
        return node.op == OP_OF_CLASS[name]
    return _CREATED_AS.get(str(cls), cls) == _CREATED_AS.get(name, name)
