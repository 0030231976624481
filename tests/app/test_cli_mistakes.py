"""Wrong calls: each ends with exit code 2 and two lines, one that says what, one that says what to do."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from espalier.app.cli import main

BERT = "config:bert?num_hidden_layers=1&hidden_size=32&num_attention_heads=2&intermediate_size=64&vocab_size=100"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Files to be wrong with, by name."""
    folder = tmp_path_factory.mktemp("mistakes")
    linear = {"name": "integr"}, {"name": "integer", "data_in_widht": 8}
    wrong = [json.dumps({"quantize_transform_pass": {"by": "type", "linear": {"config": c}}}) for c in linear]
    texts = {
        "broken.toml": "steps = [", "list.json": "[1]", "unknown.json": '{"prun": {}}',
        "key.json": '{"prune": {"sparsty": 0.5}}', "value.json": '{"prune": {"sparsity": 2}}',
        "type.json": '{"prune": {"sparsity": "half"}}', "format.json": wrong[0], "port.json": wrong[1],
        "wanda.json": '{"prune": {"method": "wanda"}}',
        "threshold.json": '{"prune_activations": {"pattern": "threshold"}}',
        "nothing.json": '{"prune": {"select": {"by": "type", "values": ["lineer"]}}}',
        "junk.espalier": "not a zip", "factory.py": "def f():\n    raise ValueError('no')\ndef g():\n    return 3\n",
        "syntax.py": "def f(:", "plain.txt": "hello", "data.csv": "a,b\n1,2\n",
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(text)
    np.save(folder / "ints.npy", np.arange(4))
    np.save(folder / "good.npy", np.ones(4, np.float32))
    np.save(folder / "objects.npy", np.array([{}, []], dtype=object), allow_pickle=True)
    np.savez(folder / "many.npz", a=np.ones(2))
    (folder / "junk.npy").write_bytes(b"\x93NUMPY\x01\x00\xff\xff")
    assert main(["trace", BERT, "-o", str(folder / "p.espalier")]) == 0
    (folder / "cut.espalier").write_bytes((folder / "p.espalier").read_bytes()[:2000])
    return {p.name: str(p) for p in folder.iterdir()} | {"folder": str(folder)}


CALLS = [
    # the command line itself
    ("trac demo:digits", "trace"),
    ("xyzzy", "Valid names"),
    ("trace", "needs SOURCE"),
    ("trace demo:digits --verfy", "'--verify'"),
    ("trace demo:digits --seed x", "--seed"),
    ("trace demo:digits more", "too many"),
    ("run demo:digits", "needs RECIPE"),
    ("export {p.espalier} --as onxn -o x", "cannot be 'onxn'"),
    ("export {p.espalier} --as recipe", "needs -o"),
    ("--frob", "--frob"),
    ("formats --apply a b", "No format is given"),
    ("demo:digits --size 10", "--size"),
    ("demo:digits --theme pink", "pink"),
    # sources and projects
    ("trace nowhere", "There is no"),
    ("trace {plain.txt}", "not a model"),
    ("trace demo:digit", "demo"),
    ("trace config:brt", "'bert'"),
    ("trace config:bert?hiden_size=3", "'hidden_size'"),
    ("trace config:bert?hidden_size=33&num_attention_heads=2", "33"),
    ("trace {folder}", "config.json"),
    ("trace {factory.py}", "function"),
    ("trace {factory.py}:h", "no function"),
    ("trace {factory.py}:f", "line 2"),
    ("trace {factory.py}:g", "int"),
    ("trace {syntax.py}:f", "not valid Python"),
    ("trace {p.espalier}", "traced already"),
    (f"trace {BERT} --inputs input_idss", "'input_ids'"),
    ("trace demo:digits -o /nowhere/x.espalier", "written"),
    ("report {junk.espalier}", "not a readable project"),
    ("report {cut.espalier}", "not a readable project"),
    ("report {folder}/gone.espalier", "no file"),
    # recipes
    ("run {p.espalier} {folder}/gone.toml", "no recipe"),
    ("run {p.espalier} {broken.toml}", "cannot be read"),
    ("run {p.espalier} {list.json}", "no table"),
    ("run {p.espalier} {unknown.json}", "'prune'"),
    ("run {p.espalier} {key.json}", "'sparsity'"),
    ("run {p.espalier} {value.json}", "from 0 to 1"),
    ("run {p.espalier} {type.json}", "a number"),
    ("run {p.espalier} {nothing.json}", "'linear'"),
    ("run nowhere {wanda.json}", "wanda scores weights on data"),  # before the model is looked for
    ("run nowhere {threshold.json}", "measured on data"),
    ("run {p.espalier} {format.json}", "'integer'"),
    ("run {p.espalier} {port.json}", "'data_in_width'"),
    # reports, data, formats, exports, plug-ins
    ("report {p.espalier} --what shape", "'shapes'"),
    ("report {p.espalier} --what ,", "names no report"),
    ("report {p.espalier} -o x.pdf", ".csv"),
    ("report {p.espalier} --what types -o /nowhere/x.csv", "written"),
    ("evaluate {p.espalier}", "no data"),
    ("evaluate {p.espalier} --data {data.csv}", "data.csv"),
    ("evaluate {p.espalier} --data demo:digits", "input"),
    ("evaluate {p.espalier} --data demo:digits --limit -3", "--limit"),
    ("formats integr", "'integer'"),
    ("formats integer(width=8", "is not a format"),
    ("formats integer(widht=8)", "'width'"),
    ("formats integer(width=99)", "from 1 to 32"),
    ("formats integer(width=32) --codes", "16"),
    ("trace config:bert?num_hidden_layers=zwei", "'zwei'"),
    ("formats integer --apply {folder}/gone.npy x.npy", "no file"),
    ("formats integer --apply {ints.npy} x.npy", "int64"),
    ("formats integer --apply {objects.npy} x.npy", "not a readable"),
    ("formats integer --apply {junk.npy} x.npy", "not a readable"),
    ("formats integer --apply {many.npz} x.npy", "several"),
    ("formats integer --apply {good.npy} x.txt", ".npy"),
    ("formats integer --apply {good.npy} /nowhere/x.npy", "written"),
    ("export {p.espalier} --as recipe -o x.yaml", ".toml"),
    ("export {p.espalier} --as safetensors -o {plain.txt}", "is a file"),
    ("export {p.espalier} --as script -o /nowhere/x.py", "written"),
    ("formats --plugin {folder}/gone.py", "no plug-in"),
    ("formats --plugin {syntax.py}", "SyntaxError"),
    ("formats --plugin {plain.txt}", "Python file"),
    ("evaluate demo:digits-mlp --baseline openned", "'openned'"),
    ("evaluate demo:digits-mlp --baseline @9", "'@9'"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("call", "part"), CALLS, ids=[c for c, _ in CALLS])
def test_two_lines_and_exit_2(
    call: str, part: str, files: dict[str, str], tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    for name, path in files.items():
        call = call.replace(f"{{{name}}}", path)
    assert main(call.split(" ")) == 2
    told = capsys.readouterr()
    lines = told.err.splitlines()
    assert not told.out and len(lines) == 2 and all(line.strip() for line in lines), told.err
    assert part in told.err and "Traceback" not in told.err
    assert not list(tmp_path.iterdir()), "something was written"


BENT = """
import torch

class Bent(torch.nn.Module):
    def forward(self, x):
        return x / 2 if x.mean() > 0 else x

def make():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10), Bent()), torch.zeros(1, 1, 8, 8)
"""


def test_a_project_whose_code_may_not_run_says_what_lets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))
    monkeypatch.setattr("espalier.model.trust._typed", set())
    code, project = tmp_path / "bent.py", str(tmp_path / "bent.espalier")
    code.write_text(BENT)
    assert main(["trace", f"{code}:make", "-o", project]) == 0
    monkeypatch.setattr("espalier.model.trust._typed", set())
    assert main(["evaluate", project, "--data", "demo:digits", "--limit", "20"]) != 0
    assert f"--trust {code}" in capsys.readouterr().err


def test_a_run_says_how_to_measure_where_only_a_step_names_data(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n\n\ndef make():\n    return torch.nn.Linear(64, 10), {'input': torch.rand(2, 64)}\n"
    )
    (tmp_path / "r.toml").write_text('[[steps]]\npass = "prune"\noptions = {data = "demo:digits"}\n')
    assert main(["run", f"{tmp_path / 'net.py'}:make", str(tmp_path / "r.toml")]) == 0
    told = capsys.readouterr()
    assert "add --data demo:digits" in told.err and "–" in told.out
