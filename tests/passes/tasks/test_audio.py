"""Classes of sounds held to transformers' losses and scikit-learn's accuracy, for every source, and bad files."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import espalier as es
from espalier.app.cli import main
from espalier.model.errors import DataError
from tests.audio_models import (
    CLASSES,
    CNN,
    LENGTH,
    RATE,
    batch_of,
    extractor,
    float_wav,
    sounds,
    wav2vec2,
    write_sounds,
    write_wav,
)
from tests.resumed_training import resumed

COUNT = 16
KEYS = ("n", "accuracy", "loss")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of sounds, and a random Wav2Vec2 with its feature extractor."""
    place = tmp_path_factory.mktemp("audio")
    write_sounds(place / "data", COUNT)
    torch.manual_seed(0)
    wav2vec2().save_pretrained(place / "model")
    extractor().save_pretrained(place / "model")
    (place / "cnn.py").write_text(CNN)
    return place


def cnn(folder: Path) -> Any:
    return es.open(f"{folder / 'cnn.py'}:make_model")


def figures(summary: dict[str, Any]) -> dict[str, float]:
    return {key: summary[key] for key in KEYS}


def ast() -> tuple[Any, Any]:
    import transformers as hf

    sizes = {"num_mel_bins": 16, "max_length": 24}
    config = hf.ASTConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
                          frequency_stride=8, time_stride=8, id2label=dict(enumerate(CLASSES)),
                          label2id={c: i for i, c in enumerate(CLASSES)}, **sizes)  # fmt: skip
    return hf.ASTForAudioClassification(config), hf.ASTFeatureExtractor(sampling_rate=RATE, **sizes)


def whisper() -> tuple[Any, Any]:
    import transformers as hf

    config = hf.WhisperConfig(
        d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=16, decoder_ffn_dim=16, vocab_size=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1, num_mel_bins=16, max_source_positions=50, classifier_proj_size=8,
        id2label=dict(enumerate(CLASSES)), label2id={c: i for i, c in enumerate(CLASSES)})  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of filters without a frequency at so low a rate
        made = hf.WhisperFeatureExtractor(feature_size=16, chunk_length=1, sampling_rate=RATE, hop_length=40)
    return hf.WhisperForAudioClassification(config), made


def hubert() -> tuple[Any, Any]:
    import transformers as hf

    own = wav2vec2().config.to_dict()
    config = hf.HubertConfig(**{k: v for k, v in own.items() if k in hf.HubertConfig().to_dict() and k != "model_type"})
    config.audio_length = LENGTH
    return hf.HubertForSequenceClassification(config), extractor()


MODELS = {"wav2vec2": lambda: (wav2vec2(), extractor()), "hubert": hubert, "ast": ast, "whisper": whisper,
          "masked": lambda: (wav2vec2(feat_extract_norm="layer"), extractor(return_attention_mask=True))}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(MODELS))
def test_the_loss_is_that_of_transformers(tmp_path: Path, kind: str) -> None:
    """Of each model with its own feature extractor, within 1e-5; the accuracy is scikit-learn's."""
    from sklearn.metrics import accuracy_score

    torch.manual_seed(1)
    model, made = MODELS[kind]()
    model.eval().save_pretrained(tmp_path / "m")
    made.save_pretrained(tmp_path / "m")
    waves, labels = sounds(COUNT)
    waves = [np.round(np.clip(w * 32768, -32768, 32767)) / 32768 for w in waves]
    if kind in ("ast", "whisper"):
        rows = [made(w.astype(np.float32), sampling_rate=RATE, return_tensors="pt") for w in waves]
        batch = {key: torch.cat([row[key] for row in rows]) for key in rows[0]} | {"labels": torch.tensor(labels)}
    else:
        batch = batch_of(waves, labels, made)
        assert ("attention_mask" in batch) == (kind == "masked")
    with torch.no_grad():
        result = model(**batch)
    m = es.open(str(tmp_path / "m"))
    summary = m.evaluate(str(write_sounds(tmp_path / "data", COUNT))).summary
    assert summary["task"] == "classification" and summary["n"] == COUNT and summary["guessing"] == 0.25
    assert summary["loss"] == pytest.approx(float(result.loss), rel=1e-5)
    assert summary["accuracy"] == pytest.approx(accuracy_score(labels, result.logits.argmax(-1)))
    m.quantize(["linear"], weight="integer(width=8)")
    m.finetune(data=str(tmp_path / "data"), max_steps=2, batch_size=4)


