"""Fields of any width at any bit come off the wire, move, and go back on it."""

import random
from pathlib import Path

import pytest

from switches.engine.build import BuildError, build, find_compiler
from switches.engine.library import EngineSwitch
from tests.engine import p4json
from tests.engine.p4json import Json, assign, field

WIDTHS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 20, 24, 31, 32, 33, 47, 48, 63, 64, 65, 100, 127, 128)
WIDE = (129, 136, 200, 256)
FIELDS = 24
FRAMES = 40

Fields = list[tuple[str, int, bool]]


def random_fields(rng: random.Random) -> Fields:
    fields = [(f"f{i}", rng.choice(WIDTHS + WIDE[: i % 2 * 4]), False) for i in range(FIELDS)]
    total = sum(bits for _, bits, _ in fields)
    return [*fields, ("pad", 8 - total % 8, False)]


def document(inputs: Fields, outputs: Fields) -> Json:
    """A program that copies each field to the field of that name."""
    copies = [assign(field("out", name), field("in", name)) for name, _, _ in inputs]
    bounce = p4json.bounce()
    actions = [p4json.action(0, "copy", [*bounce[:2], *copies, *bounce[2:]])]
    return p4json.program(inputs, outputs, actions, [p4json.call(0, "copy", None)])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("opt", ["-O0", "-O2"])
def test_fields_come_off_the_wire_and_go_back_in_another_order(
    seed: int, opt: str, tmp_path: Path
) -> None:
    try:
        find_compiler()
    except BuildError as error:
        pytest.skip(str(error))
    rng = random.Random(seed)
    inputs = random_fields(rng)
    outputs = rng.sample(inputs, len(inputs))
    path = p4json.write(document(inputs, outputs), tmp_path)
    library = build(path, opt=opt, werror=True).library
    switch = EngineSwitch(library, "bits", 2, seed=1)
    for frame in range(FRAMES):
        values = {name: rng.getrandbits(bits) for name, bits, _ in inputs}
        payload = rng.randbytes(rng.randrange(9))
        switch.receive_frame(1, p4json.pack(inputs, values) + payload, frame)
        sent = switch.poll_transmit(frame)
        assert sent is not None
        assert sent[1] == p4json.pack(outputs, values) + payload, f"seed {seed}: {inputs}"
    switch.close()
