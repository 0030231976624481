"""No torch.export file runs code, imports a module or writes a file when it is opened."""

from __future__ import annotations

import contextlib
import json
import random
import sys
import typing
import zipfile
from pathlib import Path

import pytest
import torch

from espalier.model.errors import SourceError
from espalier.model.opening import open_any
from espalier.model.sources.pt2.expressions import check_expression
from espalier.model.sources.pt2.reading import read_program
from espalier.model.sources.pt2.rules import check_operator
from espalier.model.sources.source import load_source
from tests.attack.pt2_files import attacks, on_program, on_text, rewritten, sound

NAMES = sorted(attacks(Path("m"), "m"))
# torch does with these what they were made for; the others it refuses for another reason, or does later.
REAL = ("pickled weights", "weights of the old form", "pickled example inputs", "an expression", "an opaque object",
        "an imported enumeration")  # fmt: skip


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What an attack writes; a module beside it that writes it when imported."""
    there = tmp_path / "touched"
    (tmp_path / "foreign_module_of_the_attack.py").write_text(f"open({str(there)!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "foreign_module_of_the_attack", None)
    monkeypatch.delitem(sys.modules, "foreign_module_of_the_attack")
    return there


@pytest.mark.parametrize("name", NAMES)
def test_nothing_runs(name: str, marker: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    sound(path)
    rewritten(path, attacks(marker, "foreign_module_of_the_attack")[name])
    try:
        opened = load_source(str(path))
        opened.model(*opened.example.values())
    except SourceError as error:
        assert error.hint
    else:
        assert name == "guards"  # they are left out: the file itself is as good as without them
    assert not marker.exists()


@pytest.mark.parametrize("name", REAL)
def test_the_attacks_are_real(name: str, marker: Path, tmp_path: Path) -> None:
    """What torch.export.load makes of them: it is why it is not used."""
    path = tmp_path / "m.pt2"
    sound(path)
    rewritten(path, attacks(marker, "foreign_module_of_the_attack")[name])
    with contextlib.suppress(Exception):  # it raises what it will: the marker is what counts
        torch.export.load(path).module()
    assert marker.exists()


def test_a_sound_file_opens_as_by_torch(tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    sound(path)
    ours, theirs = read_program(path), torch.export.load(path)
    x = torch.randn(7, 4)
    assert torch.equal(ours.module()(x), theirs.module()(x))
    assert str(ours.graph) == str(theirs.graph) and ours.range_constraints == theirs.range_constraints
    assert open_any(str(path), tmp_path / "work").project.graph


def test_a_member_twice_or_compressed_is_refused(tmp_path: Path) -> None:
    """torch's reader and Python's would take different ones."""
    path = tmp_path / "m.pt2"
    sound(path)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr(archive.namelist()[0], b"x")
    with pytest.raises(SourceError, match="twice"):
        load_source(str(path))
    sound(path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(archive.namelist()[0].partition("/")[0] + "/data/weights/weight_9", bytes(1 << 20))
    with pytest.raises(SourceError, match="compressed"):
        load_source(str(path))


def test_a_weight_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    sound(path)
    rewritten(path, lambda m: m.__setitem__("data/weights/weight_0", b""))
    with pytest.raises(SourceError, match="missing"):
        load_source(str(path))
    sound(path)
    rewritten(path, lambda m: m.__setitem__("data/weights/weight_0", m["data/weights/weight_0"][:8]))
    with pytest.raises(SourceError):
        load_source(str(path))


class Bare(torch.nn.Module):
    """Without an input: its keywords stand where torch writes them into source."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(3))

    def forward(self) -> torch.Tensor:
        return self.w + 1


class Moded(torch.nn.Module):
    """With a constant text as input, which torch writes into a guard."""

    def forward(self, x: torch.Tensor, mode: str) -> torch.Tensor:
        return x + 1


def test_a_keyword_is_not_written_into_source(marker: Path, tmp_path: Path) -> None:
    path, run = tmp_path / "m.pt2", f"open({str(marker)!r}, 'w').close()"
    torch.export.save(torch.export.export(Bare(), ()), path)
    rewritten(path, attacks(marker, "foreign_module_of_the_attack")["code in a keyword of the inputs"])
    with pytest.raises(SourceError):
        load_source(str(path))
    assert not marker.exists()
    with contextlib.suppress(Exception):
        torch.export.load(path).module()
    assert marker.exists(), run