@pytest.mark.slow
def test_every_source_gives_the_same_score(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Split folders, 24 bits, `.npz` with a rate or of inputs, pairs, dicts, a data set, the hub and arrays."""
    import datasets

    m = es.open(str(folder / "model"))
    wanted = figures(m.evaluate(str(folder / "data")).summary)
    waves, labels = sounds(COUNT)
    for at, (samples, label) in enumerate(zip(waves, labels, strict=True)):
        write_wav(tmp_path / "split/test" / CLASSES[label] / f"{at}.WAV", np.stack([samples, samples], 1), RATE, 3)
    long = max(map(len, waves))
    padded = np.stack([np.pad(w, (0, long - len(w))) for w in waves]).astype(np.float32)
    same = figures(m.evaluate([({"array": w, "sampling_rate": RATE}, n) for w, n in zip(padded, labels, strict=True)])
                   .summary)  # fmt: skip
    np.savez(tmp_path / "rated.npz", x=padded, y=labels, rate=RATE)
    np.savez(tmp_path / "named.npz", x_test=padded[:, None], y_test=[CLASSES[n] for n in labels], rate=np.array(4e3))
    batch = batch_of(waves, labels, extractor())
    np.savez(tmp_path / "inputs.npz", x=batch["input_values"].numpy(), y=labels)
    items = [{"array": w, "sampling_rate": RATE, "path": None} for w in waves]
    rows = [{"file": "a", "audio": item, "label": n} for item, n in zip(items, labels, strict=True)]
    pairs = [(item, CLASSES[n].upper()) for item, n in zip(items, labels, strict=True)]
    files = [{"bytes": float_wav(w), "path": None} for w in waves]
    part = datasets.Dataset.from_dict({"audio": files, "label": labels}).cast_column("audio", datasets.Audio())
    part = part.cast_column("label", datasets.ClassLabel(names=list(CLASSES)))
    monkeypatch.setattr("datasets.load_dataset", lambda *args: datasets.DatasetDict({"test": part}))
    for source in (str(tmp_path / "split"), str(tmp_path / "inputs.npz"), "hub:someone/sounds", rows, pairs,
                   {"test": pairs}, (batch["input_values"], torch.tensor(labels))):  # fmt: skip
        found = figures(m.evaluate(source).summary)
        assert found == pytest.approx(wanted, rel=2e-3), str(source)[:60]
    for name in ("rated.npz", "named.npz"):
        assert figures(m.evaluate(str(tmp_path / name)).summary) == pytest.approx(same, rel=1e-6), name


@pytest.mark.slow
def test_conversions_are_said_and_done(folder: Path, tmp_path: Path) -> None:
    """Stereo files of another rate score as their mean that is resampled with SciPy and given as arrays."""
    from scipy.signal import resample_poly

    m = es.open(str(folder / "model"))
    waves, labels = sounds(COUNT, 3, rate=6_000)
    rng, expected = np.random.default_rng(0), list[Any]()
    for at, (samples, label) in enumerate(zip(waves, labels, strict=True)):
        both = np.clip(np.stack([samples, samples * rng.uniform(0, 1)], 1), -1, 1)
        write_wav(tmp_path / "d" / CLASSES[label] / f"{at:02}.wav", both, 6_000, 4)
        expected.append(resample_poly(both.mean(1), 2, 3))
    found = m.evaluate(str(tmp_path / "d")).summary
    with torch.no_grad():
        model = type(wav2vec2()).from_pretrained(folder / "model")
        loss = model(**batch_of(expected, labels, extractor())).loss
    assert found["loss"] == pytest.approx(float(loss), rel=1e-5)
    cut = sum(len(w) > LENGTH for w in expected)
    for said in ("16 of 16 sounds are mixed down from 2 channels to one.",
                 "16 of 16 sounds are resampled to 4,000 Hz, the first from 6,000.",
                 f"{cut} of 16 sounds are cut to 0.2 s (800 samples); the longest has",
                 f"{16 - cut} of 16 sounds are padded with zeros to 0.2 s (800 samples)."):  # fmt: skip
        assert said in found["warning"]


def test_conversions_are_counted_of_the_measured_split(folder: Path, tmp_path: Path) -> None:
    """A score names the sounds of its split, a training those that it trains on, a joined split all of them."""
    for split, count in (("train", 12), ("test", 8)):
        for at, (samples, label) in enumerate(zip(*sounds(count, 5), strict=True)):
            long = np.concatenate([samples] * (8 if split == "train" else 1))[: 4 * LENGTH]
            write_wav(tmp_path / split / CLASSES[label] / f"{at:02}.wav", np.stack([long] * 2, 1))
    m = cnn(folder)
    assert "8 of 8 sounds are mixed down" in m.evaluate(str(tmp_path)).summary["warning"]
    assert "12 of 12 sounds are cut" not in m.evaluate(str(tmp_path)).summary["warning"]
    trained = m.evaluate(str(tmp_path), split="train").summary["warning"]
    assert "12 of 12 sounds are mixed down" in trained and "12 of 12 sounds are cut" in trained
    assert "20 of 20 sounds are mixed down" in m.evaluate(str(tmp_path), split="all").summary["warning"]


def test_a_students_own_network(folder: Path, tmp_path: Path) -> None:
    """Of one channel, without a rate: waveforms as they are, by torch's own cross-entropy."""
    m = cnn(folder)
    summary = m.evaluate(str(folder / "data")).summary
    waves, labels = sounds(COUNT)
    x = np.zeros((COUNT, 1, LENGTH), np.float32)
    for at, samples in enumerate(waves):
        x[at, 0, : len(samples)] = np.round(samples[:LENGTH] * 32768) / 32768
    namespace: dict[str, Any] = {}
    exec(CNN, namespace)
    net = namespace["make_model"]()[0].eval()
    with torch.no_grad():
        scores = net(torch.from_numpy(x))
    loss = torch.nn.functional.cross_entropy(scores, torch.tensor(labels))
    assert summary["loss"] == pytest.approx(float(loss), rel=1e-5)
    assert "names no sampling rate; that of the sounds is 4,000 Hz" in summary["warning"]
    other = write_sounds(tmp_path / "d", COUNT)
    write_wav(other / "rise/0002.wav", waves[2], 8_000)
    with pytest.raises(DataError, match=r"differ in their sampling rate: fall/\d+\.wav has 4,000 Hz, rise/0002.*8,000"):
        m.evaluate(str(other))
    assert m.evaluate(str(other), tokenizer=str(folder / "model")).summary["n"] == COUNT


@pytest.mark.slow
def test_an_own_network_of_spectrograms(folder: Path, tmp_path: Path) -> None:
    """It takes the features of the extractor that --tokenizer names, with an axis of one channel; else it says so."""
    made = ast()[1]
    made.save_pretrained(tmp_path / "fe")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(1232, 4))
    m = es.trace(net, {"input": torch.randn(2, 1, 24, 16)})
    with pytest.raises(DataError, match=r"takes 1 × 24 × 16 values a sample, not a waveform"):
        m.evaluate(str(folder / "data"))
    found = m.evaluate(str(folder / "data"), tokenizer=str(tmp_path / "fe")).summary
    waves, labels = sounds(COUNT)
    features = np.stack([made(np.float32(np.round(w * 32768) / 32768), sampling_rate=RATE, return_tensors="np")
                         ["input_values"] for w in waves])  # fmt: skip
    with torch.no_grad():
        loss = torch.nn.functional.cross_entropy(net(torch.from_numpy(features)), torch.tensor(labels))
    assert found["loss"] == pytest.approx(float(loss), rel=1e-5)
    wrong = es.trace(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(40, 4)), {"input": torch.randn(2, 5, 8)})
    with pytest.raises(DataError, match=r"features of data are 24 × 16, the model takes 5 × 8"):
        wrong.evaluate(str(folder / "data"), tokenizer=str(tmp_path / "fe"))


