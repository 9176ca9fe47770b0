"""Lowered arithmetic equals Python's unbounded integers, or is refused."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from switches.engine.build import BuildError, build, find_compiler
from switches.engine.library import EngineSwitch
from switches.engine.lower import lower
from switches.program import UnsupportedProgram, parse_program
from tests.engine import p4json
from tests.engine.p4json import Json, assign, choice, const, field, op

INPUTS: list[tuple[str, int, bool]] = [
    ("a1", 1, False),
    ("b7", 7, False),
    ("c8", 8, False),
    ("d13", 13, False),
    ("e16", 16, False),
    ("f32", 32, False),
    ("g33", 33, False),
    ("h64", 64, False),
    ("i65", 65, False),
    ("j127", 127, False),
    ("k128", 128, False),
    ("s4", 4, True),
    ("s16", 16, True),
    ("s32", 32, True),
    ("s64", 64, True),
    ("s100", 100, True),
]
RESULT_BITS = (1, 5, 8, 16, 31, 32, 48, 64, 77, 128)
EXPRESSIONS = 80
FRAMES = 60

Evaluate = Callable[[dict[str, int]], int]
Pair = tuple[Json, Evaluate]


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def saturated(value: int, least: int, most: int) -> int:
    return max(least, min(most, value))


class Generator:
    """Random expressions: JSON, and what they mean in Python."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def number(self, depth: int) -> Pair:
        rng = self._rng
        if depth == 0 or rng.random() < 0.1:
            return self._leaf()
        kind = rng.choice(["ring"] * 4 + ["bits"] * 3 + ["shift"] * 3 + ["cut"] * 6 + ["other"] * 4)
        made: Pair = getattr(self, f"_{kind}")(depth - 1)
        return made

    def _leaf(self) -> Pair:
        rng = self._rng
        if rng.random() < 0.3:
            value = rng.choice([0, 1, 2, 255, 1 << rng.randrange(64), rng.getrandbits(40)])
            if rng.random() < 0.15:
                value = -value
            return const(value), lambda _env, v=value: v
        name, bits, is_signed = rng.choice(INPUTS)
        if is_signed:
            return field("in", name), lambda env: signed(env[name], bits)
        return field("in", name), lambda env: env[name]

    def _ring(self, depth: int) -> Pair:
        name = self._rng.choice("+-*")
        (a, x), (b, y) = self.number(depth), self.number(depth)
        functions: dict[str, Callable[[int, int], int]] = {
            "+": lambda p, q: p + q,
            "-": lambda p, q: p - q,
            "*": lambda p, q: p * q,
        }
        return op(name, a, b), lambda env: functions[name](x(env), y(env))

    def _bits(self, depth: int) -> Pair:
        name = self._rng.choice("&|^~")
        a, x = self.number(depth)
        if name == "~":
            return op("~", a), lambda env: ~x(env)
        b, y = self.number(depth)
        functions: dict[str, Callable[[int, int], int]] = {
            "&": lambda p, q: p & q,
            "|": lambda p, q: p | q,
            "^": lambda p, q: p ^ q,
        }
        return op(name, a, b), lambda env: functions[name](x(env), y(env))

    def _shift(self, depth: int) -> Pair:
        a, x = self.number(depth)
        if self._rng.random() < 0.7:
            count = self._rng.choice([0, 1, 3, 8, 31, 32, 33, 63, 64, 100, 128, 200])
            b: Json = const(count)
            y: Evaluate = lambda _env: count  # noqa: E731
        else:
            name = self._rng.choice(["a1", "b7", "c8"])
            b, y = field("in", name), lambda env: env[name]
        if self._rng.random() < 0.5:
            return op("<<", a, b), lambda env: x(env) << y(env)
        return op(">>", a, b), lambda env: x(env) >> y(env)

    def _cut(self, depth: int) -> Pair:
        a, x = self.number(depth)
        bits = self._rng.choice([1, 4, 8, 16, 31, 32, 33, 63, 64, 65, 100, 128])
        if self._rng.random() < 0.7 or bits == 1:
            return op("&", a, const((1 << bits) - 1)), lambda env: x(env) & (1 << bits) - 1
        return op("two_comp_mod", a, const(bits)), lambda env: signed(x(env), bits)

    def _other(self, depth: int) -> Pair:
        kind = self._rng.choice(["choice", "b2d", "usat", "sat", "div", "negate"])
        a, x = self.number(depth)
        bits = self._rng.choice([4, 8, 16, 32, 64])
        if kind == "choice":
            (c, t), (b, y) = self.truth(depth), self.number(depth)
            return choice(c, a, b), lambda env: x(env) if t(env) else y(env)
        if kind == "b2d":
            c, t = self.truth(depth)
            return op("b2d", c), lambda env: int(t(env))
        if kind == "usat":
            most = (1 << bits) - 1
            return op("usat_cast", a, const(bits)), lambda env: saturated(x(env), 0, most)
        if kind == "sat":
            half = 1 << (bits - 1)
            found = op("sat_cast", a, const(bits))
            return found, lambda env: saturated(x(env), -half, half - 1)
        if kind == "negate":
            return op("-", a), lambda env: -x(env)
        divisor = self._rng.choice([1, 3, 10, 256])
        ones = (1 << 64) - 1
        kept = op("&", a, const(ones))
        if self._rng.random() < 0.5:
            return op("/", kept, const(divisor)), lambda env: (x(env) & ones) // divisor
        return op("%", kept, const(divisor)), lambda env: (x(env) & ones) % divisor

    def truth(self, depth: int) -> Pair:
        rng = self._rng
        if depth > 0 and rng.random() < 0.3:
            (a, x), (b, y) = self.truth(depth - 1), self.truth(depth - 1)
            name = rng.choice(["and", "or", "not", "=="])
            if name == "not":
                return op("not", a), lambda env: not x(env)
            if name == "and":
                return op("and", a, b), lambda env: x(env) and y(env)
            if name == "or":
                return op("or", a, b), lambda env: x(env) or y(env)
            return op("==", a, b), lambda env: bool(x(env)) == bool(y(env))
        (a, x), (b, y) = self.number(depth), self.number(depth)
        name = rng.choice(["==", "!=", "<", "<=", ">", ">="])
        functions: dict[str, Callable[[int, int], bool]] = {
            "==": lambda p, q: p == q,
            "!=": lambda p, q: p != q,
            "<": lambda p, q: p < q,
            "<=": lambda p, q: p <= q,
            ">": lambda p, q: p > q,
            ">=": lambda p, q: p >= q,
        }
        return op(name, a, b), lambda env: functions[name](x(env), y(env))


