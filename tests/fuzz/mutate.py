"""Inputs made from the corpus by seeded changes: the same seed, the same input."""

import json
from pathlib import Path
from random import Random
from typing import Any

WORDS = (
    b"\0", b"\xff\xff", b"-1", b"0", b"null", b"true", b"{}", b"[]", b'""', b": ", b"- ", b"\n",
    b"1e999", b"99999999999999999999", b"*", b"&a", b"[[[[[[[[", b"'", b'"', b"0x", b"\xc3\x28",
)  # fmt: skip

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 128, 129, 4096, 1 << 31, 1 << 64, 1.5, "", "in", "start",
    "0x0", "-0x1", "0xzz", [], {}, [[]], "default", "hexstr", "field", "expression",
)  # fmt: skip

JSON_SHARE = 0.7
"""Of JSON inputs so many are changed as trees, and so remain JSON."""


def corpus(folder: Path) -> list[bytes]:
    """In the order of names."""
    return [path.read_bytes() for path in sorted(folder.iterdir())]


def changed(seeds: list[bytes], seed: int) -> bytes:
    """One of the corpus with a few bytes, words or stretches changed."""
    rng = Random(seed)
    data = bytearray(rng.choice(seeds))
    if data.startswith(b"{") and rng.random() < JSON_SHARE and (tree := _tree(data)) is not None:
        for _ in range(rng.randint(1, 3)):
            _change_tree(tree, rng)
        return json.dumps(tree, separators=(",", ":")).encode()
    for _ in range(rng.randint(1, 5)):
        _change(data, rng, seeds)
    return bytes(data)


def _change(data: bytearray, rng: Random, seeds: list[bytes]) -> None:
    at, length = rng.randint(0, len(data)), rng.randint(1, 16)
    match rng.randrange(6):
        case 0 if data:
            data[min(at, len(data) - 1)] ^= 1 << rng.randrange(8)
        case 1:
            data[at : at + 1] = rng.randbytes(1)
        case 2:
            del data[at : at + length]
        case 3:
            data[at : at + rng.randint(0, 8)] = rng.choice(WORDS)
        case 4:
            data[at:at] = data[at : at + length]
        case _:
            other = rng.choice(seeds)
            start = rng.randint(0, len(other))
            data[at : at + length] = other[start : start + length]


def _tree(data: bytes | bytearray) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


def _change_tree(tree: Any, rng: Random) -> None:
    """One place somewhere below: another value, a copy of a neighbour, or nothing."""
    node = tree
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = rng.choice(keys)
        child = node[key]
        if isinstance(child, dict | list) and child and rng.random() < 0.85:
            node = child
            continue
        match rng.randrange(4):
            case 0:
                del node[key]
            case 1:
                node[key] = json.loads(json.dumps(node[rng.choice(keys)]))
            case _:
                node[key] = json.loads(json.dumps(rng.choice(VALUES)))
        return