def spoil(data: Path, kind: str) -> None:
    path = data / "rise/0002.wav"
    if kind == "empty":
        path.write_bytes(b"")
    if kind == "cut":
        path.write_bytes(path.read_bytes()[:-9])
    if kind == "text":
        path.write_text("no sound")
    if kind == "silent":
        write_wav(path, np.zeros(0))
    if kind == "mixed":
        (data / "rise/a.png").write_bytes(b"")
    if kind == "one":
        for sub in ("fall", "tone", "noise"):
            for file in (data / sub).iterdir():
                file.unlink()
    if kind == "foreign":
        (data / "rise").rename(data / "glide")


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("empty", r"rise/0002\.wav is not a readable WAV file: it is empty"),
        ("cut", r"rise/0002\.wav is not a readable WAV file: it is cut"),
        ("text", r"rise/0002\.wav is not a readable WAV file: it is no WAV file"),
        ("silent", r"rise/0002\.wav holds no samples"),
        ("mixed", r"mixes images and sounds"),
        ("one", r"have the label 'rise'; classes need two"),
        ("foreign", r"'glide' is none of the model's classes"),
    ],
)
@pytest.mark.slow
def test_bad_files_are_one_error_that_names_them(
    folder: Path, tmp_path: Path, kind: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    m = es.open(str(folder / "model"))
    data = write_sounds(tmp_path / "data", COUNT)
    spoil(data, kind)
    with pytest.raises(DataError, match=told):
        m.evaluate(str(data))
    with pytest.raises(DataError, match=told):
        m.finetune(data=str(data), max_steps=1)
    if kind == "cut":
        assert main(["evaluate", str(folder / "model"), "--data", str(data)]) == 2
        assert "it is cut" in capsys.readouterr().err


def test_arrays_of_files(folder: Path, tmp_path: Path) -> None:
    """Numbers are class numbers, also where some are missing; other shapes and kinds are one error."""
    m = cnn(folder)
    x, y = np.random.default_rng(0).normal(size=(12, 1, LENGTH)).astype(np.float32), np.array([1, 3] * 6)
    np.savez(tmp_path / "a.npz", x=x, y=y)
    by_file, by_array = m.evaluate(str(tmp_path / "a.npz")).summary, m.evaluate((x, y)).summary
    assert figures(by_file) == pytest.approx(figures(by_array)) and by_file["guessing"] == 0.5
    assert m.run("data", data=str(tmp_path / "a.npz")).summary["kind"] == "array"
    cases = {
        "shape": ({"x": x[:, :, :-1], "y": y}, r"samples of shape\.npz are 1 × 799; the model takes 1 × 800"),
        "count": ({"x": x, "y": y[:-1]}, r"x and y of count\.npz are"),
        "fractions": ({"x": x, "y": y + 0.5}, "holds fractions"),
        "sets": ({"x": x, "y": np.eye(4)[y]}, r"holds lists|multi-label|labels of the task"),
        "rate": ({"x": x, "y": y, "rate": "fast"}, "no number of samples a second"),
        "slow": ({"x": x, "y": y, "rate": 8}, "sampling rate 8 Hz"),
        "grids": ({"x": x[..., None], "y": y, "rate": 8_000}, "no waveforms"),
    }
    for name, (arrays, told) in cases.items():
        np.savez(tmp_path / f"{name}.npz", **arrays)
        with pytest.raises(DataError, match=told):
            m.evaluate(str(tmp_path / f"{name}.npz"), task="classification")


def test_bad_python_sounds(folder: Path) -> None:
    m = cnn(folder)
    good = ({"array": np.zeros(9), "sampling_rate": RATE}, 0)
    with pytest.raises(DataError, match="3 axes"):
        m.evaluate([good, ({"array": np.zeros((2, 3, 4)), "sampling_rate": RATE}, 1)])
    with pytest.raises(DataError, match="Sample 1 is no sound"):
        m.evaluate([good, (np.zeros(9), 1)])
    with pytest.raises(DataError, match=r"20,000,000 is no class number"):
        m.evaluate([good, ({"array": np.zeros(9), "sampling_rate": RATE}, 20_000_000)])
    with pytest.raises(DataError, match=r"multi-label|lists"):
        m.evaluate([good, ({"array": np.zeros(9), "sampling_rate": RATE}, [0, 1])])
    named = m.evaluate([good, ({"array": np.zeros(9), "sampling_rate": RATE}, "--5")])
    assert named.summary["n"] == 2, "'--5' is a name, not a number"
    with pytest.raises(DataError, match="sampling rate 0 Hz"):
        m.evaluate([({"array": np.zeros(9), "sampling_rate": 0}, 0)])


@pytest.mark.parametrize("form", ["names", "lists", "arrays"])
def test_sets_of_classes_in_python(form: str, folder: Path) -> None:
    """As rows of zeros and ones in an .npz file, whose loss is torch's."""
    random = np.random.default_rng(3)
    rows = (random.random((9, 4)) > 0.5).astype(int)
    rows[0] = 1  # each class has a sample
    x = random.standard_normal((9, 9)).astype(np.float32)
    sets: dict[str, list[Any]] = {
        "names": [[f"c{at}" for at in np.flatnonzero(row)] for row in rows], "lists": rows.tolist(), "arrays": [*rows],
    }  # fmt: skip
    data = [({"array": a, "sampling_rate": RATE}, y) for a, y in zip(x, sets[form], strict=True)]
    m = cnn(folder)
    found = m.evaluate(data, task="multi-label")
    assert found.summary["n"] == 9
    shape = tuple(m.graph.placeholders[0].out.shape[1:-1])
    padded = torch.nn.functional.pad(torch.from_numpy(x), (0, LENGTH - 9)).reshape(9, *shape, LENGTH)
    with torch.no_grad():
        logits = m.to_torch()(padded)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, torch.from_numpy(rows).float())
    assert found.summary["loss"] == pytest.approx(float(loss), rel=1e-5)