def document(expressions: list[Json], outputs: list[tuple[str, int, bool]]) -> Json:
    body = [
        *p4json.bounce(),
        *[
            assign(field("out", name), e)
            for (name, _, _), e in zip(outputs, expressions, strict=True)
        ],
    ]
    actions = [p4json.action(0, "compute", body)]
    return p4json.program(INPUTS, outputs, actions, [p4json.call(0, "compute", None)])


def is_supported(expression: Json, bits: int) -> bool:
    try:
        lower(parse_program(document([expression], [("r", bits, False)])))
    except UnsupportedProgram as error:
        if "128 bits" in str(error) or "negative" in str(error):
            return False
        raise
    return True


def interesting(rng: random.Random, bits: int) -> int:
    """A value of that width, often at its edge."""
    ones = (1 << bits) - 1
    return rng.choice([0, 1, ones, ones >> 1, 1 << (bits - 1), rng.getrandbits(bits)]) & ones


@pytest.fixture(scope="module", autouse=True)
def _compiler() -> None:
    try:
        find_compiler()
    except BuildError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("opt", ["-O0", "-O2"])
def test_arithmetic_is_exact(seed: int, opt: str, tmp_path: Path) -> None:
    rng = random.Random(seed)
    generator = Generator(rng)
    outputs: list[tuple[str, int, bool]] = []
    pairs: list[Pair] = []
    refused = 0
    while len(pairs) < EXPRESSIONS:
        bits = rng.choice(RESULT_BITS)
        pair = generator.number(rng.randrange(1, 5))
        if is_supported(pair[0], bits):
            outputs.append((f"r{len(pairs)}", bits, False))
            pairs.append(pair)
        else:
            refused += 1
    assert refused < 3 * EXPRESSIONS, "most are refused: then little is tested"
    path = p4json.write(document([e for e, _ in pairs], outputs), tmp_path)
    built = build(path, opt=opt)  # random programs compare things with themselves
    switch = EngineSwitch(built.library, "test", 2, seed=1)
    for frame in range(FRAMES):
        env = {name: interesting(rng, bits) for name, bits, _ in INPUTS}
        switch.receive_frame(1, p4json.pack(INPUTS, env), frame)
        sent = switch.poll_transmit(frame)
        assert sent is not None
        got = p4json.unpack(outputs, sent[1])
        for (name, bits, _), (expression, evaluate) in zip(outputs, pairs, strict=True):
            wanted = int(evaluate(env)) & (1 << bits) - 1
            assert got[name] == wanted, f"seed {seed}: {expression} with {env}"
    switch.close()


def run_one(expression: Any, env: dict[str, int], bits: int, folder: Path) -> int:
    path = p4json.write(document([expression], [("r", bits, False)]), folder)
    switch = EngineSwitch(build(path, opt="-O1", werror=True).library, "test", 2, seed=1)
    values = {name: env.get(name, 0) for name, _, _ in INPUTS}
    switch.receive_frame(1, p4json.pack(INPUTS, values), 0)
    sent = switch.poll_transmit(0)
    switch.close()
    assert sent is not None
    return p4json.unpack([("r", bits, False)], sent[1])["r"]


def test_a_saturating_addition_stops_at_the_largest_value(tmp_path: Path) -> None:
    sum_ = op("usat_cast", op("+", field("in", "c8"), const(200)), const(8))
    assert run_one(sum_, {"c8": 100}, 8, tmp_path) == 255


def test_a_difference_below_zero_wraps_at_the_width_of_the_field(tmp_path: Path) -> None:
    assert run_one(op("-", field("in", "c8"), const(5)), {"c8": 3}, 16, tmp_path) == 0xFFFE


def test_the_top_bits_of_a_128_bit_field_come_down(tmp_path: Path) -> None:
    top = op("&", op(">>", field("in", "k128"), const(80)), const((1 << 48) - 1))
    assert run_one(top, {"k128": 0xABCDEF << 104}, 48, tmp_path) == 0xABCDEF000000


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (op(">>", op("+", field("in", "k128"), field("in", "k128")), const(1)), "128 bits"),
        (op("/", field("in", "s32"), const(3)), "may be negative"),
        (op("<<", const(1), field("in", "s4")), "negative"),
        (op("frobnicate", field("in", "c8"), const(1)), "'frobnicate'"),
    ],
)
def test_what_cannot_be_computed_exactly_is_refused_with_its_line(
    expression: Json, reason: str
) -> None:
    with pytest.raises(UnsupportedProgram, match=rf"test\.p4:1: .*{reason}"):
        lower(parse_program(document([expression], [("r", 8, False)])))
