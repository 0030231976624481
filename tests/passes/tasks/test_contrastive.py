"""Images with captions held to transformers' losses, recalls in plain numpy, and bad files and arrays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import espalier as es
from espalier.model.data.captions import Pair
from espalier.model.errors import DataError, GraphError
from espalier.passes.tasks.base import TASKS
from espalier.passes.tasks.contrastive import Contrastive, SigmoidContrastive
from tests.caption_models import LENGTH, WORDS, batch_of, model_of, pairs, write_model, write_pairs

KEYS = ("n", "recall_1", "text_recall_5", "image_recall_5", "loss", "images", "captions")
KINDS = {"clip": Contrastive, "siglip": SigmoidContrastive}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random CLIP with 20 images."""
    place = tmp_path_factory.mktemp("clip")
    write_model(place / "model")
    write_pairs(place / "data", pairs(20))
    return place


def figures(summary: dict[str, Any]) -> dict[str, float]:
    return {key: summary[key] for key in KEYS}


def made_pairs(images: list[int], captions: list[int], width: int = 6, seed: int = 0) -> tuple[Any, Any, Any]:
    """(table, embeddings of the images and of the captions of each row): equal numbers have equal embeddings."""
    rng = np.random.default_rng(seed)
    one, two = rng.normal(size=(max(images) + 1, width)), rng.normal(size=(max(captions) + 1, width))
    unit = [e / np.linalg.norm(e, axis=1, keepdims=True) for e in (one, two)]
    table = tuple(Pair(i, c, f"text {c}").entry() for i, c in zip(images, captions, strict=True))
    return table, unit[0][images], unit[1][captions]


def plain_recalls(images: list[int], captions: list[int], x: Any, t: Any, k: int) -> tuple[float, float]:
    """Image → text and text → image recall@k by sorting, one query after the other."""
    hits: list[list[bool]] = [[], []]
    related = set(zip(images, captions, strict=True))
    for image in sorted(set(images)):
        offered = sorted(set(captions))
        near = [float(x[images.index(image)] @ t[captions.index(c)]) for c in offered]
        best = [offered[at] for at in np.argsort([-n for n in near], kind="stable")[:k]]
        hits[0].append(any((image, c) in related for c in best))
    for row, caption in enumerate(captions):
        offered = sorted(set(images))
        near = [float(t[row] @ x[images.index(i)]) for i in offered]
        best = [offered[at] for at in np.argsort([-n for n in near], kind="stable")[:k]]
        hits[1].append(any((i, caption) in related for i in best))
    return float(np.mean(hits[0])), float(np.mean(hits[1]))


@pytest.mark.parametrize("seed", range(4))
def test_recalls_are_those_of_sorting(seed: int) -> None:
    """With several captions an image, and captions that several images share; in batches of any size."""
    rng = np.random.default_rng(seed)
    images = sorted([*range(15), *rng.integers(0, 15, 10).tolist()])
    captions = rng.permutation([*range(18), *rng.integers(0, 18, 7).tolist()]).tolist()
    table, x, t = made_pairs(images, captions, seed=seed)
    task = Contrastive(table)
    parts = list[Any]()
    for rows in (slice(0, 9), slice(9, 25)):
        one, two = (torch.from_numpy(e[rows]) for e in (x, t))
        parts.append(task.statistics(torch.cat([one @ two.T, one, two], 1), torch.arange(25)[rows]))
    found = task.more(np.concatenate(parts))
    for k in (1, 5):
        wanted = plain_recalls(images, captions, x, t, k)
        assert (found[f"text_recall_{k}"], found[f"image_recall_{k}"]) == pytest.approx(wanted, abs=1e-12)
    errors = task.errors(np.concatenate(parts))
    assert errors is not None and errors.mean() == pytest.approx(found["recall_1"])
    low, high = task.intervals(np.concatenate(parts))["recall_1"]
    assert low <= found["recall_1"] <= high


def test_guessing_is_the_mean_of_random_ranks() -> None:
    images, captions = [0, 0, 1, 2, 3], [0, 1, 1, 2, 0]
    table, _, _ = made_pairs(images, captions)
    from espalier.model.data.base import Split

    split = Split({}, np.arange(5), table=table)
    drawn = list[float]()
    for seed in range(400):
        _, x, t = made_pairs(images, captions, seed=seed)
        drawn.append(sum(plain_recalls(images, captions, x, t, 1)) / 2)
    assert Contrastive().guess(split, split) == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / 400**0.5)


