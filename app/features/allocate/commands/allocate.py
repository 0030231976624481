"""Command `allocate`: computes formats and sparsities that meet budgets with the least output divergence."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from espalier.app.commands.command import Answer, Arguments, Command, Parser, UsageError
from espalier.app.commands.console import Console, cell, seconds, table
from espalier.app.commands.opening import Target, opened, save
from espalier.app.commands.option_flags import read_options
from espalier.app.commands.scoring import add_data, bit_lines, data_options, figures, noise_lines, plain, score
from espalier.model.document.recipe import Recipe, Step
from espalier.model.files import write_text
from espalier.model.formats.base import parse_format
from espalier.passes.allocation.decisions import column_title
from espalier.passes.allocation.plan import Allocation, configured, steps
from espalier.passes.allocation.solve import Competing, Point, allocate, front, settled
from espalier.passes.analysis.divergence import DivergenceOptions
from espalier.passes.analysis.sensitivity import SensitivityOptions
from espalier.passes.base import run_step
from espalier.passes.costs.base import cost, separable
from espalier.passes.costs.limits import Limit, parse_budget
from espalier.passes.costs.measured import finding
from espalier.passes.dominant import dominant_fields
from espalier.passes.export.recipe import to_toml
from espalier.passes.recipes.config import recipe_to_dict
from espalier.passes.recipes.replay import replay
from espalier.passes.recipes.set_up import extended
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.search.format_lists import formats_of
from espalier.passes.sensitivity.combined import CombinedDivergences, correction_of
from espalier.passes.sensitivity.ports import expansion, expansion_name
from espalier.passes.sensitivity.table import Candidate, Sensitivity

FIRST = "weight_bits"
KINDS = (".toml", ".json", ".espalier")
DETAILS = """examples
  main.py allocate demo:reviews --budget "weight_bits<=4.5" --formats "integer(width=2|3|4|6|8), float" -o recipe.toml
  main.py allocate P.espalier --budget "size_bytes<=300KiB" --budget "activation_bits<=8" --measure -o P.espalier
  main.py allocate demo:reviews --front 16 --cost bitops
  main.py allocate demo:digits-mlp --budget "cycles<=64" --budget "lut<=3000" --formats "integer(width=4|6|8)"
