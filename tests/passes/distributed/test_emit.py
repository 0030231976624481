"""Emitted folders run by torchrun where Espalier cannot be imported, and compute what the model does in one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from espalier.model.document.project import Project
from espalier.model.document.recipe import Raw, Step
from espalier.model.errors import ExportError, PassError
from espalier.model.opening import Opened, open_any
from espalier.model.trust import Origin
from espalier.passes.base import Context, run_step
from espalier.passes.export.sharded.folder import FILES, Emitted, emit_sharded
from tests.passes.distributed import models

MODELS = Path(__file__).with_name("models.py")
SCALED = "mxint(width=8, block=8)"
QUANTISED = ("quantize", {"rules": [{"select": {"by": "type", "values": ["linear"]},
                                     "formats": {"weight": SCALED}}]})  # fmt: skip
ROUNDED = ("quantize", {"rules": [{"select": {"by": "type", "values": ["linear"]},
                                   "formats": {"data_in": "integer(width=8, frac_width=5)"}}]})  # fmt: skip
PRUNED = ("prune", {"sparsity": 0.5})
Steps = tuple[tuple[str, dict[str, Any]], ...]
CASES: dict[str, tuple[str, Steps]] = {
    "columns": ("llama", (QUANTISED, PRUNED, ("shard", {"mesh": "1x2", "strategy": "megatron"}))),
    "samples": ("llama", (("shard", {"mesh": "2", "strategy": "data"}),)),
    "stored": ("llama", (("shard", {"mesh": "2", "strategy": "fsdp"}),)),
    "fused": ("gpt2", (("shard", {"mesh": "2", "strategy": "megatron"}),)),
}
OWN: Steps = (QUANTISED, PRUNED, ROUNDED, ("shard", {"mesh": "1x2", "strategy": "megatron"}))
DRIVER = """\
import runpy, sys
import torch.distributed as dist

dist.init_process_group("gloo")
end, dist.destroy_process_group = dist.destroy_process_group, lambda: None
for folder in sys.argv[1:]:
    if not folder.endswith("/own"):
        sys.modules["espalier"] = None  # any import of it fails
    sys.argv = ["run.py", "--batch", "4", "--output", folder + ".safetensors"]
    runpy.run_path(folder + "/run.py", run_name="__main__")
    dist.barrier()
