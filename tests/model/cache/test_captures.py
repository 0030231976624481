"""A model that was captured before opens as it was, without torch; whatever is not as it was is captured anew."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from espalier.model.cache import captures as cached
from espalier.model.cache.captures import captures
from espalier.model.cache.entries import Entries
from espalier.model.document.graph_json import fingerprint
from espalier.model.opening import Opened, open_source
from espalier.model.trust import Origin

FACTORY = """
import torch
from torch import nn
from parts import width

def make():
    return nn.Sequential(nn.Linear(8, width()), nn.ReLU(), nn.Linear(width(), 3)), {"input": torch.randn(2, 8)}
"""
SMALL = "config:bert?num_hidden_layers=1&hidden_size=32&num_attention_heads=2&intermediate_size=64&vocab_size=99"
Open = Callable[..., Opened]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("ESPALIER_NO_CACHE")
    monkeypatch.setenv("ESPALIER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "captures"


@pytest.fixture
def begin(tmp_path: Path) -> Open:
    """Open a source in a folder of its own."""
    return lambda spec, *args, **kw: open_source(
        spec, tmp_path / f"work{time.monotonic_ns()}", *args, **kw, origin=Origin.TYPED
    )


@pytest.fixture
def factory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A factory with a module beside it, on files that were not written just now."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "net.py").write_text(FACTORY)
    (folder / "parts.py").write_text("def width():\n    return 16\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    sys.modules.pop("parts", None)
    time.sleep(0.05)
    return f"{folder / 'net.py'}:make"


@pytest.fixture
def plain(tmp_path: Path) -> str:
    """A factory that needs nothing else, captured in a moment."""
    text = "import torch\ndef make():\n    return torch.nn.Linear(16, 8), {'input': torch.ones(2, 16)}\n"
    (tmp_path / "plain.py").write_text(text)
    time.sleep(0.05)
    return f"{tmp_path / 'plain.py'}:make"


def from_cache(opened: Opened) -> bool:
    assert opened.capture is not None
    return opened.capture.cached_at is not None


def same(a: Opened, b: Opened) -> bool:
    keys = [w.key for w in a.project.graph.weights.values()]
    bits = all(k is None or a.store.get(k).array.tobytes() == b.store.get(k).array.tobytes() for k in keys)
    graphs = fingerprint(a.project.graph) == fingerprint(b.project.graph) and a.project.graph == b.project.graph
    return bits and graphs and a.project.source == b.project.source and a.problems == b.problems


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["demo:digits-mlp", SMALL, f"{SMALL}&weights=none"])
def test_what_was_captured_before_is_the_same_bit_for_bit(begin: Open, spec: str) -> None:
    cold, warm = begin(spec), begin(spec)
    assert not from_cache(cold) and from_cache(warm) and warm.loaded is None
    assert same(cold, warm)
    assert cold.capture and warm.capture and cold.capture.dynamic == warm.capture.dynamic


@pytest.mark.slow
def test_a_folder_is_mapped_where_it_lies(begin: Open, tmp_path: Path) -> None:
    from transformers import BertConfig, BertModel

    config = BertConfig(num_hidden_layers=1, hidden_size=32, num_attention_heads=2, intermediate_size=64, vocab_size=99)
    folder = tmp_path / "bert"
    BertModel(config).save_pretrained(folder)
    time.sleep(0.05)
    cold, warm = begin(str(folder)), begin(str(folder))
    assert from_cache(warm) and same(cold, warm)
    held = {p.path for p in warm.store.places().values()}
    assert folder / "model.safetensors" in held
    BertModel(config).save_pretrained(folder)  # other weights, of the same size
    time.sleep(0.05)
    again = begin(str(folder))
    assert not from_cache(again) and again.project.graph != cold.project.graph


def test_copied_files_of_equal_content_count_as_the_same(begin: Open, factory: str) -> None:
    begin(factory)
    file = Path(factory.rpartition(":")[0])
    text = file.read_text()
    file.unlink()
    file.write_text(text)
    assert from_cache(begin(factory))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["net.py", "parts.py"])
def test_a_changed_file_is_captured_anew(begin: Open, factory: str, name: str) -> None:
    begin(factory)
    assert from_cache(begin(factory))
    file = Path(factory.rpartition(":")[0]).with_name(name)
    file.write_text(file.read_text() + "\nOTHER = 1\n")
    assert not from_cache(begin(factory))


def test_files_that_a_factory_reads_count_too(begin: Open, tmp_path: Path) -> None:
    (tmp_path / "sizes.json").write_text("[8, 3]")
    (tmp_path / "net.py").write_text(
        "import json, torch\nfrom pathlib import Path\n"
        "def make():\n"
        "    a, b = json.loads((Path(__file__).parent / 'sizes.json').read_text())\n"
        "    return torch.nn.Linear(a, b), {'input': torch.ones(2, a)}\n"
    )
    time.sleep(0.05)
    spec = f"{tmp_path / 'net.py'}:make"
    begin(spec)
    assert from_cache(begin(spec))
    (tmp_path / "sizes.json").write_text("[8, 4]")
    again = begin(spec)
    assert not from_cache(again)
    assert (4, 8) in {w.shape for w in again.project.graph.weights.values()}


@pytest.mark.parametrize("line", ["import subprocess; subprocess.run(['true'])", "import os; os.system('true')"])
def test_what_asks_more_than_files_is_not_kept(begin: Open, tmp_path: Path, line: str) -> None:
    text = f"import torch\ndef make():\n    {line}\n    return torch.nn.Linear(4, 2), {{'input': torch.ones(2, 4)}}\n"
    (tmp_path / "net.py").write_text(text)
    time.sleep(0.05)
    for _ in range(2):
        assert not from_cache(begin(f"{tmp_path / 'net.py'}:make"))


@pytest.mark.slow
def test_another_option_or_version_is_captured_anew(begin: Open, plain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(plain)
    assert from_cache(begin(plain))
    assert not from_cache(begin(plain, ("input",)))
    other = begin(plain, (), 7)
    assert not from_cache(other) and other.project.source.seed == 7
    monkeypatch.setattr(cached, "_versions", lambda: ["9.9"])
    assert not from_cache(begin(plain))
    monkeypatch.setattr(cached, "own_code", lambda: "another")
    assert not from_cache(begin(plain))
    begin(plain)
    monkeypatch.setattr(cached, "LAYOUT", cached.LAYOUT - 1)
    assert not from_cache(begin(plain))


def test_what_runs_only_with_its_own_code_is_not_kept(begin: Open, tmp_path: Path) -> None:
    text = (
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.fc = torch.nn.Linear(4, 4)\n"
        "    def forward(self, x):\n"
        "        return self.fc(x) if float(x.sum()) > 0 else self.fc(-x)\n"
        "def make():\n    return Net(), {'x': torch.ones(2, 4)}\n"
    )
    (tmp_path / "net.py").write_text(text)
    time.sleep(0.05)
    for _ in range(2):
        opened = begin(f"{tmp_path / 'net.py'}:make")
        assert opened.callables and not from_cache(opened)


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".json", ".safetensors"])
@pytest.mark.parametrize("harm", ["flip", "cut", "empty", "gone"])
def test_a_damaged_entry_is_captured_anew(begin: Open, plain: str, cache: Path, ending: str, harm: str) -> None:
    cold = begin(plain)
    (path,) = cache.glob(f"*{ending}")
    data = path.read_bytes()
    half = len(data) // 2
    harmed = {"flip": data[:half] + bytes([data[half] ^ 1]) + data[half + 1 :], "cut": data[:half], "empty": b""}
    path.unlink()  # the model that is open keeps its own name of the file
    if harm != "gone":
        path.write_bytes(harmed[harm])
        path.chmod(0o600)
    again = begin(plain)
    assert not from_cache(again) and same(cold, again)
    assert from_cache(begin(plain))


@pytest.mark.slow
def test_what_a_stranger_could_have_written_is_not_read(begin: Open, plain: str, cache: Path) -> None:
    begin(plain)
    assert cache.stat().st_mode & 0o777 == 0o700
    assert {p.stat().st_mode & 0o777 for p in cache.iterdir()} == {0o600}
    (path,) = cache.glob("*.json")
    path.chmod(0o666)
    assert not from_cache(begin(plain))
    cache.chmod(0o777)
    assert not from_cache(begin(plain))
    cache.chmod(0o700)
    moved = cache.with_name("elsewhere")
    cache.rename(moved)
    cache.symlink_to(moved)
    assert not from_cache(begin(plain))


def test_a_full_disk_only_costs_time(begin: Open, plain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    for name in ("replace", "link"):
        monkeypatch.setattr(os, name, full)
    monkeypatch.setattr(shutil, "copyfile", full)
    assert not from_cache(begin(plain))
    assert not from_cache(begin(plain))


@pytest.mark.slow
def test_it_is_bounded_by_what_was_used_least_recently(
    begin: Open, plain: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(plain)
    each = captures().size()
    monkeypatch.setenv("ESPALIER_CACHE_SIZE", str(int(each * 2.5)))
    begin(plain, (), 1)
    old = time.time() - 100
    for path in cache.glob("*.json"):
        os.utime(path, (old, old))
    assert from_cache(begin(plain))  # used just now
    begin(plain, (), 2)
    assert captures().size() <= each * 2.5
    assert from_cache(begin(plain)) and from_cache(begin(plain, (), 2))
    assert not from_cache(begin(plain, (), 1))


def test_tensors_stay_with_an_open_model_when_the_entry_goes(begin: Open, plain: str) -> None:
    cold, warm = begin(plain), begin(plain)
    captures().clear()
    assert captures().size() == 0
    assert same(cold, warm)


def test_what_a_killed_process_left_goes(begin: Open, plain: str, cache: Path) -> None:
    begin(plain)
    part, fresh, lone = cache / "x.part", cache / "y.part", cache / "z.safetensors"
    for path in (part, fresh, lone):
        path.write_bytes(b"half")
    os.utime(part, (1, 1))
    begin(plain, (), 1)
    assert not part.exists() and fresh.exists()
    captures().clear()
    assert not lone.exists()


@pytest.mark.slow
@pytest.mark.parametrize("how", [("ESPALIER_NO_CACHE", "1"), ("ESPALIER_CACHE_SIZE", "0")])
def test_it_can_be_switched_off(
    begin: Open, plain: str, cache: Path, monkeypatch: pytest.MonkeyPatch, how: tuple[str, str]
) -> None:
    begin(plain)
    names = set(cache.iterdir())
    monkeypatch.setenv(*how)
    assert not from_cache(begin(plain)) and not from_cache(begin(plain, (), 5))
    assert set(cache.iterdir()) == names


@pytest.mark.slow
def test_two_processes_at_once_read_whole_entries_only(cache: Path) -> None:
    code = (
        "import sys\nfrom espalier.model.cache.captures import captures\n"
        "for i in range(300):\n"
        "    captures().write('k', {'body': [int(sys.argv[1])] * 5000})\n"
        "    found = captures().read('k')\n"
        "    assert found is None or len(set(found['body'])) == 1 and len(found['body']) == 5000\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(i)], env={**os.environ}) for i in range(2)]
    assert [p.wait(120) for p in running] == [0, 0]
    assert [p.name for p in cache.iterdir()] == ["k.json"]


CODE = """
import json, sys
from espalier.app.cli import main
code = main(sys.argv[1:])
print(json.dumps([code, sorted({"torch", "transformers", "PySide6"} & set(sys.modules))]), file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", ["trace", "report"])
def test_the_command_line_needs_no_torch_for_a_model_seen_before(root: Path, command: str) -> None:
    def call(*words: str) -> tuple[dict[str, object], list[object]]:
        done = subprocess.run([sys.executable, "-c", CODE, *words], capture_output=True, text=True, cwd=root)
        return json.loads(done.stdout), json.loads(done.stderr.strip().splitlines()[-1])

    cold, (_, loaded) = call(command, "demo:digits-mlp", "--json")
    assert "torch" in loaded
    warm, told = call(command, "demo:digits-mlp", "--json")
    assert told == [0, []]
    if command == "trace":
        assert cold.pop("captured_at") is None and warm.pop("captured_at") is not None
    assert warm == cold
    _, (_, loaded) = call(command, "demo:digits-mlp", "--json", "--no-cache")
    assert "torch" in loaded


def test_what_json_has_no_words_for_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A score of NaN is told, and measured again the next time."""
    monkeypatch.setenv("ESPALIER_CACHE", str(tmp_path / "cache"))
    kept = Entries("scores", 1 << 20)
    assert not kept.write("a", {"loss": float("nan")}) and kept.read("a") is None
    assert kept.write("a", {"loss": 1.5}) and kept.read("a") == {"loss": 1.5}
