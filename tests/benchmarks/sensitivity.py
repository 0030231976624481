"""Predicted against measured divergence: every format × layer × port of a BERT-tiny trained on SST-2 sentences, whole
configurations of it, and what it all takes on BERT-base.

Reads ../shared (or ESPALIER_SHARED), a trained model from `--model FOLDER`; says so and ends where the text is absent.
GradientStatistics, measurements that correct, and those that judge come from different sentences of the validation set.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import espalier.model.formats
from espalier.model.data.base import Split
from espalier.model.document.graph_json import fingerprint
from espalier.model.formats.base import Format, parse_format
from espalier.model.graph.graph import Graph
from espalier.model.opening import open_source
from espalier.model.sources.reading import Reading
from espalier.model.trust import Origin
from espalier.passes.analysis.format_sqnr import usual_formats
from espalier.passes.analysis.sensitivity import gradient_ports
from espalier.passes.base import Context
from espalier.passes.running.splits import EvaluateOptions, load_split
from espalier.passes.sensitivity import measured_candidates
from espalier.passes.sensitivity.candidate_cache import CandidateCache
from espalier.passes.sensitivity.collect import collect
from espalier.passes.sensitivity.correction import fit_correction, spearman
from espalier.passes.sensitivity.full_table import rows_of_table
from espalier.passes.sensitivity.gradient_statistics import key_of, load, save
from espalier.passes.sensitivity.measure import Baseline, Measured
from espalier.passes.sensitivity.port_predictor import port_predictor, stored
from espalier.passes.sensitivity.ports import FormatPort
from espalier.passes.sensitivity.table import Candidate, Sensitivity
from espalier.passes.transform.decompose_attention import DecomposeOptions, decompose_attention
from tests.benchmarks.formats_sst2 import DATA
from tests.benchmarks.record import report
from tests.benchmarks.sensitivity_configurations import Configurations
from tests.benchmarks.sst2 import SHARED, train

SAMPLES, JUDGED, CORRECTING, WHOLES, TURNS = 256, 256, 48, 8, 3
CHUNK = 240  # cells by chance that are measured in one walk: what is known when time is up is fair
LARGE = 1e-4
FORMATS = Path(espalier.model.formats.__file__).parent
BASE = "config:bert?task=sequence-classification"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path)
    parser.add_argument("--quick", action="store_true", help="no BERT-base")
    parser.add_argument("--cells", type=int, default=0, help="judge by so many cells by chance; 0: all, half an hour")
    parser.add_argument("--minutes", type=float, default=math.inf, help="measure so long at most; run again to go on")
    return parser.parse_known_args()[0]


def main() -> None:
    """Both halves."""
    torch.set_num_threads(1)  # what is timed is the work, beside whatever else runs
    given = _options()
    if not SHARED.exists():
        report("sensitivity", {"skipped": f"{SHARED.name} is absent"})
        return
    found = real_text(given.model, given.cells, given.minutes)
    report("sensitivity", {**found, **({} if given.quick else {"bert_base": large()})})


# -- real text


def real_text(given: Path | None, count: int, minutes: float = math.inf) -> dict[str, Any]:
    """Everything on the BERT-tiny; `count`: cells that are measured to judge by, 0: all, as far as `minutes` reach."""
    folder = Path(tempfile.mkdtemp())
    model = given or folder / "bert-tiny"
    if not (model / "config.json").exists():
        train(model)
    opened = open_source(str(model), folder / "work", origin=Origin.TYPED)
    context = Context(opened.store, reading=Reading(str(model)), base=opened.project.base)
    graph = decompose_attention(opened.project.base, DecomposeOptions(), context)[0]
    held = load_split(EvaluateOptions(split="validation", **DATA), context)
    judged, seen = held.take(JUDGED), held.rows(slice(JUDGED, JUDGED + SAMPLES))
    correcting = held.rows(slice(JUDGED + SAMPLES, JUDGED + 2 * SAMPLES))

    _, run, places = gradient_ports(graph, None)
    start = time.perf_counter()
    save(collect(run, places, seen, context), folder / "evidence.safetensors")
    evidence, took = load(folder / "evidence.safetensors"), time.perf_counter() - start
    start = time.perf_counter()
    rows = list(rows_of_table(evidence, places, run, context.store, usual_formats()))
    tabled = time.perf_counter() - start
    at = {(p.node, p.port): p for p in places}

    seconds: dict[measured_candidates.Cell, float] = {}

    def true(cells: Sequence[measured_candidates.Cell], split: Split) -> dict[measured_candidates.Cell, float]:
        """What is measured is kept on disk: a run that was stopped goes on where it was."""
        known: dict[measured_candidates.Cell, Measured] = {}
        kept = CandidateCache(measured_key(run, split))
        measured_candidates.measure_cells(
            rows, cells, at, run, split, 64, context, lambda c, m: known.update({c: m}), kept
        )
        seconds.update({c: m.seconds for c, m in known.items()})
        return {c: m.kl for c, m in known.items()}

    for_correction = true(measured_candidates.sample_cells(rows, CORRECTING, 0), correcting)
    by = measured_candidates.table_correction([_told(row, r, for_correction) for r, row in enumerate(rows)])
    cells, known = measured_candidates.all_cells(rows), dict[measured_candidates.Cell, float]()
    cells = random.Random(0).sample(cells, count or len(cells))
    start = time.perf_counter()
    for first in range(0, len(cells), CHUNK):
        if time.perf_counter() - start > 60 * minutes:
            break
        known |= true(cells[first : first + CHUNK], judged)
    fixed = [measured_candidates.corrected_row(row, by) for row in rows]
    mixed = measured_candidates.sample_configurations(fixed, WHOLES, 0, len(usual_formats()))
    pairs = measured_candidates.measure_configurations(
        fixed, mixed, at, Baseline(run, correcting, 64, context), context
    )
    whole = fit_correction([(p, 0.0, m) for p, m in pairs])
    return {
        "evidence_samples": SAMPLES, "judged_samples": JUDGED, "correcting": CORRECTING, "places": len(rows),
        "cells": len(known), "of": len(measured_candidates.all_cells(rows)),
        "seconds": {"evidence": round(took, 2), "table": round(tabled, 2),
                    "measuring_all": round(sum(seconds[c] for c in known), 1)},
        "evidence_bytes": (folder / "evidence.safetensors").stat().st_size,
        "correction": {k: round(getattr(by, k), 3) for k in ("level", "steep", "loud", "factor", "before")},
        "noise": _agreement([(rows[r].noise[c], kl) for (r, c), kl in known.items()]),
        "predicted": _by_port(rows, known), "corrected": _by_port(fixed, known),
        "configuration_correction": {k: round(getattr(whole, k), 3) for k in ("level", "steep", "factor", "before")},
        **Configurations(run, places, evidence, context, Baseline(run, judged, 64, context), fixed, by, whole).all(),
    }  # fmt: skip


def measured_key(run: Graph, split: Split, formats: Path = FORMATS) -> str:
    """The name of what is measured of a model on some samples; another where formats are computed in another way."""
    sources = (p.read_text() for p in sorted(formats.glob("*.py")))
    return key_of("benchmark", fingerprint(run), *sources, *(v for kv in sorted(split.inputs.items()) for v in kv))


def _told(row: Sensitivity, number: int, known: dict[measured_candidates.Cell, float]) -> Sensitivity:
    return measured_candidates.with_measurements(row, {c: kl for (r, c), kl in known.items() if r == number})


def _by_port(rows: Sequence[Sensitivity], known: dict[measured_candidates.Cell, float]) -> dict[str, Any]:
    pairs = [(rows[r].port, rows[r].predicted[c], kl) for (r, c), kl in known.items()]
    ports = sorted({p for p, _, _ in pairs})
    return {"all": _agreement([(p, m) for _, p, m in pairs]),
            **{port: _agreement([(p, m) for q, p, m in pairs if q == port]) for port in ports}}  # fmt: skip


def _agreement(pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Rank correlations, and by what factor predictions are off where there is anything to see."""
    kept = [(p, m) for p, m in pairs if math.isfinite(p) and math.isfinite(m)]
    large = [(p, m) for p, m in kept if m > LARGE]
    off = [math.log2(p / m) for p, m in kept if m > 1e-7 and p > 0]

    def rho(found: list[tuple[float, float]]) -> float | None:
        value = spearman([p for p, _ in found], [m for _, m in found])
        return None if value is None else round(value, 4)

    return {"pairs": len(kept), "spearman": rho(kept), "large": len(large), "spearman_large": rho(large),
            "median_factor": round(2 ** float(np.median(np.abs(off))), 3) if off else None,
            "within_2": round(float(np.mean(np.abs(off) < 1)), 3) if off else None}  # fmt: skip