end()
"""


@cache
def _opened(name: str) -> Opened:
    return open_any(f"{MODELS}:{name}", Path(tempfile.mkdtemp()), cached=False, origin=Origin.TYPED)


def _project(name: str, steps: Steps) -> tuple[Project, Context]:
    opened = _opened(name)
    context = Context(opened.store, callables=opened.callables, base=opened.project.base)
    graph = opened.project.graph
    for kind, options in steps:
        graph = run_step(graph, Step(kind, Raw(options), 0), context).graph
    return replace(opened.project, graph=graph), context


def _emit(name: str, steps: Steps, folder: Path) -> Emitted:
    project, context = _project(name, steps)
    return emit_sharded(project, context.store, folder, {"strategy": steps[-1][1]["strategy"], "device": "cpu"})


def _clean(folder: Path) -> dict[str, str]:
    """An environment without this project, whose Python also refuses an installed Espalier."""
    (folder / "sitecustomize.py").write_text("import sys\nsys.modules['espalier'] = None\n")
    path = os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"])
    given = {"PATH": path, "PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1"}
    return given | {"PYTHONWARNINGS": "ignore", "HOME": str(folder), "GLOO_SOCKET_IFNAME": "lo"}


def _run(command: list[str], folder: Path, paths: Sequence[str] = ()) -> str:
    given = _clean(folder)
    if paths:  # the driver itself refuses Espalier
        given["PYTHONPATH"] = os.pathsep.join(paths)
    done = subprocess.run(command, env=given, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert not done.returncode, done.stderr[-6000:]
    return done.stdout


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """All cases, emitted and run by one process group."""
    root, elsewhere = tmp_path_factory.mktemp("emitted"), tmp_path_factory.mktemp("elsewhere")
    for name, (model, steps) in CASES.items():
        _emit(model, steps, root / name)
    _emit("writer", OWN, root / "own")
    (elsewhere / "driver.py").write_text(DRIVER)
    torchrun = ["torchrun", "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2"]
    _run([*torchrun, str(elsewhere / "driver.py"), str(root / "own"), *(str(root / n) for n in CASES)],
         elsewhere, [*sys.path])  # fmt: skip
    yield root
    _opened.cache_clear()


@pytest.mark.slow
def test_a_network_of_the_user_runs_with_espalier(folders: Path) -> None:
    import torch
    from safetensors.torch import load_file

    from espalier.model.torch.build import build

    found = load_file(folders / "own.safetensors")
    logits = found.pop("logits")
    project, context = _project("writer", OWN)
    with torch.no_grad():
        expected: Any = build(project.graph, context.store)(**found)
    assert float((logits - expected).abs().max()) <= 1e-5
    assert "imports Espalier" in (folders / "own" / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_logits_equal_those_of_one_process(name: str, folders: Path) -> None:
    import torch
    from safetensors.torch import load_file

    from espalier.model.torch.build import build

    found = load_file(folders / f"{name}.safetensors")
    logits = found.pop("logits")
    model, steps = CASES[name]
    if len(steps) > 1:
        project, context = _project(model, steps)
        whole: Any = build(project.graph, context.store)
    else:
        whole = getattr(models, model)()[0]
    with torch.no_grad():
        expected = whole(**found)
    expected = expected["logits"] if isinstance(expected, dict) else expected[0]
    assert logits.shape == expected.shape
    assert float((logits - expected).abs().max()) <= 1e-5


@pytest.mark.parametrize("name", ["columns", "stored", "fused"])
def test_the_files_alone_add_up_to_the_parameters(name: str, folders: Path) -> None:
    import torch
    from safetensors import safe_open

    from espalier.passes.export.effective_weights import effective_weights

    parts: dict[str, list[tuple[list[int], Any]]] = defaultdict(list)
    files = sorted((folders / name / "checkpoint").glob("*.safetensors"))
    assert len(files) == 2
    for path in files:
        with safe_open(path, "pt") as file:
            offsets = json.loads(file.metadata()["DCP_SHARDING_INFO"])
            for key in file.keys():  # noqa: SIM118  not a dict
                parts[key].append((offsets[key]["saved_offsets"], file.get_tensor(key)))
    assert any(len(p) == 2 for p in parts.values())
    project, context = _project(*CASES[name])
    compared = 0
    for key, value in effective_weights(project.graph, context.store):
        if key not in parts:
            continue
        whole, covered = torch.full_like(value, 77), 0
        for offset, part in parts[key]:
            whole[tuple(slice(o, o + s) for o, s in zip(offset, part.shape, strict=True))] = part
            covered += part.numel()
        assert covered == value.numel()
        assert torch.equal(whole, value)
        compared += 1
    assert compared == len(parts)


@pytest.mark.slow
def test_the_launch_script_starts_the_ranks_from_anywhere(folders: Path, tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("1 2 3 4\n5 6 7 8\n")
    text = _run([str(folders / "columns" / "launch.sh"), "--tokens", str(tmp_path / "ids.txt")], tmp_path)
    assert "2 ranks on cpu" in text
    assert "2 samples" in text


def test_a_plan_in_megatrons_manner_names_its_layers(folders: Path) -> None:
    plan = json.loads((folders / "columns" / "plan.json").read_text())
    assert plan["tp_plan"]["model.layers.*.self_attn.q_proj"] == "colwise"
    assert plan["tp_plan"]["model.layers.*.mlp.down_proj"] == "rowwise"
    assert plan["placements"]["model.layers.0.mlp.down_proj.weight"] == ["R", "S1"]
    assert json.loads((folders / "stored" / "plan.json").read_text())["fsdp"]["axes"] == ["data"]


@pytest.mark.parametrize("mesh", ["2", "2x2"])
def test_scripts_are_well_formed(mesh: str, tmp_path: Path) -> None:
    _emit("llama", (("shard", {"mesh": mesh, "strategy": "megatron"}),), tmp_path / "x")
    assert {p.name for p in (tmp_path / "x").iterdir()} == FILES - {"graph.json"}
    for script in ("launch.sh", "slurm.sh"):
        subprocess.run(["bash", "-n", str(tmp_path / "x" / script)], check=True)
    job = yaml.safe_load((tmp_path / "x" / "kubernetes.yaml").read_text())
    replicas = {k: v["replicas"] for k, v in job["spec"]["pytorchReplicaSpecs"].items()}
    assert replicas == ({"Master": 1} if mesh == "2" else {"Master": 1, "Worker": 1})
    assert job["spec"]["nprocPerNode"] == "2"
    assert ("--nodes=2" in (tmp_path / "x" / "slurm.sh").read_text()) == (mesh == "2x2")


def test_formats_of_activations_are_named(tmp_path: Path) -> None:
    done = _emit("llama", (ROUNDED, ("shard", {"mesh": "1x2", "strategy": "megatron"})), tmp_path / "x")
    (note,) = [n for n in done.notes if "activations" in n]
    assert "layers_0_self_attn_q_proj" in note
    assert note in (tmp_path / "x" / "README.md").read_text()


PLAIN: Steps = (("shard", {"mesh": "2", "strategy": "data"}),)


def test_a_folder_of_others_is_left_alone_and_an_own_one_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(ExportError, match=r"notes\.txt"):
        _emit("llama", PLAIN, folder)
    assert [p.name for p in folder.iterdir()] == ["notes.txt"]
    (folder / "notes.txt").rename(folder / "run.py")
    with pytest.raises(ExportError, match="not written by this"):
        _emit("llama", PLAIN, folder)
    (folder / "run.py").unlink()
    for _ in range(2):
        _emit("llama", PLAIN, folder)
    with pytest.raises(ExportError, match="is a file"):
        _emit("llama", PLAIN, folder / "run.py")
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.distributed.checkpoint.filesystem import FileSystem

    original = FileSystem.create_stream
    monkeypatch.setattr(FileSystem, "create_stream", lambda self, path, mode: original(self, Path("/dev/full"), mode))
    with pytest.raises(ExportError, match="No space left"):
        _emit("llama", PLAIN, tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_what_the_program_cannot_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="adapters"):
        _emit("llama", (("lora", {"rank": 2, "alpha": 4}), *PLAIN), tmp_path / "x")
    project, context = _project("llama", ())
    with pytest.raises(PassError, match="not sharded"):
        emit_sharded(project, context.store, tmp_path / "x", {})
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_command_and_the_python_interface_write_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch
    from safetensors.torch import load_file

    import espalier as es
    from espalier.app.cli import main

    m = es.open("demo:reviews")
    m.shard(mesh="1x2", strategy="megatron")
    report = m.export("sharded", tmp_path / "a")
    given = ["shard", "demo:reviews", "--mesh", "1x2", "--strategy", "megatron", "--emit", str(tmp_path / "b")]
    assert main([*given, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    shards = sorted((tmp_path / "a" / "checkpoint").glob("shard-*.safetensors"))
    assert len(shards) == 2
    for shard in shards:
        one, other = load_file(shard), load_file(tmp_path / "b" / "checkpoint" / shard.name)
        assert one.keys() == other.keys()
        assert all(torch.equal(v, other[k]) for k, v in one.items())
    assert len(printed["files"]) == len(report.rows)
    (tmp_path / "b" / "results.txt").write_text("mine")
    assert main(given) == 2
    assert "results.txt" in capsys.readouterr().err