@pytest.mark.slow
def test_sounds_for_other_models_and_other_data_for_sounds(folder: Path, tmp_path: Path) -> None:
    text = es.open("demo:reviews")
    with pytest.raises(DataError, match=r"The model needs the input|cannot take"):
        text.evaluate(str(folder / "data"))
    with pytest.raises(DataError, match=r"cannot take|takes|needs"):
        es.open("demo:digits").evaluate(str(folder / "data"))
    (tmp_path / "t.csv").write_text("text,label\n" + "".join(f"a {n},{n % 2}\n" for n in range(20)))
    with pytest.raises(DataError, match="okenizer"):
        es.open(str(folder / "model")).evaluate(str(tmp_path / "t.csv"))
    (tmp_path / "fe").mkdir()
    (tmp_path / "fe/preprocessor_config.json").write_text('{"sampling_rate": 16000, "feature_extractor_type": "Odd"}')
    with pytest.raises(DataError, match="feature extractor of fe cannot be loaded"):
        cnn(folder).evaluate(str(folder / "data"), tokenizer=str(tmp_path / "fe"))


@pytest.mark.slow
def test_configurations_are_captured(tmp_path: Path) -> None:
    sizes = ("hidden_size=16&num_hidden_layers=1&num_attention_heads=2&intermediate_size=16&conv_dim=[8,8]"
             "&conv_stride=[4,4]&conv_kernel=[9,5]&num_feat_extract_layers=2&num_conv_pos_embeddings=4"
             "&num_conv_pos_embedding_groups=2&classifier_proj_size=8&num_labels=3")  # fmt: skip
    m = es.open(f"config:wav2vec2?{sizes}&audio_length=900&task=audio-classification")
    assert m._graph.placeholders[0].out is not None and m._graph.placeholders[0].out.shape[1] == 900
    x, y = torch.randn(6, 900), torch.tensor([0, 1, 2] * 2)
    assert m.evaluate((x, y)).summary["n"] == 6


