"""The two places where a packet is cut, and what each makes of it, end to end."""

from pathlib import Path

import pytest

from tests.support.cli_run import Done, run


def passed(scenario: str, folder: Path) -> Done:
    done = run(scenario, folder)
    assert done.code == 0, done.out
    return done


def test_trims_at_the_last_hop_blame_no_path(tmp_path: Path) -> None:
    done = passed("incast-trim", tmp_path / "out")
    received = done.result["ledger"]["books"]["received"]["explained"]
    assert received["rx_data_trimmed_lasthop"] > 100
    assert "rx_data_trimmed" not in received
    assert [event for event in done.events if event["kind"] == "ev_state"] == []


def test_trims_in_the_fabric_only_pass_paths_over(tmp_path: Path) -> None:
    done = passed("fabric-trim", tmp_path / "out")
    received = done.result["ledger"]["books"]["received"]["explained"]
    assert received["rx_data_trimmed"] > 100
    assert "rx_data_trimmed_lasthop" not in received
    assert done.result["metrics"]["ev.skips"] >= received["rx_data_trimmed"]
    assert [event for event in done.events if event["kind"] == "ev_state"] == []


@pytest.mark.parametrize("scenario", ["incast-trim", "fabric-trim"])
def test_no_frame_is_lost_for_want_of_room(scenario: str, tmp_path: Path) -> None:
    metrics = passed(scenario, tmp_path / "out").result["metrics"]
    assert metrics["ledger.dropped"] == 0
    assert metrics["ledger.retransmitted"] <= 1.1 * metrics["ledger.trimmed"]