def test_equal_embeddings_are_no_better_than_guessing() -> None:
    table, _, _ = made_pairs(list(range(10)), list(range(10)))
    one = torch.ones(10, 6, dtype=torch.float64)
    found = Contrastive(table).more(
        Contrastive(table).statistics(torch.cat([one @ one.T, one, one], 1), torch.arange(10))
    )
    assert found["recall_1"] == 0.1 and found["text_recall_5"] == 0.5


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_loss_of_a_batch_is_that_of_transformers(kind: str) -> None:
    torch.manual_seed(0)
    model, task = model_of(kind), KINDS[kind](made_pairs(list(range(7)), list(range(7)))[0])
    with torch.no_grad():
        result = model(input_ids=torch.randint(4, len(WORDS), (7, LENGTH)), return_loss=True,
                       pixel_values=torch.randn(7, 3, 24, 24))  # fmt: skip
    scores = task.scores(dict(result), None)  # type: ignore[arg-type]
    assert float(task.loss(scores, torch.arange(7))) == pytest.approx(float(result.loss), rel=1e-6)
    statistics = task.statistics(scores, torch.arange(7))
    assert task.figures(statistics.sum(0))["loss"] == pytest.approx(float(result.loss), rel=1e-6)
    other = torch.cat([scores[:, :7] + torch.randn(7, 7), scores[:, 7:]], 1)
    assert float(task.taught(scores, scores, 2.0)) == pytest.approx(0, abs=1e-6)
    a, b = ((z[:, :7] / 2).double() for z in (other, scores))
    if kind == "siglip":
        p, q = torch.distributions.Bernoulli(logits=a), torch.distributions.Bernoulli(logits=b)
        wanted = torch.distributions.kl_divergence(p, q).sum(-1).mean()
    else:
        both = [(torch.distributions.Categorical(logits=m), torch.distributions.Categorical(logits=n))
                for m, n in ((a, b), (a.T, b.T))]  # fmt: skip
        wanted = sum(torch.distributions.kl_divergence(*pair).mean() for pair in both) / 2  # type: ignore[assignment]
    assert float(task.taught(scores, other, 2.0)) == pytest.approx(4 * float(wanted), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(KINDS))
def test_scores_of_files_are_those_of_transformers(tmp_path: Path, kind: str) -> None:
    """With transformers' own tokenizer and image processor, in batches as the score says."""
    model, tokenizer = write_model(tmp_path / "m", kind)
    rows = pairs(21, 3)
    data = str(write_pairs(tmp_path / "data", rows))
    m = es.open(str(tmp_path / "m"))
    whole = m.evaluate(data).summary
    with torch.no_grad():
        result = model(**batch_of(rows, tokenizer, kind))
    assert whole["task"] == KINDS[kind].name and whole["metric"] == "recall_1" and whole["batch_size"] == 21
    assert whole["loss"] == pytest.approx(float(result.loss), rel=1e-5)
    texts = sorted({text for _, text in rows})
    images, captions = list(range(21)), [texts.index(text) for _, text in rows]
    wanted = plain_recalls(images, captions, result.image_embeds.numpy(), result.text_embeds.numpy(), 1)
    assert (whole["text_recall_1"], whole["image_recall_1"]) == pytest.approx(wanted)
    smaller = m.evaluate(data, batch_size=7).summary
    assert smaller["loss"] < whole["loss"] and smaller["recall_1"] == whole["recall_1"] and smaller["batch_size"] == 7


@pytest.mark.slow
def test_every_source_gives_the_same_score(folder: Path, tmp_path: Path) -> None:
    """A CSV file with other columns, split folders, `.npz`, images of Pillow, arrays, dicts and splits."""
    from PIL import Image

    m = es.open(str(folder / "model"))
    wanted = figures(m.evaluate(str(folder / "data")).summary)
    rows = pairs(20)
    write_pairs(tmp_path / "a/test", rows)
    write_pairs(tmp_path / "b/pictures", rows)
    table = "path,words\n" + "".join(f"pictures/{at:04}.png,{text}\n" for at, (_, text) in enumerate(rows))
    (tmp_path / "b/pictures/metadata.jsonl").unlink()
    (tmp_path / "b/table.csv").write_text(table)
    stacked = np.stack([pixels for pixels, _ in rows]).transpose(0, 3, 1, 2)
    np.savez(tmp_path / "c.npz", x=stacked, y=[text for _, text in rows])
    pillow = [(Image.fromarray(pixels), text) for pixels, text in rows]
    arrays = [{"image": torch.from_numpy(x.astype(np.float32) / 255), "text": [text]}
              for x, (_, text) in zip(stacked, rows, strict=True)]  # fmt: skip
    for source in (str(tmp_path / "a"), str(tmp_path / "c.npz"), pillow, arrays, {"test": pillow}):
        assert figures(m.evaluate(source).summary) == pytest.approx(wanted, rel=1e-5), str(source)[:50]
    found = m.evaluate(str(tmp_path / "b/table.csv"), text="path", label="words").summary
    assert figures(found) == pytest.approx(wanted, rel=1e-5)
    assert m.run("data_rows", data=str(folder / "data"), limit=2).rows[0]["label"].startswith("a ")


