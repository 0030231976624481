"""Segmentation held to transformers' loss, the formula of evaluate's mean_iou in numpy, and bad files and arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import espalier as es
from espalier.app.cli import main
from espalier.model.errors import DataError, GraphError
from espalier.passes.figure import main_figure
from espalier.passes.tasks.segmentation import Segmentation
from tests.resumed_training import resumed
from tests.segmentation_models import CLASSES, SIDE, UNET, images, segformer, write_masks, write_unet

TASK = Segmentation()


def mean_iou(predicted: list[Any], labels: list[Any], classes: int) -> tuple[float, float]:
    """(mean_iou, overall_accuracy) of Hugging Face's evaluate (metrics/mean_iou/mean_iou.py), ignore_index=255."""
    totals = np.zeros((4, classes))
    for pred, label in zip(predicted, labels, strict=True):
        mask = label != 255
        p, t = pred[mask], label[mask]
        area = [np.histogram(v, bins=classes, range=(0, classes - 1))[0] for v in (p[p == t], p, t)]
        totals += np.array([area[0], area[1] + area[2] - area[0], area[1], area[2]])
    with np.errstate(invalid="ignore"):
        return float(np.nanmean(totals[0] / totals[1])), float(totals[0].sum() / totals[3].sum())


@pytest.mark.parametrize(("classes", "size"), [(2, (5, 7)), (4, (16, 16)), (9, (3, 1))])
def test_metrics_are_those_of_evaluate(classes: int, size: tuple[int, int]) -> None:
    """In several batches, with classes that occur nowhere, and one image without a counted pixel."""
    rng = np.random.default_rng(classes)
    labels = rng.integers(0, max(classes - 2, 2), (11, *size))
    labels[rng.random(labels.shape) < 0.3] = 255
    labels[3] = 255
    scores = torch.from_numpy(rng.normal(size=(11, classes, *size)).astype(np.float32))
    inner = torch.from_numpy(np.where(labels == 255, -100, labels))
    statistics = np.concatenate([TASK.statistics(scores[a:b], inner[a:b]) for a, b in ((0, 4), (4, 11))])
    figures = TASK.figures(statistics.sum(0))
    miou, accuracy = mean_iou(list(scores.argmax(1).numpy()), list(labels), classes)
    assert figures["miou"] == pytest.approx(miou, abs=1e-12)
    assert figures["accuracy"] == pytest.approx(accuracy, abs=1e-12)
    wanted = nn.functional.cross_entropy(scores, torch.from_numpy(labels), ignore_index=255)
    assert figures["loss"] == pytest.approx(float(wanted), rel=1e-5)
    parts = TASK.errors(statistics)
    assert parts is not None and parts.mean() == pytest.approx(miou, abs=1e-12)


@pytest.mark.parametrize("side", [32, 30])
def test_the_loss_is_that_of_transformers(side: int) -> None:
    """Logits of a quarter of the size, upsampled; of a size that is no multiple, too."""
    torch.manual_seed(0)
    model = segformer(semantic_loss_ignore_index=255)
    x, labels = torch.rand(3, 3, side, side), torch.randint(0, CLASSES, (3, side, side))
    labels[:, :3] = 255
    with torch.no_grad():
        result = model(pixel_values=x, labels=labels)
    inner = labels.masked_fill(labels == 255, -100)
    assert result.logits.shape[-1] < side
    TASK.fit(result.logits, inner)
    assert float(TASK.loss(result.logits, inner)) == pytest.approx(float(result.loss), rel=1e-6)
    figures = TASK.figures(TASK.statistics(result.logits, inner).sum(0))
    assert figures["loss"] == pytest.approx(float(result.loss), rel=1e-6)
    full = nn.functional.interpolate(result.logits, (side, side), mode="bilinear", align_corners=False)
    assert figures["miou"] == pytest.approx(mean_iou(list(full.argmax(1).numpy()), list(labels.numpy()), CLASSES)[0])