def test_a_constant_text_is_not_written_into_a_guard(marker: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    torch.export.save(torch.export.export(Moded(), (torch.ones(3), "abcq")), path)
    assert torch.equal(load_source(str(path)).model(torch.ones(3), "abcq"), torch.full((3,), 2.0))
    rewritten(path, on_text("abcq", f"a' or open('{marker}', 'w') or '"))
    with pytest.raises(SourceError, match="constant text"):
        load_source(str(path))
    assert not marker.exists()


def test_a_tensor_of_nothing_is_not_huge(tmp_path: Path) -> None:
    """Strides of 0 repeat one element: 16 bytes would become as many as there are addresses."""
    path = tmp_path / "m.pt2"
    sound(path)

    def huge(members: dict[str, bytes]) -> None:
        name = "data/weights/model_weights_config.json"
        told = json.loads(members[name])
        meta = next(iter(told["config"].values()))["tensor_meta"]
        meta["sizes"], meta["strides"] = [{"as_int": 1 << 20}, {"as_int": 1 << 20}], [{"as_int": 0}, {"as_int": 0}]
        members[name] = json.dumps(told).encode()

    rewritten(path, huge)
    with pytest.raises(SourceError, match="larger"):
        load_source(str(path))


def test_every_text_of_the_schema_has_a_rule() -> None:
    """A newer torch that adds a field with text fails here before it fails at a user's."""
    from torch._export.serde import schema

    from espalier.model.sources.pt2.rules import _BY_NAME, _RULES

    skipped = {"metadata", "guards_code"}  # of nodes: cut down to two; guards: left out
    for kind in vars(schema).values():
        if not isinstance(kind, type) or not getattr(kind, "__annotations__", None):
            continue
        if "AOTInductor" in kind.__name__ or "Payload" in kind.__name__:
            continue
        for field, told in typing.get_type_hints(kind, vars(schema)).items():
            texts = str(told).replace("dict[str,", "")
            if "str" in texts.replace("_as_string", "") and "torch." not in texts and field not in skipped:
                assert field in _RULES, (kind.__name__, field, told)
            if "dict[str" in str(told) and field not in {*skipped, "config"}:
                assert field in _BY_NAME, (kind.__name__, field)


@pytest.mark.parametrize("text", ["Symbol('s0', positive=True, integer=True)", "Mul(Integer(2), Symbol('u3'))", "4",
                                  "Pow(Symbol('s53', positive=True, integer=True), Integer(2))", "-1",
                                  "FloorDiv(Symbol('s1', integer=True), Integer(3))",
                                  "Equality(Symbol('s1'), Integer(3))", "Float('0.5', precision=53)"])  # fmt: skip
def test_expressions_of_sizes_are_read(text: str) -> None:
    check_expression(text)


@pytest.mark.parametrize("text", ["x", "s0 + 1", "Symbol('s0').__class__", "exec('1')", "lambda: 1",
                                  "Symbol(Symbol('s0'))",
                                  "Symbol('s0', key='x')", "Symbol('import os')", "[1]", "Integer('1')", "f'{1}'",
                                  "Pow(Integer(2), Integer(99999))",
                                  "Float('__import__')", "", "Pow(Integer(9), Integer(99999999999), Integer(1))",
                                  "ToFloat(1e999999999)", "Pow(Pow(Symbol('s0'), Integer(16)), Integer(16))", "Pow()",
                                  "Float('1e999')", "Symbol('u999999999')"])  # fmt: skip
def test_other_expressions_are_not(text: str) -> None:
    with pytest.raises(ValueError, match="shape expression"):
        check_expression(text)


def test_functions_of_files_are_none() -> None:
    for name in ("torch.ops.aten.linear.default", "torch.ops.aten.add.Tensor", "_operator.getitem", "torch.sym_max"):
        check_operator(name)
    for name in ("torch.ops.aten.from_file.default", "torch.ops.aten.save.default", "torch.ops.load_library",
                 "torch.hub.load", "math.__loader__", "_operator.attrgetter",
                 "torch.ops.aten._sparse_csr_tensor_unsafe.default", "torch.ops.aten.set_.source_Tensor",
                 "torch.ops.aten.__init__.default"):  # fmt: skip
        with pytest.raises(ValueError, match="no function of tensors"):
            check_operator(name)


@pytest.mark.parametrize("seed", range(40))
def test_a_mutated_file_is_one_clear_error(seed: int, tmp_path: Path) -> None:
    """Bytes that were turned over, cut or repeated, and JSON with values of another kind."""
    path, draw = tmp_path / "m.pt2", random.Random(seed)
    sound(path)
    if seed % 2:
        raw = bytearray(path.read_bytes())
        for _ in range(draw.randrange(1, 20)):
            raw[draw.randrange(len(raw))] = draw.randrange(256)
        path.write_bytes(raw[: draw.choice([len(raw), draw.randrange(len(raw))])])
    else:
        rewritten(path, on_program(lambda p: _spoil(p, draw)))
    try:
        load_source(str(path))
    except SourceError as error:
        assert error.hint


def _spoil(value: object, draw: random.Random) -> None:
    """Put a value of another kind somewhere into nested JSON."""
    while isinstance(value, dict | list) and value:
        key = draw.choice(list(value)) if isinstance(value, dict) else draw.randrange(len(value))
        if draw.random() < 0.25 or not isinstance(value[key], dict | list):
            value[key] = draw.choice([None, -1, 10**400, "x y", [], {}, {"as_int": 1 << 70}, True, [[["a"]]], 1.5])
            return
        value = value[key]
