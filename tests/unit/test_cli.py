"""One sentence, no traceback, the documented exit code."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scenarios import cli, load, worlds_choice

ROOT = Path(__file__).resolve().parents[2]


def called(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["mrc-testbed", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    out, err = capsys.readouterr()
    assert isinstance(stop.value.code, int)
    return stop.value.code, out, err


BAD = [
    (("run", "nope"), "no scenario 'nope': the catalog has"),
    (("run", "./gone.yaml"), "./gone.yaml: cannot read the file: no such file or directory"),
    (("run", "p2p", "--world", "mars"), "--world: expected live or virtual, got 'mars'"),
    (("run", "p2p", "--switch", "x"), "--switch: expected engine or bmv2, got 'x'"),
    (("run", "p2p", "--set", "topology.rate=5"), "--set topology.rate: expected a rate"),
    (("run", "p2p", "--set", "workload.dst=h99"), "--set workload.dst: no host 'h99'"),
    (("run", "p2p", "--pcap", "h0"), "--pcap: there is no interface 'h0'"),
    (
        ("run", "p2p", "--switch", "bmv2", "--world", "virtual"),
        "--switch bmv2 runs in the live world only",
    ),
    (("plan", "p2p", "--set", "topology.planes=9"), "topology: planes is 9"),
    (("explain", "ev", "x", "--src", "h0", "--dst", "h4"), "expected an EV such as 0xc008"),
    (("explain", "ev", "17", "--src", "h0", "--dst", "h4"), "EV 0x11 names no path from h0 to h4"),
    (("explain", "ev", "0xc000", "--src", "h0", "--dst", "h0"), "h0 is both ends"),
    (("explain", "ev", "0xc000", "--src", "h0", "--dst", "h77"), "no host 'h77'"),
    (("report", "/"), "/ is not a run folder: it holds no result.json"),
    (("compare", "/", "/"), "/ is not a run folder"),
]


@pytest.mark.parametrize(("arguments", "sentence"), BAD, ids=[" ".join(a) for a, _ in BAD])
def test_bad_input_is_one_sentence_and_exit_2(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    sentence: str,
) -> None:
    code, out, err = called(capsys, monkeypatch, *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("mrc-testbed: ")
    assert sentence in err
    assert err.count("\n") == 1


def test_bmv2_that_is_not_there_says_how_to_get_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    code, _, err = called(capsys, monkeypatch, "run", "p2p", "--switch", "bmv2")
    assert code == 2
    assert "simple_switch_grpc is not on the PATH" in err
    assert err.count("\n") == 1


def test_a_plan_that_this_machine_cannot_carry_is_exit_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for extra in ((), ("--json",)):
        code, out, _ = called(capsys, monkeypatch, "plan", "t0-optic-100g", *extra)
        assert code == 2
        assert "run it with --world virtual" in out


def test_many_bmv2_need_many_cores(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scenarios.doctor.cores", lambda: 7)
    code, out, _ = called(capsys, monkeypatch, "plan", "p2p", "--switch", "bmv2")
    assert code == 2
    assert "24 switches of BMv2 need 8 cores and this machine has 7" in out
    tiny = ("--set", "topology=tiny", "--set", "workload.dst=h2")
    _, out, _ = called(capsys, monkeypatch, "plan", "p2p", "--switch", "bmv2", *tiny)
    assert "BMv2 has no delay" in out
    small = ("--set", "topology=tiny-bmv2", "--set", "workload.dst=h2")
    code, out, _ = called(capsys, monkeypatch, "plan", "p2p", "--switch", "bmv2", *small)
    assert code == 0
    assert "BMv2" not in out


def test_a_run_folder_that_cannot_be_made(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    where = str(tmp_path / "file" / "out")
    code, _, err = called(capsys, monkeypatch, "run", "p2p", "--world", "virtual", "--out", where)
    assert code == 2
    assert "cannot make the run folder" in err


def test_list_plan_schema_and_explain(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = called(capsys, monkeypatch, "list", "--json")
    assert code == 0
    assert {"t0-optic", "p2p"} <= {row["name"] for row in json.loads(out)}
    code, out, _ = called(capsys, monkeypatch, "plan", "p2p", "--json")
    assert code == 0
    plan = json.loads(out)
    assert plan["fabric"]["switches"] == 24
    assert plan["transport"]["rto_exponent"] == 18
    assert plan["live"]["packets_per_second"] > 0
    code, out, _ = called(capsys, monkeypatch, "schema")
    assert code == 0
    assert "workload" in json.loads(out)["properties"]
    code, out, _ = called(
        capsys, monkeypatch, "explain", "ev", "0xc008", "--src", "h0", "--dst", "h4"
    )
    assert code == 0
    assert "p0t1n1-eth1 -> p0t0n1" in out


def test_an_unexpected_defect_is_exit_4(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(name: str, overrides: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(load, "load", broken)
    code, _, err = called(capsys, monkeypatch, "plan", "p2p")
    assert code == 4
    assert "internal error: ZeroDivisionError: oops" in err
    assert "Traceback" not in err


def test_as_a_module_from_elsewhere(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scenarios", "list"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "t0-optic" in done.stdout


def test_a_folder_nobody_wrote_is_bad_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for text in ("{}", "[]", "nonsense", '{"verdict": "pass"}'):
        (tmp_path / "result.json").write_text(text)
        for command in (("report", str(tmp_path)), ("compare", str(tmp_path), str(tmp_path))):
            code, _, err = called(capsys, monkeypatch, *command)
            assert code == 2
            assert "written by" in err


def test_no_compiler_is_one_sentence_and_exit_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(cli, "SBIN", "/nonexistent")
    monkeypatch.delenv("CC", raising=False)
    where = str(tmp_path / "out")
    code, _, err = called(capsys, monkeypatch, "run", "p2p", "--world", "virtual", "--out", where)
    assert code == 2
    assert err == "mrc-testbed: No C compiler found: install gcc and libc6-dev, or set CC.\n"


def test_without_mininet_the_virtual_world_runs_and_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = shutil.which
    monkeypatch.setattr("shutil.which", lambda c, **_: None if c == "mnexec" else found(c))
    monkeypatch.setattr(worlds_choice, "through_sudo", lambda world: False)
    size = ("--set", "workload.bytes=8MiB", "--out", str(tmp_path / "out"))
    code, out, _ = called(capsys, monkeypatch, "run", "p2p", *size)
    assert code == 0
    assert "virtual world (the live world cannot run here: mnexec is missing" in out
    code, _, err = called(capsys, monkeypatch, "run", "p2p", *size, "--world", "live")
    assert code == 2
    assert "the live world cannot run here: mnexec is missing" in err


def test_an_ev_is_explained_in_every_routing_mode(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = ("explain", "ev", "0xc008", "--src", "h0", "--dst", "h4", "--routing")
    _, structured, _ = called(capsys, monkeypatch, *ask, "structured")
    assert "p0t0n0-eth5 -> p0t1n1\n" in structured
    assert "outer" not in structured
    _, hashed, _ = called(capsys, monkeypatch, *ask, "ecmp")
    assert [hashed.count(f"plane {plane}, T0 uplink") for plane in range(4)] == [1] * 4
    assert "by hash" in hashed
    code, _, err = called(capsys, monkeypatch, *ask, "bgp")
    assert code == 2
    assert "--routing: expected srv6 or structured or ecmp, got 'bgp'" in err