@pytest.mark.slow
def test_several_captions_and_long_texts(folder: Path, tmp_path: Path) -> None:
    """Lists of captions belong to one image; equal ones count once; longer texts than the model takes are cut."""
    m = es.open(str(folder / "model"))
    data = write_pairs(tmp_path / "d", pairs(6))
    rows = [json.loads(line) for line in (data / "metadata.jsonl").read_text().splitlines()]
    texts = [row["text"] for row in rows]
    rows[0]["text"] = [texts[0], texts[0], "a red disc " * 9]
    rows[1]["text"] = [texts[0]]
    (data / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    summary = m.evaluate(str(data)).summary
    assert (summary["n"], summary["images"], summary["captions"]) == (7, 6, 6)
    assert summary["texts_cut"] == pytest.approx(1 / 7) and summary["max_length"] == LENGTH


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("missing", r"Row 3 of metadata\.jsonl names the image '0002\.png', which does not exist"),
        ("zero", r"Row 3 of metadata\.jsonl names no file"),
        ("outside", r"Row 3 of metadata\.jsonl names '\.\./other\.png', which is outside the folder data"),
        ("empty", r"1 of 12 rows of metadata\.jsonl have no caption \(first: row 3\)"),
        ("broken", r"data/0002\.png is not a readable image"),
        ("columns", r"No column of metadata\.jsonl looks like the label"),
        ("none", r"holds no table of images with captions"),
    ],
)
@pytest.mark.slow
def test_bad_files_are_one_error_that_names_them(folder: Path, tmp_path: Path, kind: str, told: str) -> None:
    m = es.open(str(folder / "model"))
    data = write_pairs(tmp_path / "data", pairs(12))
    table = data / "metadata.jsonl"
    rows = [json.loads(line) for line in table.read_text().splitlines()]
    if kind == "missing":
        (data / "0002.png").unlink()
    if kind == "zero":
        rows[2]["file_name"] = "a\0.png"
    if kind == "outside":
        (data / "0002.png").rename(tmp_path / "other.png")
        rows[2]["file_name"] = "../other.png"
    if kind == "empty":
        rows[2]["text"] = " "
    if kind == "broken":
        (data / "0002.png").write_bytes((data / "0002.png").read_bytes()[:60])
    if kind == "columns":
        rows = [{"file_name": row["file_name"], "n": 1} for row in rows]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if kind == "none":
        table.unlink()
    with pytest.raises(DataError, match=told):
        m.evaluate(str(data))
    with pytest.raises(DataError, match=told):
        m.finetune(data=str(data), max_steps=1)


@pytest.mark.slow
def test_bad_arrays_and_other_models(folder: Path, tmp_path: Path) -> None:
    m = es.open(str(folder / "model"))
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 3, 24, 24)), y=np.arange(3))
    with pytest.raises(DataError, match=r"x and y of a\.npz are"):
        m.evaluate(str(tmp_path / "a.npz"))
    with pytest.raises(DataError, match="Row 2 of all of list in Python has an empty caption"):
        m.evaluate([(np.zeros((3, 24, 24), np.float32), text) for text in ("a disc", " ")])
    with pytest.raises(DataError, match="Sample 1 is no image with a caption"):
        m.evaluate([(np.zeros((3, 24, 24), np.float32), "a disc"), (np.zeros((3, 24, 24), np.float32), 3)])
    with pytest.raises(DataError, match="holds no images with captions"):
        m.evaluate({"pixel_values": np.zeros((2, 3, 24, 24))})
    with pytest.raises((DataError, GraphError), match=r"compare|tokenizer|needs"):
        es.open("demo:reviews").evaluate(str(folder / "data"), task="contrastive")


def test_the_head_chooses_the_loss() -> None:
    from espalier.model.sources.limits import architecture_of, head_of
    from espalier.model.sources.reading import Limits
    from espalier.passes.tasks.base import recognised

    for kind, task in KINDS.items():
        model = model_of(kind)
        limits = Limits(head=head_of(model)[0], architecture=architecture_of(model))
        assert recognised(limits) == task.name and type(TASKS.get(task.name)) is task
