"""Every choice between sources can be made the other way, and bytes still arrive."""

import pytest

from hosts.mrc import choices
from hosts.wire.packet import Packet
from tests.virtual.pair import BASE_RTT_NS, Pair

OTHER_WAYS = [
    ("TIMEOUT_RETIRES_AT_ONCE", True),
    ("TRIM_CONSUMES_RETRIES", True),
    ("PROBE_REPLY_MARKED_TO_SKIP", False),
    ("PROBE_REPLY_PATHS", 1),
    ("ABOVE_WINDOW_NACK", False),
    ("AETH_MSN_OFFSET", -1),
    ("REORDER_TOLERANCE_WINDOWS", 0.5),
    ("DOUBT_PROBES", 1),
]


@pytest.mark.parametrize(("name", "value"), OTHER_WAYS, ids=[name for name, _ in OTHER_WAYS])
def test_the_other_way_works_too(name: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, name, value)
    pair = Pair(planes=2, mpr_units=1)
    for plane in range(2):
        pair.impair(0, plane, loss=0.02)
        pair.impair(1, plane, loss=0.02)
    pairs = [pair.write(300_000, imm=i, wr_id=i) for i in range(4)]
    pair.run_to_end(4)
    assert all(source.buffer == target.buffer for source, target in pairs)


def test_by_the_letter_a_lost_sack_at_the_tail_can_retire_a_good_ev(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Why TIMEOUT_RETIRES_AT_ONCE is off: the loss of answers looks like the loss of data."""

    def answers(packet: Packet) -> bool:
        return packet.opcode in (0xDC, 0xD1)

    retired = {}
    for at_once in (False, True):
        monkeypatch.setattr(choices, "TIMEOUT_RETIRES_AT_ONCE", at_once)
        pair = Pair(planes=2)
        pair.drop(answers)
        pair.write(8192)
        pair.run(8 * BASE_RTT_NS)
        pair.heal()
        pair.run_to_end()
        retired[at_once] = bool(pair.a.retired())
    assert retired == {False: False, True: True}
