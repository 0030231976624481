"""Codes and bit strings against bits counted one by one; the graph's lines; headers as they are written."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

import numpy as np
import pytest

from espalier.model.formats.base import parse_format
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision
from espalier.model.packed.bits import cut_bits, join_bits, pack_bits, unpack_bits
from espalier.model.packed.graph import LINES, graph_of
from espalier.model.packed.layout import (
    Packed,
    Use,
    blobs_of,
    described,
    header,
    header_share,
    packed_size,
    plan,
    size_with,
    stored,
)
from tests.model.zoo import case

COUNTS = (0, 1, 2, 7, 8, 9, 63, 64, 65, 1000)


def bits_of(codes: np.ndarray, bits: int) -> np.ndarray:
    """Each code's bits from the least significant up, a row a code."""
    return ((codes[:, None] >> np.arange(bits)) & 1).astype(np.uint8)


# -- bits


@pytest.mark.parametrize("bits", range(1, 33))
def test_codes_come_back_from_no_more_bytes_than_they_need(bits: int) -> None:
    rng = np.random.default_rng(bits)
    for count in COUNTS:
        codes = rng.integers(0, 1 << bits, count)
        packed = pack_bits(codes, bits)
        assert packed.dtype == np.uint8 and packed.size == -(-count * bits // 8)
        assert np.array_equal(unpack_bits(packed, bits, count), codes)
        signed = codes - (1 << (bits - 1))
        assert np.array_equal(unpack_bits(pack_bits(signed, bits), bits, count, signed=True), signed)


@pytest.mark.parametrize("bits", [1, 3, 5, 8, 12, 17, 31])
def test_bits_lie_as_the_description_says(bits: int) -> None:
    """Whole bytes of all codes from the lowest up, then what is left of each; the least significant bit first."""
    codes = np.random.default_rng(1).integers(0, 1 << bits, 77)
    each, whole = bits_of(codes, bits), bits // 8 * 8
    planes = [each[:, low : low + 8].reshape(-1) for low in range(0, whole, 8)]
    expected = np.packbits(np.concatenate([*planes, each[:, whole:].reshape(-1)]), bitorder="little")
    assert np.array_equal(pack_bits(codes, bits), expected)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int32", "uint32", "int64"])
def test_any_integers_of_any_shape_are_packed(dtype: str) -> None:
    codes = np.random.default_rng(2).integers(0, 8, (5, 3, 2)).astype(dtype).swapaxes(0, 2)
    assert np.array_equal(unpack_bits(pack_bits(codes, 3), 3, 30), codes.reshape(-1))


def test_higher_bits_of_a_code_do_not_touch_its_neighbours() -> None:
    assert np.array_equal(pack_bits(np.array([-1, 0, 255, 16]), 4), pack_bits(np.array([15, 0, 15, 0]), 4))


@pytest.mark.parametrize("lengths", [(8, 16), (3,), (3, 5, 9), (13, 32, 1), (0, 7), (24, 5, 40)])
def test_bit_strings_are_joined_and_cut(lengths: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    strings = [rng.integers(0, 2, n).astype(np.uint8) for n in lengths]
    joined = join_bits([(np.packbits(s, bitorder="little"), s.size) for s in strings])
    assert np.array_equal(joined, np.packbits(np.concatenate(strings), bitorder="little"))
    start = 0
    for string in strings:
        found = np.unpackbits(cut_bits(joined, start, string.size), bitorder="little")[: string.size]
        assert np.array_equal(found, string)
        start += string.size


# -- the graph


@pytest.mark.parametrize("name", ["mlp", "bert", "twice", "attention", "functions", "image", "odd"])
def test_a_graph_comes_back_without_its_tensors(name: str) -> None:
    graph = case(name).graph
    bare = replace(graph, weights={n: replace(w, key=None) for n, w in graph.weights.items()})
    found, tensors = graph_of(described(graph, plan(graph)))
    assert found == bare and tensors.keys() == graph.weights.keys()


def test_a_long_graph_lies_in_several_pieces() -> None:
    graph = case("bert").graph
    streams, data = 0, described(graph, plan(graph))
    while data:
        stream = zlib.decompressobj()
        assert stream.decompress(data).count(b"\n") <= LINES
        data, streams = stream.unused_data, streams + 1
    assert streams == -(-(1 + len(graph) + len(graph.weights)) // LINES) > 1


def test_a_piece_that_is_cut_off_is_refused() -> None:
    with pytest.raises(ValueError, match="cut off"):
        graph_of(described(case("mlp").graph, plan(case("mlp").graph))[:-3])


# -- the plan


def chosen(graph: Graph, text: str, scale: str | None = None) -> Packed:
    node = next(n for n in graph if "weight" in n.weights)
    graph = graph.replace(replace(node, precision={"weight": Precision(parse_format(text), scale)}))
    return next(p for p in plan(graph) if p.weight == node.weights["weight"])


@pytest.mark.parametrize(
    "text, bits",
    [
        ("integer(width=5)", 24 * 5),
        ("scaled_integer(width=4)", 24 * 4 + 6 * 32),  # the weight is 6 × 4: six rows
        ("scaled_integer(width=4, granularity=tensor)", 24 * 4 + 32),
        ("scaled_integer(width=4, symmetric=false, scale_dtype=float16)", 24 * 4 + 6 * (16 + 4)),
        ("scaled_integer(width=4, granularity=group, group=3)", 24 * 4 + 6 * 2 * 32),
        ("mxint(width=8, block=32)", 24 * 8 + 6 * 8),
        ("block_fp(width=4, block=3)", 24 * 4 + 6 * 2 * 8),
        ("block_fp(width=4, block=3, rows=4)", 24 * 4 + 2 * 2 * 8),
        ("nvfp4(block=4)", 24 * 4 + 6 * 8 + 32),
        ("binary_residual(levels=3)", 24 * 3 + 6 * 3 * 32),
        ("ternary(granularity=tensor)", 24 * 2 + 32),
    ],
)
def test_shared_fields_count(text: str, bits: int) -> None:
    assert chosen(case("mlp").graph, text).bits == bits


def test_a_given_scale_takes_the_place_of_the_formats_own() -> None:
    graph = case("mlp").graph
    given = graph.with_weights({"scale": replace(graph.weights["first.bias"], shape=(6, 1), role="buffer")})
    part = chosen(given, "scaled_integer(width=4)", "scale")
    assert (part.shared, part.bits) == (0, 24 * 4)


def test_a_convolution_is_counted_as_its_format_sees_it() -> None:
    """A row an output: blocks run over all that is summed for it."""
    graph = case("image").graph
    node = next(n for n in graph if n.op == "conv2d")
    out, *rest = graph.weights[node.weights["weight"]].shape
    part = chosen(graph, "mxint(width=4, block=16)")
    assert part.shared == 8 * out * -(-int(np.prod(rest)) // 16)


def test_a_format_without_a_zero_keeps_its_mask() -> None:
    weight = case("mlp").graph.weights["first.weight"]
    (part,) = stored("w", weight, [Use(parse_format("binary()"), mask="m", zeros=1)])
    assert (part.layout, part.bits) == ("masked", 24 + 23)


def test_a_name_with_our_sign_is_told_from_a_second_use() -> None:
    weight = case("mlp").graph.weights["first.weight"]
    both = [Use(parse_format("integer(width=4)")), Use(parse_format("integer(width=3)"))]
    names = [p.name for n in ("w", "w@1", "@graph") for p in stored(n, weight, both)]
    assert names == ["w", "w@1", "w@@1", "w@@1@1", "@@graph", "@@graph@1"]


# -- the header


@pytest.mark.parametrize("count", [0, 1, 2, 9, 40])
def test_the_size_is_that_of_the_header_as_written(count: int) -> None:
    packed = [Packed(f'layer "{i}".é', "dense", (10**i % 10**7,), 3, 5, "integer", "parameter") for i in range(count)]
    blobs = blobs_of(12345)
    text = len(header(packed, blobs))
    whole = 8 + text + -(8 + text) % 64 + sum(p.size for p in packed) + sum(blobs.values())
    assert size_with([p.size for p in packed], [header_share(p) for p in packed], 12345) == whole


def test_the_file_says_how_a_tensor_is_stored() -> None:
    graph = case("mlp").graph
    node = replace(graph["first"], precision={"weight": Precision(parse_format("mxint(width=4)"))})
    text = zlib.decompress(described(graph.replace(node), plan(graph.replace(node)))).decode()
    told = [line for line in map(json.loads, text.splitlines()) if line[:2] == ["weight", "first.weight"]]
    assert told[0][3:] == [{"tensor": "first.weight", "format": "mxint(width=4, block=32, rows=1)", "layout": "dense",
                            "bits": 4, "kept": 24}]  # fmt: skip
    metadata = json.loads(json.loads(header(plan(graph), {}))["__metadata__"]["espalier"])
    assert metadata == {"packed": 1, "check": "0" * 32}
    assert packed_size(graph) > sum(p.size for p in plan(graph))
