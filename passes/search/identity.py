"""What makes two searches one study: the same model, recipe, space, goals and data, however their paths are written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xxhash

from espalier.model.document.codec import encode
from espalier.model.document.graph_json import fingerprint
from espalier.model.document.project import step_to_json
from espalier.passes.base import only_writes
from espalier.passes.recipes.replay import recipe_key
from espalier.passes.search.search import Search
from espalier.passes.search.space import Space

# What a study of another part is called in the error.
PARTS = {"model": "another model", "recipe": "another recipe", "space": "another space", "goals": "other goals",
         "data": "other data", "score": "other options of the score", "training": "other options of training",
         "sampler": "a sampler of another kind"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Identity:
    """`fingerprint`: equal for searches whose trials may share a study. `parts`: digests of what it is made of, by the
    names in PARTS. `before`: the fingerprint that earlier versions stored, with the data's names as written."""

    fingerprint: str
    parts: Mapping[str, str] = field(default_factory=dict[str, str])
    before: str = ""

    def differing(self, stored: object) -> list[str]:
        """What is not as in `stored`, parts of a storage, in words; empty where those parts are unknown."""
        if not isinstance(stored, dict):
            return []
        return [words for name, words in PARTS.items()
                if name in stored and stored[name] != self.parts.get(name)]  # fmt: skip


def identity(search: Search, space: Space) -> Identity:
    """The identity of a search on its expanded space; reads the files of the data."""
    spec, contents = search.spec, _contents(search)

    def named(options: Any) -> Any:
        """Options as JSON, with data by content and folders of tokenizers in full."""
        written = encode(options)
        if not isinstance(written, dict):  # of a pass whose plug-in is not loaded
            return written
        return {k: _place(v, contents) if k in ("data", "tokenizer") else v for k, v in written.items()}

    steps = [step_to_json(s) for s in search.recipe.active if not only_writes(s)]
    score: dict[str, Any] = named(spec.score)
    data = {k: score.pop(k) for k in ("data", "split", "limit", "text", "label") if k in score}
    training: list[Any] = [spec.train, named(spec.finetune), spec.begin_at]
    facts = {
        "model": fingerprint(search.base),
        "recipe": [{**s, "options": named(s["options"])} for s in steps],
        "space": encode(space.choices), "goals": [encode(spec.goals), spec.summed, list(spec.within)],
        "data": data, "score": score, "training": training, "sampler": spec.sampler in ("cmaes", "qmc"),
    }  # fmt: skip
    parts = {name: _digest(fact) for name, fact in facts.items()}
    return Identity(_digest(parts), parts, _before(search, space, contents))


def _before(search: Search, space: Space, contents: Mapping[str, str]) -> str:
    spec = search.spec
    return _digest([
        fingerprint(search.base), recipe_key(search.recipe), encode(space.choices), encode(spec.goals),
        spec.summed, list(spec.within), encode(spec.score), spec.train, spec.finetune,
        spec.sampler in ("cmaes", "qmc"), *([spec.begin_at] if spec.begin_at != "source" else []),
        *([contents] if contents else []),
    ])  # fmt: skip


def _digest(facts: Any) -> str:
    return xxhash.xxh3_128(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _names(search: Search) -> Iterator[str]:
    for options in (search.spec.score, search.spec.finetune, *(s.options for s in search.recipe.active)):
        name = options.get("data", "") if isinstance(options, Mapping) else getattr(options, "data", "")
        if isinstance(name, str):
            yield name


def _contents(search: Search) -> dict[str, str]:
    """Name of data → hash of its files, for data that have files."""
    from espalier.model.data.recent import content_of

    return {n: content for n in dict.fromkeys(_names(search)) if (content := content_of(n))}


def _place(name: Any, contents: Mapping[str, str]) -> Any:
    """A name of data or of a folder, so that it is equal for equal files."""
    if not isinstance(name, str) or not name:
        return name
    if name in contents:
        return f"content {contents[name]}"
    path = Path(name).expanduser()
    return str(path.resolve()) if path.exists() else name
