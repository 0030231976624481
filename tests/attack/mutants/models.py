"""Projects, packed models, folders of Hugging Face, adapters, torch.export: sound ones, and what opens them."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

from tests.attack.mutants.calling import command
from tests.attack.mutants.journals import study_record, sweep_journal

OFTEN = 0.05  # share of the mutants that go through a whole command, where that takes long


# -- projects


def projects(folder: Path) -> None:
    from dataclasses import replace

    from espalier.model.document.project import save_project
    from tests.model.project_cases import make

    modules = {"add": {"text": "a", "original": "b"}}
    extras = {"studies/a.trials.jsonl": study_record(), "sweeps/001.jsonl": sweep_journal(),
              "hardware_modules.json": json.dumps({"version": 1, "modules": modules}).encode(),
              "later/thing.bin": b"x" * 100}  # fmt: skip
    for name in ("mlp", "odd"):
        project, store = make(name)
        held = replace(project, extras=extras, reports={"scores": {"options": {}, "kl": {"a": 1.0}}})
        save_project(held, store, folder / f"{name}.espalier")


def open_project(path: Path, rng: Random) -> None:
    from espalier.app.features.hardware.state.project_tables import from_bytes as hardware
    from espalier.model.document.project import load_project, save_project
    from espalier.model.errors import EspalierError
    from espalier.model.store.weights import WeightStore
    from espalier.model.torch.build import build
    from espalier.passes.search.record import records
    from espalier.passes.sweep.journal import journals
    from espalier.verilog.rtl.edited_modules import from_bytes as modules

    store = WeightStore(path.parent / "work")
    project = load_project(path, store)
    extras = project.extras
    records(extras)
    journals(extras)
    for member, read in (("hardware_modules.json", modules), ("hardware.json", hardware)):
        if member in extras:
            with contextlib.suppress(EspalierError):
                read(extras[member])
    build(project.graph, store)
    save_project(project, store, path.with_name("again.espalier"))
    if rng.random() < OFTEN:
        command("report", path)


# -- packed models, folders of Hugging Face, adapters, torch.export


def packed(folder: Path) -> None:
    from espalier.model.document.recipe import Recipe, Step
    from espalier.model.formats.integer import Integer
    from espalier.model.packed.file import write_packed
    from espalier.model.sources.info import SourceInfo
    from espalier.passes.base import Context
    from espalier.passes.choices.prune import PruneOptions
    from espalier.passes.choices.quantize import QuantizeOptions, Rule
    from espalier.passes.recipes.replay import replay
    from espalier.passes.select import Select
    from tests.model.zoo import case

    for name, width in (("mlp", 4), ("bert", 6)):
        held = case(name)
        rule = Rule(Select("type", ("linear",)), {"weight": Integer(width, 3), "data_in": Integer(8, 4)})
        steps = Step("quantize", QuantizeOptions((rule,))), Step("prune", PruneOptions(0.4))
        graph = replay(held.graph, Recipe(steps), Context(held.store)).graph
        write_packed(graph, held.store, SourceInfo("/nowhere", name), folder / f"{name}.packed.safetensors")


def open_model(path: Path, rng: Random) -> None:
    from espalier.model.opening import open_any
    from espalier.model.torch.build import build
    from espalier.model.trust import Origin

    opened = open_any(str(path), path.parent / "work", cached=False, origin=Origin.TYPED)
    build(opened.project.graph, opened.store)


def folders(folder: Path) -> None:
    import torch
    import transformers

    torch.manual_seed(0)
    sizes: dict[str, Any] = {"vocab_size": 50, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
                             "intermediate_size": 12, "max_position_embeddings": 32}  # fmt: skip
    model = transformers.BertForSequenceClassification(transformers.BertConfig(**sizes))
    model.save_pretrained(folder / "bert")
    gpt = transformers.GPT2Config(vocab_size=50, n_embd=8, n_layer=1, n_head=2, n_positions=32)
    transformers.GPT2LMHeadModel(gpt).save_pretrained(folder / "gpt2")
    from espalier.model.sources.demos import RESOURCES

    for name in ("tokenizer.json", "tokenizer_config.json"):
        if (RESOURCES / "reviews" / name).exists():
            shutil.copyfile(RESOURCES / "reviews" / name, folder / "bert" / name)


def open_folder(path: Path, rng: Random) -> None:
    from espalier.model.data.class_names import model_names
    from espalier.model.data.tokens import longest, open_tokenizer
    from espalier.model.sources.source import load_source
    from espalier.model.trust import Origin

    model_names(str(path))
    longest(path)
    if (path / "tokenizer.json").exists():
        from espalier.model.errors import DataError

        with contextlib.suppress(DataError):
            open_tokenizer(path)(["a good film"], 16)
    if rng.random() < 3 * OFTEN:
        command("trace", path, "--no-cache")
    else:
        load_source(str(path), origin=Origin.TYPED)


def adapters(folder: Path) -> None:
    from espalier.passes.choices.lora import LoraOptions, Rank
    from espalier.passes.lowrank.peft_write import write_peft
    from espalier.passes.select import Select
    from tests.passes.lowrank.lora_cases import case, step, trained

    for name in ("mlp", "bert"):
        held = case(name)
        ranks = (Rank(Select("regex", ("query", "second")), 2),)
        graph = trained(step(held.graph, held, "lora", LoraOptions(3, 5.0, 0.1, ranks=ranks))[0], held)
        (folder / name).mkdir()
        write_peft(graph, held.store, folder / name, None, {})


def load_adapter(path: Path, rng: Random) -> None:
    from espalier.passes.transform.load_adapter import LoadAdapterOptions
    from tests.passes.lowrank.lora_cases import case, step

    held = case(path.name)
    graph, _ = step(held.graph, held, "load_adapter", LoadAdapterOptions(str(path)))
    held.build(graph)


def programs(folder: Path) -> None:
    from tests.attack.pt2_files import sound

    sound(folder / "net.pt2")


def open_program(path: Path, rng: Random) -> None:
    from espalier.model.sources.source import load_source
    from espalier.model.trust import Origin

    if rng.random() < OFTEN:
        command("trace", path, "--no-cache")
    else:
        load_source(str(path), origin=Origin.TYPED)
