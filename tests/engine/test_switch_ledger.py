"""The switch half of the ledger: every frame is somewhere, and no counter can be spared."""

from switches.api import CONTROL_PRIORITY, DATA_PRIORITY, PortConfig, QueueLimit
from switches.engine.device import DROP_REASONS, Device
from tests.engine.conftest import MakeSwitch
from tests.engine.drive import run_until, send
from tests.engine.tiny import Request, frame

DEAD, SLOW, FAST = 1, 2, 3
NEEDS_A_RUNAWAY_PROGRAM = {"no_buffer"}


def books(device: Device) -> tuple[int, dict[str, int]]:
    """Frames taken from the wires, and everything that became of them."""
    ports = device.port_stats()
    queues = [queue for port in ports for queue in port.queues]
    stats = device.switch_stats()
    found = {f"drops.{reason}": stats.drops[reason] for reason in DROP_REASONS}
    found["sent"] = sum(port.tx_packets for port in ports)
    found["link_down"] = sum(port.link_down for port in ports)
    found["queue_full"] = sum(queue.dropped for queue in queues)
    found["trim_drop"] = sum(queue.trim_drop for queue in queues)
    found["inside"] = stats.buffers
    return sum(port.rx_packets for port in ports), found


def test_every_loss_is_counted_once_and_every_counter_is_needed(make_switch: MakeSwitch) -> None:
    switch = make_switch(4)
    limits = (QueueLimit(3, 1 << 20), QueueLimit(2, 1 << 20))
    switch.device.configure_port(SLOW, PortConfig(rate_bps=8_000_000, queues=limits))
    switch.port_changed(DEAD, False, 0)
    frames = [frame(SLOW, priority=DATA_PRIORITY, size=1000) for _ in range(6)]
    frames += [frame(SLOW, priority=CONTROL_PRIORITY, keep=144, size=1000) for _ in range(5)]
    frames += [frame(DEAD), frame(FAST), frame(9), frame(FAST, priority=7), bytes(9800)]
    frames += [frame(FAST, request=r) for r in (Request.DROP_IN, Request.DROP_OUT, Request.LOOP)]
    frames += [frame(FAST, request=Request.MULTICAST, key=200)]
    for received in frames:
        send(switch, 0, received, 0)
    run_until(switch, 1_500_000)  # some have left, some have not

    taken, found = books(switch.device)
    assert taken == len(frames) == sum(found.values())
    for name, count in found.items():
        if name.removeprefix("drops.") not in NEEDS_A_RUNAWAY_PROGRAM:
            assert count > 0, f"{name} is not exercised"
            assert taken != sum(found.values()) - count
