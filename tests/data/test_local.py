"""The user's files and folders: every kind and layout reads alike, and every mistake gets a message and a hint."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from espalier.model.data.loading import load_data
from espalier.model.data.local import find
from espalier.model.data.preview import preview
from espalier.model.errors import DataError

RECORDS = [{"text": f"the plot was number {n}", "label": n % 2} for n in range(40)]


def _write(path: Path) -> Path:
    import pandas

    frame = pandas.DataFrame(RECORDS)
    match path.suffix:
        case ".csv":
            frame.to_csv(path, index=False)
        case ".tsv":
            frame.to_csv(path, index=False, sep="\t")
        case ".json":
            path.write_text(json.dumps(RECORDS), encoding="utf-8")
        case ".parquet":
            frame.to_parquet(path)
        case _:
            path.write_text("\n".join(map(json.dumps, RECORDS)), encoding="utf-8")
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".json", ".jsonl", ".parquet"])
def test_every_kind_of_file_reads_alike(tmp_path: Path, tokenizer: Path, suffix: str) -> None:
    data = load_data(str(_write(tmp_path / f"rows{suffix}")), tokenizer=tokenizer)
    assert data.classes == ("0", "1") and data.kind == "text"
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 32, "validation": 4, "test": 4}
    wanted = {row["text"]: row["label"] for row in RECORDS}
    read = {t: y for s in data.splits for t, y in zip(data.texts[s], data.splits[s].labels.tolist(), strict=True)}
    assert read == wanted


def test_the_seed_decides_how_a_lone_file_is_split(csv_file: Path, tokenizer: Path) -> None:
    texts = [load_data(str(csv_file), tokenizer=tokenizer, seed=seed).texts["test"] for seed in (0, 0, 1)]
    assert texts[0] == texts[1] != texts[2]


def test_a_lone_file_can_stay_whole(csv_file: Path, tokenizer: Path, tmp_path: Path) -> None:
    data = load_data(str(csv_file), tokenizer=tokenizer, whole=True)
    parts = load_data(str(csv_file), tokenizer=tokenizer)
    assert list(data.splits) == ["all"] and len(data.split("all")) == 40
    assert sorted(data.texts["all"]) == sorted(t for rows in parts.texts.values() for t in rows)
    (tmp_path / "few.csv").write_text("text,label\ngood,1\nbad,0\n")
    assert len(load_data(str(tmp_path / "few.csv"), tokenizer=tokenizer, whole=True).split("all")) == 2


def test_all_of_named_splits_is_their_rows_padded_alike(tmp_path: Path, tokenizer: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\na very long good text,1\nbad,0\n")
    (tmp_path / "test.csv").write_text("text,label\nbad,0\n")
    data = load_data(str(tmp_path), tokenizer=tokenizer, whole=True)
    assert set(data.splits) == {"train", "test"}, "named splits are kept"
    every, ids, mask = data.split("all"), "input_ids", "attention_mask"
    assert every.inputs[ids].shape == (3, data.split("train").inputs[ids].shape[1])
    length = data.split("test").inputs[ids].shape[1]
    assert (every.inputs[ids][2, :length] == data.split("test").inputs[ids][0]).all()
    assert not every.inputs[mask][2, length:].any()
    with pytest.raises(DataError, match="no split 'tset'") as caught:
        data.split("tset")
    assert "train, test, all" in caught.value.hint


def test_folder_of_split_files(tmp_path: Path, tokenizer: Path) -> None:
    for name in ("train-00000-of-00002", "train-00001-of-00002", "dev", "test"):
        _write(tmp_path / f"{name}.jsonl")
    (tmp_path / "README.md").write_text("not data")
    data = load_data(str(tmp_path), tokenizer=tokenizer)
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 80, "validation": 40, "test": 40}


@pytest.mark.parametrize("splits", [("",), ("train", "test")])
def test_folder_of_classes(tmp_path: Path, tokenizer: Path, splits: tuple[str, ...]) -> None:
    for split in splits:
        for name in ("pos", "neg", "unsup"):
            (tmp_path / split / name).mkdir(parents=True)
            for number in range(10):
                (tmp_path / split / name / f"{number}.txt").write_text(f"{name} {number}", encoding="utf-8")
    data = load_data(str(tmp_path), tokenizer=tokenizer)
    assert data.classes == ("neg", "pos")
    assert set(data.splits) == ({"train", "validation", "test"} if splits == ("",) else {"train", "test"})
    for name, split in data.splits.items():
        assert [data.classes[y] for y in split.labels] == [text.split()[0] for text in data.texts[name]]


def test_a_file_sorted_by_class_still_gives_both_under_a_limit(tmp_path: Path, tokenizer: Path) -> None:
    lines = [f"text {n}\t{int(n >= 50)}" for n in range(100)]
    (tmp_path / "train.tsv").write_text("\n".join(lines), encoding="utf-8")
    data = load_data(str(tmp_path), tokenizer=tokenizer, limit=20)
    assert 3 < int(data.split("train").labels.sum()) < 17


def test_named_columns_and_string_labels(tmp_path: Path, tokenizer: Path) -> None:
    rows = "\n".join(f"id{n},what a {n} book,{'great' if n % 3 else 'awful'}" for n in range(30))
    path = tmp_path / "rows.csv"
    path.write_text(f"key,opinion,verdict\n{rows}\n", encoding="utf-8-sig")
    data = load_data(str(path), tokenizer=tokenizer, text="Opinion", label="verdict")
    assert data.classes == ("awful", "great") and data.texts["test"][0].startswith("what a")


def test_numeric_labels_keep_their_order(tmp_path: Path, tokenizer: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("text,label\n" + "".join(f"t {n},{(n % 11) + 1}.0\n" for n in range(40)), encoding="utf-8")
    assert load_data(str(path), tokenizer=tokenizer).classes == tuple(str(n) for n in range(1, 12))


def test_without_header_columns_go_by_position(tmp_path: Path, tokenizer: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("".join(f"the plot was number {n}\t{n % 2}\n" for n in range(40)), encoding="utf-8")
    assert sum(map(len, load_data(str(path), tokenizer=tokenizer).texts.values())) == 40
    turned = "".join(f'{n % 2}\tnumber {n} says "so\n' for n in range(20))
    path.write_text(turned, encoding="utf-8")
    data = load_data(str(path), tokenizer=tokenizer, text="1", label="0")
    assert sum(map(len, data.texts.values())) == 20 and '"so' in data.texts["test"][0]


def test_na_and_null_are_words(tmp_path: Path, tokenizer: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("text,label\n" + "NA,a\nnull,b\n" * 10, encoding="utf-8")
    assert set(load_data(str(path), tokenizer=tokenizer).texts["train"]) == {"NA", "null"}


BAD: dict[str, tuple[str, bytes, str]] = {
    "empty": ("rows.csv", b"", "empty"),
    "header only": ("rows.csv", b"text,label\n", "no rows"),
    "ragged": ("rows.csv", b"text,label\na,0\nb,1,2,3\n", "has 4 fields in line 3"),
    "latin 1": ("rows.csv", "text,label\ncaf\u00e9,0\n".encode("latin-1"), "UTF-8"),
    "utf-16": ("rows.csv", "text,label\ncaf\u00e9,0\n".encode("utf-16"), "is UTF-16"),
    "utf-16 unmarked": ("rows.csv", "text,label\na,0\nb,1\n".encode("utf-16-be"), "is UTF-16"),
    "one class": ("rows.csv", b"text,label\n" + b"a,1\nb,1\n" * 10, "classes need two"),
    "blank text": ("rows.csv", b"text,label\n,0\n" + b"a,0\nb,1\n" * 10, r"1 of 21 rows.*row 1"),
    "null text": ("rows.jsonl", b'{"text": null, "label": 0}\n' + b'{"text": "a", "label": 1}\n' * 20, "have no text"),
    "no label": ("rows.csv", b"text,label\nx,\n" + b"a,0\nb,1\n" * 10, "have no label"),
    "too few": ("rows.csv", b"text,label\na,0\nb,1\n", "too few"),
    "no classes": ("rows.csv", b"text,label\n" + b"".join(b"t,%d\n" % n for n in range(40)), "too many for classes"),
    "numbers": ("rows.csv", b"text,label\n" + b"1.5,0\n2.5,1\n" * 20, "holds numbers"),
    "no json": ("rows.json", b"[{nonsense", "cannot be read"),
    "no parquet": ("rows.parquet", b"nonsense", "cannot be read"),
    "other kind": ("rows.xlsx", b"PK", "not a supported data file"),
    "one name twice": ("rows.csv", b"text,text,label\n" + b"a,x,0\nb,y,1\n" * 10, "have the same name"),
    "one column": ("rows.csv", b"text\na\nb\n", "looks like the label"),
    "nested": ("rows.json", b'{"data": [{"text": "a", "label": 1}]}', "looks like the text"),
    "same column": ("rows.csv", b"text,other\n" + b"a,0\nb,1\n" * 10, "looks like the label"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_get_a_message_and_a_hint(tmp_path: Path, tokenizer: Path, case: str) -> None:
    name, content, message = BAD[case]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as error:
        load_data(str(tmp_path / name), tokenizer=tokenizer)
    assert error.value.hint and "\n" not in error.value.message


@pytest.mark.parametrize(
    ("codec", "named"), [("utf-16", "utf-16"), ("utf-16-le", "utf-16le"), ("utf-16-be", "utf-16be")]
)
def test_the_hint_for_utf_16_names_what_iconv_needs(tmp_path: Path, tokenizer: Path, codec: str, named: str) -> None:
    (tmp_path / "rows.csv").write_bytes("text,label\ngood,1\n".encode(codec))
    for read in (lambda p: load_data(p, tokenizer=tokenizer), preview):
        with pytest.raises(DataError) as error:
            read(str(tmp_path / "rows.csv"))
        assert f"iconv -f {named} -t utf-8" in error.value.hint


@pytest.mark.parametrize("content", ["", "text,label\n"])
def test_an_empty_split_is_told_only_where_it_is_asked_for(tmp_path: Path, tokenizer: Path, content: str) -> None:
    (tmp_path / "train.csv").write_text("text,label\ngood,1\nbad,0\n")
    (tmp_path / "test.csv").write_text(content)
    for _ in range(2):  # read, then from the cache
        data = load_data(str(tmp_path), tokenizer=tokenizer)
        assert len(data.split("train")) == 2 == len(data.split("all"))
        with pytest.raises(DataError, match=r"test\.csv holds no rows") as error:
            data.split("test")
        assert "train" in error.value.hint
    assert preview(str(tmp_path)).columns == ("text", "label")


@pytest.mark.parametrize(
    ("suffix", "mark", "line", "counts"), [("csv", ",", 4, (2, 3)), ("csv", ";", 3, (3, 5)), ("tsv", "\t", 2, (2, 4))]
)
def test_a_line_with_more_fields_is_named(
    suffix: str, mark: str, line: int, counts: tuple[int, int], tmp_path: Path, tokenizer: Path
) -> None:
    lines = [mark.join(f"cell {i}" for i in range(counts[0]))] * (line - 1)
    path = tmp_path / f"ragged.{suffix}"
    path.write_text("\n".join([*lines, mark.join(f"cell {i}" for i in range(counts[1]))]) + "\n")
    with pytest.raises(
        DataError, match=rf"has {counts[1]} fields in line {line}, and {counts[0]} in the lines"
    ) as error:
        load_data(str(path), tokenizer=tokenizer)
    assert "quotation marks" in error.value.hint


def test_a_missing_column_names_the_nearest(csv_file: Path, tokenizer: Path) -> None:
    with pytest.raises(DataError, match="'lable'") as error:
        load_data(str(csv_file), tokenizer=tokenizer, label="lable")
    assert "text, label" in error.value.hint and "'label'?" in error.value.hint


@pytest.mark.parametrize("folder", ["nothing", "mixed", "two tables"])
def test_bad_folders(tmp_path: Path, tokenizer: Path, folder: str) -> None:
    if folder == "mixed":
        for name in ("a/1.txt", "b/1.png"):
            (tmp_path / name).parent.mkdir()
            (tmp_path / name).write_text("x")
    if folder == "two tables":
        _write(tmp_path / "one.csv")
        _write(tmp_path / "two.csv")
    with pytest.raises(DataError) as error:
        load_data(str(tmp_path), tokenizer=tokenizer)
    assert error.value.hint


def test_texts_need_a_tokenizer(csv_file: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        load_data(str(csv_file))
    assert "--tokenizer" in error.value.hint
    with pytest.raises(DataError, match="no readable tokenizer"):
        load_data(str(csv_file), tokenizer=tmp_path)


def test_inputs_are_cut_and_padded(csv_file: Path, tokenizer: Path) -> None:
    split = load_data(str(csv_file), tokenizer=tokenizer, max_length=6).split("train")
    assert split.inputs["input_ids"].shape == (32, 6) and split.inputs["attention_mask"].dtype == np.int64


def test_a_relative_path_says_from_where_it_was_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe that was written in another folder names its data from there."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=f"no data at reviews, relative to {re.escape(str(tmp_path))}"):
        find(Path("reviews"))
    with pytest.raises(DataError, match=f"no data at {re.escape(str(tmp_path / 'reviews'))}\\."):
        find(tmp_path / "reviews")


def test_an_unknown_prefix_may_be_of_a_plugin() -> None:
    with pytest.raises(DataError, match="no data at wave:none") as found:
        load_data("wave:none.csv")
    assert found.value.hint.startswith("If a plug-in reads wave: data, load it first (--plugin FILE.py).")
    with pytest.raises(DataError) as found:
        load_data("none.csv")
    assert "plug-in" not in found.value.hint
