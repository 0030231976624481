"""The process that holds llama.cpp, by llama-cpp-python or else by xllamacpp; run by its path alone.

It imports nothing of Espalier. xllamacpp has no results but those of a server: the probabilities of the next token.
"""

from __future__ import annotations

import importlib
import importlib.util
import runpy
import secrets
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Request = dict[str, Any]
BINDINGS = {"llama_cpp": "llama_cpp_python", "xllamacpp": "xllamacpp"}  # module → package; the first one is taken
NORMAL = 1  # the kind of a token that is text
FORCED = 1e6  # added to the score of the token that is drawn, whose text must be whole characters
PADDED = "llama.cpp runs rows of equal length, and some are padded"


def run(request: Request) -> dict[str, Any]:
    """Write log-probabilities [rows, tokens, vocabulary] of the tokens after each one of `input_ids`."""
    import numpy

    rows = rows_of(request["inputs"])
    model = _model(request["path"], request, len(rows[0]))
    numpy.savez(request["results"], numpy.stack([model.scores(row) for row in rows]))
    return {}


def timed(request: Request) -> dict[str, Any]:
    """Median seconds in which files read the rows, in turn."""
    rows = rows_of(request["inputs"])
    models = [_model(path, request, len(rows[0])) for path in request["paths"]]

    calls = [lambda model=model: [model.read(row) for row in rows] for model in models]
    seconds = runpy.run_path(request["timing"])["alternated"](calls, request["runs"])
    return {"seconds": seconds}


def quantise(request: Request) -> dict[str, Any]:
    """Write a file by llama.cpp's own quantiser, of llama-cpp-python; `kind`: a number of llama_ftype."""
    api: Any = importlib.import_module("llama_cpp")
    settings = api.llama_model_quantize_default_params()
    settings.ftype, settings.nthread = request["kind"], 1
    code = api.llama_model_quantize(request["source"].encode(), request["path"].encode(), settings)
    if code:
        raise ValueError(f"llama_model_quantize ended with {code}")
    return {}


class LlamaCppPython:
    """A file in llama-cpp-python, whose results are those of every token at once."""

    def __init__(self, path: str, threads: int, size: int, _: str, *, exact: bool) -> None:
        api: Any = importlib.import_module("llama_cpp")
        caches = {"type_k": api.GGML_TYPE_F32, "type_v": api.GGML_TYPE_F32} if exact else {}
        self._model = api.Llama(path, n_ctx=size, n_batch=size, n_ubatch=size, n_threads=threads, logits_all=True,
                                n_threads_batch=threads, n_gpu_layers=0, verbose=False, **caches)  # fmt: skip

    def read(self, row: Sequence[int]) -> None:
        """Run a row."""
        self._model.reset()
        self._model.eval(row)

    def scores(self, row: Sequence[int]) -> Any:
        """Log-probabilities [tokens, vocabulary]."""
        import numpy

        self.read(row)
        found = numpy.array(self._model.scores[: len(row)], numpy.float64)
        found -= found.max(-1, keepdims=True)
        return (found - numpy.log(numpy.exp(found).sum(-1, keepdims=True))).astype(numpy.float32)