def test_linearised_parts_test_the_difference_of_two_models() -> None:
    """Their standard error of a difference is that of resampling images: within 15 % at 300 images."""
    rng = np.random.default_rng(0)
    labels = torch.from_numpy(rng.integers(0, 3, (300, 6, 6)))
    truth = nn.functional.one_hot(labels, 3).movedim(-1, 1).float()
    hardness = torch.from_numpy(rng.normal(size=(300, 1, 1, 1)).astype(np.float32))
    noise = [torch.randn(truth.shape, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2)]
    both = [TASK.statistics(truth * a + hardness.exp() * n, labels) for a, n in zip((2.0, 2.3), noise, strict=True)]
    one, two = (TASK.errors(s) for s in both)
    assert one is not None and two is not None
    found = float((one - two).std(ddof=1) / np.sqrt(300))
    counts = rng.multinomial(300, np.full(300, 1 / 300), size=4000)
    resampled = TASK.figures(counts @ both[0])["miou"] - TASK.figures(counts @ both[1])["miou"]
    assert found == pytest.approx(float(resampled.std()), rel=0.15)


@pytest.mark.slow
def test_one_channel_is_a_logit_and_ends_in_probabilities_are_undone(tmp_path: Path) -> None:
    """Cross-entropy of one channel is torch's binary one; softmax and sigmoid at the end change nothing."""
    x, y = (torch.from_numpy(a) for a in images(8))
    x, y = x.permute(0, 3, 1, 2).float() / 255, y.long()
    namespace: dict[str, Any] = {}
    exec(UNET, namespace)
    found = {}
    for name, classes, end in (("plain", CLASSES, None), ("softmax", CLASSES, nn.Softmax(1)), ("one", 1, None),
                               ("sigmoid", 1, nn.Sigmoid())):  # fmt: skip
        torch.manual_seed(0)
        model = namespace["UNet"](classes, end).eval()
        target = y if classes > 1 else torch.where(y == 255, 255, (y > 0).long())
        found[name] = es.trace(model, {"x": x[:2]}).evaluate((x, target)).summary
        if name == "one":
            with torch.no_grad():
                z, seen = model(x)[:, 0], y != 255
            wanted = nn.functional.binary_cross_entropy_with_logits(z[seen], (y > 0).float()[seen])
            assert found["one"]["loss"] == pytest.approx(float(wanted), rel=1e-5)
    for name in ("miou", "accuracy", "loss"):
        assert found["softmax"][name] == pytest.approx(found["plain"][name], rel=1e-5)
        assert found["sigmoid"][name] == pytest.approx(found["one"][name], rel=1e-5)


@pytest.mark.slow
def test_every_source_gives_the_same_score(tmp_path: Path) -> None:
    """A folder with suffixes and split folders below, palettes, `.npz`, arrays, a Dataset, a DataLoader."""
    from PIL import Image
    from torch.utils.data import DataLoader, TensorDataset

    m = es.open(write_unet(tmp_path / "model"))
    pixels, masks = images(12, 3)
    plain = write_masks(tmp_path / "plain", 12, 3)
    odd = tmp_path / "odd"
    for name in ("JPEGImages/val", "SegmentationClass/val"):
        (odd / name).mkdir(parents=True)
    for at in range(12):
        Image.fromarray(pixels[at]).save(odd / "JPEGImages/val" / f"{at:02}.bmp")
        mask = Image.fromarray(masks[at]).convert("P")
        mask.putdata(masks[at].reshape(-1).tolist())
        mask.putpalette([v for i in range(256) for v in (i * 37 % 256, i * 91 % 256, i)])
        mask.save(odd / "SegmentationClass/val" / f"{at:02}_mask.png")
    x = pixels.transpose(0, 3, 1, 2)
    np.savez(tmp_path / "a.npz", x=x, y=masks)
    np.savez_compressed(tmp_path / "b.npz", x_test=x, y_test=masks[:, None])
    inputs, labels = torch.from_numpy(x).float() / 255, torch.from_numpy(masks).long()
    pairs = TensorDataset(inputs, labels)
    wanted = m.evaluate(str(plain)).summary
    assert wanted["n"] == 12 and wanted["task"] == "segmentation" and wanted["metric"] == "miou"
    sources = (str(odd), str(tmp_path / "a.npz"), str(tmp_path / "b.npz"), (inputs, labels), pairs,
               DataLoader(pairs, 5), {"x": inputs, "masks": None, "labels": labels[:, None].float()})  # fmt: skip
    for source in sources:
        if isinstance(source, dict):
            source = {k: v for k, v in source.items() if v is not None}
        found = m.evaluate(source).summary
        assert {k: found[k] for k in ("n", "miou", "accuracy", "loss", "pixels")} == pytest.approx(
            {k: wanted[k] for k in ("n", "miou", "accuracy", "loss", "pixels")}, rel=1e-6
        ), source