# -- BERT-base


def large() -> dict[str, Any]:
    """Seconds of the evidence, of the table against one pass over the weights per format, and of an edit."""
    folder = Path(tempfile.mkdtemp())
    opened = open_source(BASE, folder / "work", origin=Origin.TYPED)
    context = Context(opened.store, base=opened.project.base)
    _, run, places = gradient_ports(opened.project.base, opened.project.base)
    ids = np.random.default_rng(0).integers(1000, 20000, (64, 48))
    split = Split({"input_ids": ids, "attention_mask": np.ones_like(ids)}, np.zeros(64, np.int64))
    start = time.perf_counter()
    save(collect(run, places, split, context), folder / "e.safetensors")
    took = time.perf_counter() - start
    evidence, formats = load(folder / "e.safetensors"), usual_formats()
    weights = [p for p in places if p.weight is not None]

    def table(some: Sequence[FormatPort]) -> float:
        start = time.process_time()
        list(rows_of_table(evidence, some, run, opened.store, formats))
        return time.process_time() - start

    def one_pass_each() -> float:
        start = time.process_time()
        for place in weights:
            x = torch.from_numpy(stored(place, run, opened.store))
            for fmt in formats:
                y = fmt.forward(x).sub_(x).reshape(-1)
                float(y.dot(y))
        return time.process_time() - start

    flows = [p for p in places if p.weight is None]
    turns = [(table(weights), table(flows), one_pass_each()) for _ in range(TURNS)]
    stored_ones, flowing, passes = (min(t) for t in zip(*turns, strict=True))
    edits = {
        str(f): _edit(places, folder / "e.safetensors", run, context, f)
        for f in (parse_format("integer(width=4)"), formats[9])
    }
    return {"samples": len(split), "tokens": 48, "evidence_seconds": round(took, 1), "places": len(places),
            "evidence_bytes": (folder / "e.safetensors").stat().st_size, "formats": len(formats),
            "table_cpu_seconds": {"weights": round(stored_ones, 2), "activations": round(flowing, 2)},
            "one_pass_each_cpu_seconds": round(passes, 2), "ratio_of_weights": round(stored_ones / passes, 2),
            "ratio": round((stored_ones + flowing) / passes, 2), "target": 2.0,
            "edit_ms": edits, "edit_target_ms": 50}  # fmt: skip


def _edit(places: Any, file: Path, run: Graph, context: Context, fmt: Format) -> dict[str, float]:
    """Least milliseconds of one changed port, by numpy alone: a weight of a feed-forward, as the window asks."""
    place = next(p for p in places if p.weight is not None and "intermediate" in p.node and p.port == "weight")

    def once() -> tuple[float, float]:
        begun, start = time.process_time(), time.perf_counter()
        found = port_predictor(place, load(file), run, context.store, 1 << 16)
        assert found is not None
        found.kl_and_noise(Candidate(fmt))
        return time.process_time() - begun, time.perf_counter() - start

    took = [once() for _ in range(9)]
    return {name: round(1000 * min(t[i] for t in took), 1) for i, name in enumerate(("processor", "wall"))}


if __name__ == "__main__":
    print("this takes some minutes", file=sys.stderr)
    main()