class XLlamaCpp:
    """A file in xllamacpp's server, which listens at this machine alone and wants a random key.

    `folder`: takes a copy of the file where its context has no room for a token more.
    """

    def __init__(self, path: str, threads: int, size: int, folder: str, *, exact: bool) -> None:
        api: Any = importlib.import_module("xllamacpp")
        self._tokens, self._forced, path = _ready(path, size, folder)
        settings = api.CommonParams()
        settings.model.path, settings.n_ctx, settings.n_parallel = path, size + 1, 1
        settings.n_batch = settings.n_ubatch = size
        settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
        settings.n_gpu_layers, settings.fit_params, settings.warmup, settings.verbosity = 0, False, False, -1
        settings.cache_ram_mib, settings.n_ctx_checkpoints = 0, 0
        if exact:
            settings.cache_type_k = settings.cache_type_v = api.ggml_type.GGML_TYPE_F32
            settings.flash_attn_type = api.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        settings.api_keys = [secrets.token_hex(16)]
        self._server = api.Server(settings)

    def read(self, row: Sequence[int]) -> None:
        """Run a row."""
        self._next(row, cache_prompt=False)

    def scores(self, row: Sequence[int]) -> Any:
        """Log-probabilities [tokens, vocabulary]: those after each prefix, whose keys and values are kept."""
        import numpy

        found = numpy.full((len(row), self._tokens), -numpy.inf, numpy.float32)
        for i in range(len(row)):
            answer = self._next(row[: i + 1], cache_prompt=i > 0, n_probs=self._tokens)
            for entry in answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]:
                found[i, entry["id"]] = entry["logprob"]
        return found

    def _next(self, row: Sequence[int], **more: Any) -> dict[str, Any]:
        asked = {"prompt": list(row), "n_predict": 1, "logit_bias": [[self._forced, FORCED]], **more}
        answer: dict[str, Any] = self._server.handle_completions(asked)
        if "error" in answer:
            raise ValueError(answer["error"].get("message", answer["error"]))
        return answer


def _ready(path: str, size: int, folder: str) -> tuple[int, int, str]:
    """(number of tokens, id of a token that is a letter, the file or a copy with room for `size` tokens and one more).

    The server refuses rows as long as the context that a file names.
    """
    gguf: Any = importlib.import_module("gguf")
    file = gguf.GGUFReader(path)
    fields = file.fields
    if "tokenizer.ggml.tokens" not in fields:
        raise ValueError("the file has no vocabulary, which xllamacpp needs; install llama-cpp-python")
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"].contents()
    count = len(kinds)
    forced = next(i for i in range(count) if kinds[i] == NORMAL and tokens.contents(i).isalpha()
                  and tokens.contents(i).isascii())  # fmt: skip
    key = f"{fields['general.architecture'].contents()}.context_length"
    context = fields[key].contents()
    if size < context:
        return count, forced, path
    if any(tensor.name == "position_embd.weight" for tensor in file.tensors):
        raise ValueError(f"xllamacpp runs rows of at most {context - 1} tokens; set max_length, or install "
                         "llama-cpp-python")  # fmt: skip
    copy = str(Path(folder) / f"{secrets.token_hex(8)}.gguf")
    shutil.copyfile(path, copy)
    field = gguf.GGUFReader(copy, "r+").fields[key]
    field.parts[field.data[0]][0] = size + 1
    return count, forced, copy


# -- open files

_open: dict[tuple[str, int, bool], tuple[int, Any]] = {}  # (path, threads, exact) → (its longest row, model)


def binding() -> str:
    """The module of llama.cpp that is installed, or empty."""
    return next((name for name in BINDINGS if importlib.util.find_spec(name)), "")


def opened(path: str, threads: int, size: int, folder: str, *, exact: bool = False) -> Any:
    """A file for rows of `size` tokens; `folder`: for temporary files; `exact`: keys and values in float32."""
    kind = LlamaCppPython if binding() == "llama_cpp" else XLlamaCpp
    return kind(path, threads, size, folder, exact=exact)


def _model(path: str, request: Request, size: int) -> Any:
    key = path, request["threads"], bool(request.get("exact"))
    longest, model = _open.pop(key, (0, None))
    if size > longest:
        del model  # ends the other first
        folder = str(Path(request["inputs"]).parent)
        longest, model = size, opened(path, request["threads"], size, folder, exact=key[2])
    _open[key] = longest, model
    return model


def rows_of(path: str) -> list[list[int]]:
    """The rows of token ids in a file of inputs."""
    import numpy

    with numpy.load(path) as held:
        mask = held["attention_mask"] if "attention_mask" in held.files else None
        if mask is not None and not mask.all():
            raise ValueError(PADDED)
        rows: list[list[int]] = held["input_ids"].tolist()
        return rows


DO: dict[str, Callable[[Request], dict[str, Any]]] = {"run": run, "timed": timed, "quantise": quantise}

if __name__ == "__main__":
    runpy.run_path(str(Path(__file__).parents[1] / "serving.py"))["serve"](DO)
