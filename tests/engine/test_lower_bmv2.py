"""Random programs give the same packets on the engine and on real BMv2."""

import random
import shutil
from pathlib import Path

import pytest

from tests.engine import p4json, reference, test_lower_bits
from tests.engine.test_lower_expressions import (
    INPUTS,
    RESULT_BITS,
    Generator,
    document,
    interesting,
    is_supported,
)

pytestmark = [
    pytest.mark.bmv2,
    pytest.mark.skipif(shutil.which("simple_switch") is None, reason="no simple_switch"),
]
EXPRESSIONS = 60
FRAMES = 50


def compare(path: Path, frames: list[bytes]) -> None:
    ours = reference.through_engine(path, frames)
    assert sum(map(len, ours.values())) == len(frames)
    assert reference.difference(ours, reference.through_bmv2(path, frames, "simple_switch")) is None


@pytest.mark.parametrize("seed", range(3))
def test_arithmetic_is_bmv2s(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    generator = Generator(rng)
    outputs: list[tuple[str, int, bool]] = []
    expressions: list[p4json.Json] = []
    while len(expressions) < EXPRESSIONS:
        bits, (expression, _) = rng.choice(RESULT_BITS), generator.number(rng.randrange(1, 5))
        if is_supported(expression, bits):
            outputs.append((f"r{len(outputs)}", bits, False))
            expressions.append(expression)
    path = p4json.write(document(expressions, outputs), tmp_path)
    values = [{name: interesting(rng, bits) for name, bits, _ in INPUTS} for _ in range(FRAMES)]
    compare(path, [p4json.pack(INPUTS, each) for each in values])


@pytest.mark.parametrize("seed", range(2))
def test_headers_come_and_go_as_bmv2s(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    inputs = test_lower_bits.random_fields(rng)
    path = p4json.write(test_lower_bits.document(inputs, rng.sample(inputs, len(inputs))), tmp_path)
    total = sum(bits for _, bits, _ in inputs) // 8
    compare(path, [rng.randbytes(total + rng.randrange(9)) for _ in range(FRAMES)])