@pytest.mark.slow
def test_saved_models_keep_their_extractor_and_length(folder: Path, tmp_path: Path) -> None:
    """A checkpoint that is written scores as the model, on sounds as files."""
    m = es.open(str(folder / "model"))
    m.quantize("linear", weight="integer(width=5)")
    wanted = m.evaluate(str(folder / "data")).summary
    m.export("safetensors", tmp_path / "out")
    assert json.loads((tmp_path / "out/config.json").read_text())["audio_length"] == LENGTH
    assert figures(es.open(str(tmp_path / "out")).evaluate(str(folder / "data")).summary) == pytest.approx(
        figures(wanted), rel=1e-5
    )


@pytest.mark.slow
def test_training_resumes_to_equal_weights(folder: Path, tmp_path: Path) -> None:
    data = str(write_sounds(tmp_path / "data", 40))
    whole, again = resumed(lambda: es.open(str(folder / "model")), data)
    assert whole == again


def test_samples_are_shown_as_pictures(folder: Path) -> None:
    """A waveform in 64 columns: a loud half is taller than a quiet one; a spectrogram in grey."""
    from espalier.model.data.base import Split
    from espalier.passes.analysis.data_rows import _curves

    wave = np.concatenate([np.full(400, 0.05), np.full(401, -1.0)]).astype(np.float32)[None]
    height, width, channels, data = _curves(Split({"x": wave}, np.zeros(1, np.int64)), np.array([0]))[0]
    pixels = np.frombuffer(data, np.uint8).reshape(height, width)
    assert (height, width, channels) == (32, 64, 1)
    assert pixels[:, 5].argmin() in (14, 15, 16) and pixels[-1, 60] == 40 and pixels[0].min() == 255
    grid = Split({"x": np.random.default_rng(0).normal(size=(1, 200, 8))}, np.zeros(1, np.int64))
    assert _curves(grid, np.array([0]))[0][:3] == (8, 50, 1)
