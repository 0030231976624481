"""The menu File."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from espalier.app.menu import Action, always

if TYPE_CHECKING:
    from espalier.app.settings import Settings
    from espalier.app.shell.exports import Exports
    from espalier.app.shell.opening import Opening
    from espalier.app.shell.reopening import Reopening
    from espalier.app.shell.saving import Saving


def rows(
    opening: Opening, saving: Saving, exports: Exports, close: Callable[[], object], can_close: Callable[[], bool],
    quit_: Callable[[], object],
) -> list[Action]:  # fmt: skip
    """Rows for opening, saving, exporting and closing."""
    return [
        Action("open", "Open…", "File", opening.open_file, "Ctrl+O", "Open", always,
               help="Open a project or model file"),
        Action("open_folder", "Open folder…", "File", opening.open_folder, "Ctrl+Shift+O", needs=always,
               help="Open a Hugging Face folder"),
        Action("open_name", "Open by name…", "File", opening.open_name, "Ctrl+Alt+O", needs=always,
               help="Open hf:NAME, config:…, demo:NAME or file.py:factory"),
        Action("save", "Save", "File", saving.save, "Ctrl+S", "Save", group=1),
        Action("save_as", "Save as…", "File", saving.save_as, "Ctrl+Shift+S", group=1),
        Action("load_recipe", "Load a recipe…", "File", opening.load_recipe, group=1,
               help="Add the steps of a TOML or JSON file, or of a MASE dict"),
        Action("export_safetensors", "Safetensors folder…", "File/Export", partial(exports.export, "safetensors"),
               group=2, dynamic_title=exports.folder_title, help="Float weights; transformers loads its own classes"),
        Action("export_packed", "Packed model…", "File/Export", partial(exports.export, "packed"), group=2,
               dynamic_title=exports.packed_title, help="One file, each weight in the bits of its format"),
        Action("export_compressed-tensors", "Compressed tensors…", "File/Export",
               partial(exports.export, "compressed-tensors"), group=2,
               help="Weights as codes and scales, which transformers and vLLM read"),
        Action("export_torchao", "torchao…", "File/Export", partial(exports.export, "torchao"), group=2,
               help="Weights as tensors of torchao, which transformers reads"),
        Action("export_gguf", "GGUF…", "File/Export", partial(exports.export, "gguf"), group=2,
               help="One file for llama.cpp, of a Llama, Qwen or GPT-2"),
        Action("export_onnx", "ONNX…", "File/Export", partial(exports.export, "onnx"), group=2,
               help="Integer weights, formats as QuantizeLinear; verified in onnxruntime"),
        Action("export_openvino", "OpenVINO…", "File/Export", partial(exports.export, "openvino"), group=2,
               help="An .xml and a .bin with integer weights; verified in OpenVINO"),
        Action("export_executorch", "ExecuTorch…", "File/Export", partial(exports.export, "executorch"), group=2,
               help="A .pte that XNNPACK runs with integer weights; verified in ExecuTorch"),
        Action("export_pt2", "Torch program (pt2)…", "File/Export", partial(exports.export, "pt2"), group=2,
               help="A torch.export file, which torch loads without Espalier"),
        Action("export_adapter", "LoRA adapters…", "File/Export", partial(exports.export, "adapter"), group=2,
               needs=exports.has_adapters, help="A folder that PEFT loads onto the original model"),
        Action("export_recipe", "Recipe…", "File/Export", partial(exports.export, "recipe"), group=2),
        Action("export_script", "Python script…", "File/Export", partial(exports.export, "script"), group=2),
        Action("export_graphml", "GraphML…", "File/Export", partial(exports.export, "graphml"), group=2,
               help="The graph with operations, shapes and formats, for Gephi, yEd or networkx"),
        Action("export_picture", "Picture of the graph…", "File/Export", exports.export_picture, group=2),
        Action("copy_picture", "Copy the picture of the graph", "File/Export", exports.copy_picture, group=2,
               help="Paste it into a document; or drag it by the handle at the top right of the graph"),
        Action("close", "Close", "File", close, "Ctrl+W", needs=can_close, group=3),
        Action("quit", "Quit", "File", quit_, "Ctrl+Q", needs=always, group=3),
    ]  # fmt: skip


def reopening_rows(reopening: Reopening, settings: Settings) -> list[Action]:
    """Rows for the model of the last session."""
    return [
        Action("reopen", "Reopen the last session", "File", reopening.reopen, "Ctrl+Alt+R", needs=reopening.available,
               dynamic_title=reopening.title, help="Open what was opened last, besides the model that is open"),
        Action("reopen_at_start", "Reopen the last session at start", "File", reopening.toggle, needs=always,
               checked=lambda: settings.reopens, help="When Espalier starts without a file or name"),
    ]  # fmt: skip