Budgets limit costs that are sums over layers: weight_bits, activation_bits, size_bytes, bitops,
memory_density, sparsity, hardware's lut, ff, dsp, bram, and those of plug-ins. cycles<=N gives each node the least
parallelism that meets it. Ports that no budget depends on stay unchanged; ports that --ports names take the format that
changes the outputs least if float is no candidate. Binary points and exponent biases are fitted at each port, also
where one is written."""


def _arguments(parser: Parser) -> None:
    parser.add_argument("target", metavar="SOURCE|PROJECT", help="the model; the allocation follows its own steps")
    parser.add_argument("--budget", action="append", default=[], metavar="COST<=VALUE",
                        help='such as "weight_bits<=4.5" or "size_bytes<=1.5MiB"; may repeat')  # fmt: skip
    parser.add_argument("--formats", default="", metavar="LIST",
                        help="candidates: integer(width=4|8), mxint, float (default: all, and float)")  # fmt: skip
    parser.add_argument("--sparsities", default="", metavar="LIST", help="candidate sparsities, such as 0.3,0.5")
    parser.add_argument("--ports", default="", metavar="LIST", help="such as weight,data_in (default: all)")
    parser.add_argument("--tie", action="append", default=[], metavar="NODE,NODE,…",
                        help="layers that share one choice; may repeat")  # fmt: skip
    parser.add_argument("--exact", action="store_true", help="measure every candidate, instead of predicting most")
    parser.add_argument("--front", type=int, default=0, metavar="N", help="print up to N allocations along the cost")
    parser.add_argument(
        "--cost", default="", metavar="NAME", help="cost of --front (default: that of the first budget)"
    )
    parser.add_argument("--measure", action="store_true", help="measure the result: divergence, accuracy, loss")
    parser.add_argument("-o", "--output", metavar="FILE", help="recipe.toml, recipe.json or P.espalier")
    add_data(parser)


def _run(args: Arguments, console: Console) -> Answer:
    limits = [parse_budget(text) for text in args.budget]
    _check(args, limits)
    with opened(args.target, args, console) as target:
        options = _options(args, target)
        start = time.perf_counter()
        rows, summary = sensitivities(options, target)
        spent = time.perf_counter() - start
        competing = _competing(args, options)
        data: dict[str, Any] = {"sensitivity": {**summary, "seconds": round(spent, 3)}}
        table = CombinedDivergences(rows, correction_of(summary))
        graph, before, rest = settled(target.project.graph, limits)
        name = args.cost or (rest[0].figure if rest else FIRST)
        find_costs({*(x.figure for x in rest), *((name,) if args.front else ())}, rows, options, target)
        if args.front:
            data |= {
                "cost": name,
                "front": [_point(p, name, table) for p in front(graph, rows, name, args.front, competing, table.of)],
            }
        if limits:
            allocation = allocate(graph, rows, rest, competing, table.of)
            recipe = Recipe((*steps(graph, allocation.chosen, options.data), *before))
            result = _allocated(allocation, recipe, target, args)
            data |= {"predicted": table.of(allocation.chosen), "budgets": [limit.text for limit in limits],
                     "chosen": _chosen(allocation, rows), **dominant_fields(configured(graph, allocation.chosen)),
                     **result}  # fmt: skip
        data["seconds"] = round(time.perf_counter() - start, 3)
    return Answer(data, lambda: _lines(data))


def _check(args: Arguments, limits: Sequence[Limit]) -> None:
    """Validate the arguments before the model is opened."""
    if not limits and not args.front:
        raise UsageError("There is no budget.", 'Add --budget "weight_bits<=4.5", or --front 16.')
    if args.front < 0 or args.front == 1:
        raise UsageError(f"--front is {args.front}.", "It must be a whole number of at least 2.")
    if args.cost and cost(args.cost).shares is None:
        names = ", ".join(c.name for c in separable())
        raise UsageError(f"--cost {args.cost} is not a sum over layers.", f"Choose one of {names}.")
    if args.output and Path(args.output).suffix.lower() not in KINDS:
        raise UsageError(f"{args.output} has an unknown file type.", f"End it in {', '.join(KINDS)}.")
    if args.output and not limits:
        raise UsageError("A front alone is no recipe.", "Add a --budget, or leave -o out.")


def _options(args: Arguments, target: Target) -> SensitivityOptions:
    """Options of the sensitivity analysis: data and candidates."""
    data = args.data or target.project.source.data
    if not data:
        raise UsageError("Sensitivities need data, and none is named.", "Add --data.")
    names = formats_of(args.formats, "--formats") if args.formats else ()
    formats = tuple(parse_format(n) for n in names if n != "float")
    return read_options(SensitivityOptions, _without(args), data=data, formats=formats, exact=args.exact,
                        ports=_split_list(args.ports),
                        sparsities=tuple(map(_share, _split_list(args.sparsities))))  # fmt: skip


def _without(args: Arguments) -> Arguments:
    """The arguments without those flags that share a name with an option of the analysis."""
    rest = {k: v for k, v in vars(args).items() if k not in ("formats", "ports", "sparsities", "measure", "exact")}
    return Arguments(**rest)


def _split_list(text: str) -> tuple[str, ...]:
    return tuple(w.strip() for w in text.split(",") if w.strip())


def _share(text: str) -> float:
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError as error:
        raise UsageError(f"--sparsities: {text!r} is no number.", "Write 0.3,0.5 or 30%,50%.") from error


def sensitivities(options: SensitivityOptions, target: Target) -> tuple[tuple[Sensitivity, ...], dict[str, Any]]:
    """Run the sensitivity analysis; return its rows and its summary."""
    rows: dict[tuple[str, str], Sensitivity] = {}

    def collect(part: object) -> None:
        if isinstance(part, Sensitivity):
            rows[part.node, part.port] = part

    context = replace(target.context, found=collect)
    report = run_step(target.project.graph, Step("sensitivity", options, context.seed), context).report
    return tuple(rows.values()), {k: v for k, v in report.summary.items() if k != "evidence"}


def find_costs(names: Iterable[str], rows: Sequence[Sensitivity], options: SensitivityOptions, target: Target) -> None:
    """Run the analyses that the costs depend on, such as layer latencies of the candidates."""
    formats = tuple(dict.fromkeys(c.format for r in rows for c in r.candidates if c.format is not None))
    for name in sorted(names):
        if finder := cost(name).finder:
            step = finding(finder, options, formats)
            run_step(target.project.graph, step, target.context)


def _competing(args: Arguments, options: SensitivityOptions) -> Competing:
    """The candidates; float is one unless --formats lists formats without it."""
    with_float = not args.formats or "float" in formats_of(args.formats, "--formats")
    ties = tuple(_split_list(t) for t in args.tie)
    return Competing(None, with_float or not options.formats, ties, options.ports)


# -- the answer


def _allocated(allocation: Allocation, recipe: Recipe, target: Target, args: Arguments) -> dict[str, Any]:
    data: dict[str, Any] = {
        "summed": allocation.predicted, "gap": allocation.gap, "figures": allocation.figures,
        "recipe": recipe_to_dict(recipe),
    }  # fmt: skip
    if args.measure or (args.output and args.output.lower().endswith(".espalier")):
        replayed = replay(target.project.graph, recipe, replace(target.context))
        if args.measure:
            data["measured"] = _measured(replayed.graph, target, args)
        if args.output and args.output.lower().endswith(".espalier"):
            data["output"] = save(target, extended(target.project, recipe, replayed), args.output)
    if args.output and "output" not in data:
        data["output"] = _write(recipe, Path(args.output))
    return data


def _write(recipe: Recipe, path: Path) -> str:
    fields = recipe_to_dict(recipe)
    text = (
        to_toml(fields) if path.suffix.lower() == ".toml" else json.dumps(fields, indent=1, ensure_ascii=False) + "\n"
    )
    write_text(path, text, UsageError)
    return str(path)


def _chosen(allocation: Allocation, rows: Sequence[Sensitivity]) -> list[dict[str, Any]]:
    """The choice at each port with its predicted divergence."""
    divergences = {(r.node, r.port): dict(zip(map(id, r.candidates), r.known, strict=True)) for r in rows}
    return [
        {"node": node, "port": port, "format": str(c.format) if c.format else "float", "sparsity": c.sparsity,
         "predicted": divergences[node, port].get(id(c), 0.0)}
        for (node, port), c in allocation.chosen.items()
    ]  # fmt: skip


def _measured(graph: Any, target: Target, args: Arguments) -> dict[str, Any]:
    """Measured score, and measured divergence on the same data from the baseline of the predictions."""
    options, base = data_options(args, target), target.context.base
    assert options is not None
    start, name = expansion(target.project.graph, base), expansion_name(target.project.graph, base)
    data = {f.name: getattr(options, f.name) for f in fields(EvaluateOptions)}
    step = Step("divergence", DivergenceOptions(**data, baseline=name))
    summary = run_step(graph, step, replace(target.context, base=start)).report.summary
    return {"kl": summary["kl"], "baseline": summary["baseline"], **plain(score(graph, target, options))}


def _point(point: Point, name: str, table: CombinedDivergences) -> dict[str, Any]:
    """A front point; `predicted`: divergence of all choices together, `summed`: the minimised sum over layers."""
    return {
        name: point.figure,
        "predicted": table.of(point.chosen),
        "summed": point.predicted,
        "choices": _counts(point.chosen.values()),
    }


def _counts(chosen: Iterable[Candidate]) -> dict[str, int]:
    """Column → number of ports with it, the most frequent first."""
    return dict(Counter(column_title(c) for c in chosen).most_common())


def _lines(data: dict[str, Any]) -> Iterable[str]:
    if "front" in data:
        name = data["cost"]
        yield from table([{name: cell(p[name]), "predicted KL": cell(p["predicted"]),
                           "choices": _count_text(p["choices"])}
                          for p in data["front"]])  # fmt: skip
    if "recipe" in data:
        rows = [{"node": r["node"], "port": r["port"], "format": r["format"],
                 **({"sparsity": f"{r['sparsity']:.0%}"} if any(x["sparsity"] for x in data["chosen"]) else {}),
                 "predicted KL": cell(r["predicted"])} for r in data["chosen"]]  # fmt: skip
        yield from table(rows)
        yield ""
        yield (
            f"predicted KL {cell(data['predicted'])} from {data['sensitivity']['baseline']}; the sum of its layers' "
            f"at most {data['gap']:.2%} above the least"
        )
        yield ", ".join(f"{k} {v}" for k, v in figures({"accuracy": None, "loss": None, **data["figures"]}).items()
                        if k not in ("accuracy", "loss"))  # fmt: skip
        limited = {text.partition("=")[0].rstrip("<>") for text in data["budgets"]} - {"weight_bits", "size_bytes"}
        if totals := [f"{n} {cell(data['figures'][n])}" for n in sorted(limited) if n in data["figures"]]:
            yield "budgets: " + ", ".join(totals)
        if "measured" in data:
            m = data["measured"]
            yield (f"measured KL {cell(m['kl'])} from {m['baseline']}, accuracy {m['accuracy']:.4f}, "
                   f"loss {m['loss']:.4f}")  # fmt: skip
            yield from noise_lines(m, {})
        elif "recipe" in data:
            yield from bit_lines(data)
    yield f"sensitivities {seconds(data['sensitivity']['seconds'])}, all {seconds(data['seconds'])}"
    if "output" in data:
        yield f"written to {data['output']}"


def _count_text(choices: dict[str, int]) -> str:
    return ", ".join(f"{n} × {name}" for name, n in list(choices.items())[:4])


COMMAND = Command(
    "allocate", "computes the formats and sparsities that meet a budget, as a recipe", _arguments, _run, DETAILS
)