@pytest.mark.slow
def test_larger_files_are_brought_to_the_models_size(tmp_path: Path) -> None:
    """Masks by the nearest pixel: doubled files have the masks of the originals."""
    from PIL import Image

    m = es.open(write_unet(tmp_path / "model"))
    plain, double = write_masks(tmp_path / "plain", 6), tmp_path / "double"
    for kind in ("images", "masks"):
        (double / kind).mkdir(parents=True)
        for path in (plain / kind).iterdir():
            image = Image.open(path)
            image.resize((2 * SIDE, 2 * SIDE), Image.Resampling.NEAREST).save(double / kind / path.name)
    one, two = m.evaluate(str(plain)).summary, m.evaluate(str(double)).summary
    assert one["pixels"] == two["pixels"] and one["guessing"] == two["guessing"]
    assert f"resized to {SIDE} × {SIDE}" in two["warning"]


def test_masks_of_0_and_255_are_one_object(tmp_path: Path) -> None:
    from PIL import Image

    m = es.open(write_unet(tmp_path / "model"))
    data = write_masks(tmp_path / "data", 6, ignored=False)
    for path in (data / "masks").iterdir():
        Image.fromarray((np.asarray(Image.open(path)) > 0).astype(np.uint8) * 255).save(path)
    summary = m.evaluate(str(data)).summary
    assert "255 counts as class 1" in summary["warning"] and summary["pixels"] == 6 * SIDE * SIDE
    with pytest.raises(DataError, match="0 and 255 alone"):
        m.evaluate((torch.rand(2, 3, SIDE, SIDE), torch.tensor([0, 255]).repeat(2, SIDE, SIDE // 2)))


def spoil(data: Path, kind: str) -> None:
    from PIL import Image

    mask, image = data / "masks/0003.png", data / "images/0003.png"
    values = np.asarray(Image.open(mask)).copy()
    if kind == "size":
        Image.fromarray(values[:-2]).save(mask)
    if kind == "missing":
        mask.unlink()
    if kind == "no image":
        image.unlink()
    if kind == "class":
        values[5, 5] = CLASSES
        Image.fromarray(values).save(mask)
    if kind == "colours":
        Image.fromarray(np.random.default_rng(0).integers(0, 255, (SIDE, SIDE, 3), np.uint8)).save(mask)
    if kind == "damaged":
        mask.write_bytes(mask.read_bytes()[:70])
    if kind == "empty":
        mask.write_bytes(b"")
    if kind == "lossy":
        Image.fromarray(values).convert("L").save(mask.with_suffix(".jpg"))
        mask.unlink()
    if kind == "two":
        Image.fromarray(values).save(mask.with_suffix(".bmp"))


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("size", r"masks/0003\.png is 16 × 14, its image 0003\.png 16 × 16 \(width × height\)"),
        ("missing", r"images/0003\.png of data has no mask"),
        ("no image", r"masks/0003\.png of data has no image"),
        ("class", r"masks/0003\.png has the class 4, the model has the classes 0 to 3"),
        ("colours", r"masks/0003\.png has colours"),
        ("damaged", r"masks/0003\.png is not a readable image"),
        ("empty", r"0003\.png is not a readable image"),
        ("lossy", r"masks/0003\.jpg is a JPEG file"),
        ("two", r"0003\.bmp and 0003\.png"),
    ],
)
def test_bad_files_are_one_error_that_names_them(tmp_path: Path, kind: str, told: str) -> None:
    m = es.open(write_unet(tmp_path / "model"))
    data = write_masks(tmp_path / "data", 12)
    spoil(data, kind)
    with pytest.raises(DataError, match=told):
        m.evaluate(str(data))
    with pytest.raises(DataError, match=told):
        m.finetune(data=str(data), max_steps=1)


@pytest.mark.slow
def test_bad_arrays_and_other_models(tmp_path: Path) -> None:
    m = es.open(write_unet(tmp_path / "model"))
    x, y = torch.rand(4, 3, SIDE, SIDE), torch.randint(0, CLASSES, (4, SIDE, SIDE))
    with pytest.raises(DataError, match=r"class 4, the model has 4 classes"):
        m.evaluate((x, y + 1))
    np.savez(tmp_path / "a.npz", x=x.numpy(), y=y.numpy()[:, :-1])
    with pytest.raises(DataError, match=r"x and y of a\.npz are 4 × 3 × 16 × 16 and 4 × 15 × 16"):
        m.evaluate(str(tmp_path / "a.npz"))
    np.savez(tmp_path / "b.npz", images=x.numpy())
    with pytest.raises(DataError, match=r"b\.npz holds images, not x and y"):
        m.evaluate(str(tmp_path / "b.npz"))
    np.savez(tmp_path / "c.npz", x=np.array([None, 1], object), y=y.numpy())
    with pytest.raises(DataError, match=r"c\.npz cannot be read"):
        m.evaluate(str(tmp_path / "c.npz"))
    (tmp_path / "d.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:-40])
    with pytest.raises(DataError, match=r"d\.npz cannot be read"):
        m.evaluate(str(tmp_path / "d.npz"))
    data = write_masks(tmp_path / "data", 12)
    with pytest.raises((DataError, GraphError), match=r"images|pixels"):
        es.open("demo:digits").evaluate(str(data))
    (tmp_path / "data/images").rename(tmp_path / "data/cats")
    with pytest.raises(DataError, match="holds no masks"):
        m.evaluate(str(data), task="segmentation")


def test_valid_convolutions_are_refused() -> None:
    """Outputs smaller than the masks by a border are no lower resolution."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3))
    m = es.trace(net, {"input": torch.rand(2, 3, 10, SIDE)})
    with pytest.raises(DataError, match=r"scores of 12 × 6 pixels \(width × height\), the masks have 16 × 10"):
        m.evaluate((torch.rand(4, 3, 10, SIDE), torch.randint(0, 4, (4, 10, SIDE))))


def test_the_level_of_guessing_is_the_best_constant() -> None:
    from espalier.model.data.masks import masked

    labels = np.random.default_rng(0).choice([0, 0, 0, 1, 2, -100], (5, 8, 8)).astype(np.int16)
    split = masked("", {"test": (np.zeros((5, 3, 8, 8), np.float32), labels)}).splits["test"]
    wide = torch.from_numpy(labels).long()
    constants = [TASK.figures(TASK.statistics(torch.eye(3)[c][None, :, None, None].expand(5, 3, 8, 8), wide).sum(0))
                 for c in range(3)]  # fmt: skip
    assert TASK.guess(split, split) == pytest.approx(max(float(c["miou"]) for c in constants))


@pytest.mark.slow
def test_a_change_has_a_paired_test_and_intervals(tmp_path: Path) -> None:
    source, data = write_unet(tmp_path / "model", steps=120), str(write_masks(tmp_path / "data", 60, 5))
    m = es.open(source)
    m.quantize("conv2d", weight="integer(width=4)")
    summary = m.score(data).summary
    low, high = summary["intervals"]["miou"]
    assert low <= summary["miou"] <= high and summary["miou"] > summary["guessing"]
    figure = main_figure(m.evaluate(data).summary)
    assert figure is not None and not figure.low and figure.errors
    change = figure.against(main_figure(es.open(source).evaluate(data).summary) or figure)
    assert change.test == "paired t" and change.p is not None


@pytest.mark.slow
def test_training_resumes_to_equal_weights(tmp_path: Path) -> None:
    """A training that is stopped in the middle and resumed gives the metrics of an uninterrupted one."""
    data, source = str(write_masks(tmp_path / "data", 40)), write_unet(tmp_path / "model")
    whole, again = resumed(lambda: es.open(source), data)
    assert whole == again and whole["validation_miou"] is not None


@pytest.mark.slow
def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    source, data = write_unet(tmp_path / "model"), str(write_masks(tmp_path / "data", 20))
    assert main(["evaluate", source, "--data", data, "--task", "segmentation", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "segmentation" in json.dumps(found) and "miou" in json.dumps(found)
    assert main(["evaluate", source, "--data", data, "--task", "regression"]) == 2
    assert "segmentation" in capsys.readouterr().err


@pytest.mark.slow
def test_a_u_net_in_every_consumer(tmp_path: Path) -> None:
    """Training through formats and of adapters, sensitivities, allocation, a search, a sweep, the divergence."""
    source, data = write_unet(tmp_path / "model", steps=100), str(write_masks(tmp_path / "data/train", 40).parent)
    write_masks(tmp_path / "data/test", 24, 1)
    space = [{"values": "integer(width=3|8)", "select": {"by": "type", "values": ["conv2d"]}}]
    m, n, plain = es.open(source), es.open(source), es.open(source)
    m.quantize("conv2d", weight="integer(width=3)")
    before = m.score(data).summary
    m.finetune(data=data, max_steps=24, evaluate_every=12, learning_rate=3e-3)
    assert m.score(data).summary["loss"] < before["loss"]
    n.quantize("conv2d", weight="integer(width=3)").lora("conv2d", rank=2)
    n.finetune(data=data, max_steps=12, learning_rate=3e-3, distil=0.5)
    assert n.score(data).summary["loss"] < before["loss"]
    report = plain.sensitivity(data, formats=["int8", "int4"], ports=["weight"], limit=16, exact=True)
    pairs = np.array([(r["predicted"], r["measured"]) for r in report.rows])
    assert np.corrcoef(np.log(pairs.T + 1e-12))[0, 1] > 0.9
    assert (
        plain.allocate(data, budget="weight_bits<=16", formats=["int8", "float"], limit=16).summary["weight_bits"] <= 16
    )
    study = plain.search({"space": space, "goals": ["main", "kl"], "within": ["weight_bits<=20"]}, data=data, trials=3)
    assert all(0 <= row["miou"] <= 1 and row["kl"] >= 0 for row in study.rows)
    row = plain.sweep({"prune.sparsity": [0.5]}, data, recipe={"prune": {}}).rows[-1]
    assert row["interval"][0] <= row["miou"] <= row["interval"][1] and row["change"] is not None


@pytest.mark.slow
def test_the_divergence_is_that_of_pixels(tmp_path: Path) -> None:
    """KL of each pixel's softmax over the channels, mean over an image, by torch's distributions."""
    x, y = torch.rand(6, 3, SIDE, SIDE), torch.randint(0, CLASSES, (6, SIDE, SIDE))
    m, n = (es.open(write_unet(tmp_path / "model")) for _ in range(2))
    n.quantize("conv2d", weight="integer(width=4)")
    found: dict[str, torch.Tensor] = {}
    for name, model in (("before", m), ("after", n)):
        model.evaluate((x, y), metric=lambda out, _, name=name: found.setdefault(name, out.double()).sum().item())
    p, q = (torch.distributions.Categorical(logits=found[k].movedim(1, -1)) for k in ("before", "after"))
    wanted = float(torch.distributions.kl_divergence(p, q).mean())
    assert n.run("divergence", data=(x, y)).summary["kl"] == pytest.approx(wanted, rel=1e-3)


def test_the_form_describes_the_data_before_they_are_read(tmp_path: Path) -> None:
    from espalier.model.data.preview import preview

    write_masks(tmp_path / "data/train", 2)
    write_masks(tmp_path / "data/valid", 2)
    found = preview(str(tmp_path / "data"))
    assert found.splits == ("train", "validation", "all") and "images with masks" in found.description
    np.savez(tmp_path / "a.npz", x=np.zeros((2, 1, 4, 4)), y=np.zeros((2, 4, 4), int))
    assert preview(str(tmp_path / "a.npz")).splits[0] == "all"
