"""The command line.

Exit codes: 0 pass, 1 an expectation failed, 2 bad input, 3 invalid (this machine could not keep
time), 4 internal error; 130 interrupted.
"""

import contextlib
import json
import os
import shutil
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from scenarios import compare as comparison
from scenarios import (
    display,
    doctor,
    execute,
    explain,
    load,
    plan,
    report,
    run_folder,
    schema_json,
    worlds_choice,
)
from scenarios import reference as reference_tables
from scenarios.plan import Advice
from scenarios.runner import Hook
from scenarios.verdict import EXIT_BAD_INPUT, EXIT_CODES, Verdict
from topologies import addressing
from topologies import load as topology_files
from topologies.routing import Routing
from topologies.strict_yaml import InputError
from worlds.api import BackEnd

SBIN = "/usr/sbin:/sbin"
"""Where half of what we call lives; Debian's users do not have it on their PATH."""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="A laboratory for MRC, the multipath RDMA transport.",
)
explain_app = typer.Typer(no_args_is_help=True, help="Explain a number in words.")
app.add_typer(explain_app, name="explain")

Name = Annotated[str, typer.Argument(help="a catalog name, or the path of a YAML file")]
Set = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="override a key, such as topology.rate"),
]
World = Annotated[str | None, typer.Option("--world", help="live or virtual; the best there is")]
Switch = Annotated[str, typer.Option("--switch", help="engine or bmv2")]
Json = Annotated[bool, typer.Option("--json", help="machine-readable on standard output")]
Folder = Annotated[Path, typer.Argument(help="a run folder")]


@app.command()
def run(
    scenario: Annotated[str, typer.Argument(help="a catalog name or a file")] = "t0-optic",
    world: World = None,
    switch: Switch = "engine",
    seed: Annotated[int | None, typer.Option(help="instead of the scenario's", min=0)] = None,
    overrides: Set = [],  # noqa: B006 - typer copies it
    out: Annotated[Path | None, typer.Option(help="the run folder, exactly")] = None,
    as_json: Json = False,
    junit: Annotated[Path | None, typer.Option(help="also write JUnit XML here")] = None,
    pcap: Annotated[
        str,
        typer.Option(metavar="PORTS", help="interfaces to capture, such as h0-eth0,p0t0n0-eth4"),
    ] = "",
    force: Annotated[bool, typer.Option(help="run live whatever `plan` says")] = False,
    program: Annotated[Path, typer.Option(hidden=True)] = execute.P4_BUILD / "mrc.json",
    corrupt_byte: Annotated[str, typer.Option(metavar="HOST:INDEX", hidden=True)] = "",
) -> None:
    """Run a scenario and judge it."""
    loaded = load.load(scenario, overrides)
    _one_of("--world", world, ("live", "virtual", None))
    back_end = _back_end(switch)
    hook = _hook(corrupt_byte)
    if not program.is_file():
        raise InputError(f"--program: there is no file {program}")
    _check_ports(loaded, pcap)
    if worlds_choice.through_sudo(world):
        worlds_choice.repeat_under_sudo(sys.argv[1:])
    choice = worlds_choice.choose(world, back_end)
    screen = display.console(stderr=as_json)
    if choice.world == "live" and not force:
        _heed(_advice(plan.summary(loaded, doctor.ceiling_pps()), back_end), screen)
    options = execute.Options(
        seed=loaded.scenario.seed if seed is None else seed,
        folder=run_folder.create(loaded.scenario.name, out),
        switch=back_end,
        json=as_json,
        junit=junit,
        pcap=tuple(port for port in pcap.split(",") if port),
        program=program,
        hook=hook,
        command=tuple(sys.argv),
    )
    screen.print(f"{loaded.scenario.name}: {choice.world} world ({choice.reason})", markup=False)
    raise typer.Exit(
        worlds_choice.enter(choice, lambda: execute.execute(loaded, choice, options, screen))
    )


@app.command(name="list")
def list_scenarios(as_json: Json = False) -> None:
    """The scenarios of the catalog and what each shows."""
    rows = [
        (name, " ".join(load.load(name).scenario.claim.split())) for name in load.catalog_names()
    ]
    if as_json:
        typer.echo(json.dumps([{"name": name, "claim": claim} for name, claim in rows], indent=2))
        return
    for name, claim in rows:
        typer.echo(f"{name:14} {claim.split('.  ')[0].split('. ')[0].rstrip('.')}")


@app.command(name="plan")
def plan_command(
    scenario: Name,
    overrides: Set = [],  # noqa: B006
    switch: Switch = "engine",
    as_json: Json = False,
) -> None:
    """What a run would build, its cost, and whether this machine carries it live (else exit 2)."""
    summary = plan.summary(load.load(scenario, overrides), doctor.ceiling_pps())
    advice = _advice(summary, _back_end(switch))
    if as_json:
        typer.echo(json.dumps({**summary, "advice": advice and advice[1]}, indent=2))
    else:
        for text in plan.lines(summary):
            typer.echo(text)
        if advice:
            typer.echo(advice[1])
    if advice and advice[0] == "refuse":
        raise typer.Exit(EXIT_BAD_INPUT)


@app.command(name="doctor")
def doctor_command(
    as_json: Json = False,
    ci: Annotated[bool, typer.Option("--ci", help="exit 1 if the live world is missing")] = False,
    measure: Annotated[
        bool, typer.Option(help="measure the ceiling, about 20 s; else what was measured last")
    ] = True,
) -> None:
    """What this machine lacks, each with its remedy, and how much it carries."""
    checks = doctor.checks()
    ceiling, why = _ceiling(measure and all(check.ok for check in checks))
    if as_json:
        typer.echo(
            json.dumps(
                {"checks": [c.as_json() for c in checks], "ceiling_pps": ceiling, "from": why},
                indent=2,
            )
        )
    else:
        for check in checks:
            typer.echo(f"{'ok' if check.ok else 'NO':3} {check.name:18} {check.detail}")
            if not check.ok:
                typer.echo(f"    {check.remedy}")
        typer.echo(f"ceiling: about {ceiling} data packets a second in the live world ({why})")
    bad = [check for check in checks if not check.ok and (ci or check.needed)]
    raise typer.Exit(1 if bad else 0)


@explain_app.command("ev")
def explain_ev(
    ev: Annotated[str, typer.Argument(help="an entropy value, such as 0xc008")],
    src: Annotated[str, typer.Option(help="the sending host")],
    dst: Annotated[str, typer.Option(help="the receiving host")],
    topology: Annotated[str, typer.Option(help="a topology of the catalog")] = "lab",
    mode: Annotated[str, typer.Option("--routing", help="srv6, structured or ecmp")] = "srv6",
) -> None:
    """The path an EV names, and the address at every hop."""
    _one_of("--routing", mode, tuple(Routing))
    fabric = topology_files.load(topology)
    for text in explain.ev(fabric, explain.parse_ev(ev), src, dst, Routing(mode)):
        typer.echo(text)


@app.command(name="report")
def report_command(folder: Folder) -> None:
    """Write report.html of a run folder anew and say where it is."""
    with _as_written(folder):
        page = report.html(run_folder.read(folder))
    (folder / "report.html").write_text(page, encoding="utf-8")
    typer.echo(str(folder / "report.html"))


@app.command()
def compare(
    before: Folder,
    after: Annotated[Path, typer.Argument(help="another run folder")],
    as_json: Json = False,
) -> None:
    """Two runs side by side: verdicts, expectations, metrics."""
    with _as_written(after):
        rows = comparison.rows(run_folder.read(before).result, run_folder.read(after).result)
    if as_json:
        typer.echo(json.dumps([row.as_json() for row in rows], indent=2))
        return
    typer.echo(comparison.text(rows))


@app.command()
def clean() -> None:
    """Remove the run folders of this checkout."""
    folders = [path.parent for path in run_folder.RUNS.glob("*/result.json")]
    for folder in folders:
        shutil.rmtree(folder)
    typer.echo(f"removed {len(folders)} run folders from {run_folder.RUNS}")


@app.command()
def shell(folder: Folder) -> None:
    """Mininet's prompt and the counters of a live run in progress, from another terminal."""
    raise typer.Exit(worlds_choice.shell(folder))


@app.command(name="schema")
def schema_command() -> None:
    """The JSON schema of scenario files, for editors."""
    typer.echo(json.dumps(schema_json.document(), indent=2))


@app.command(hidden=True)
def reference() -> None:
    """Write the tables of docs/scenarios.md anew."""
    page = run_folder.CHECKOUT / "docs" / "scenarios.md"
    prose = page.read_text(encoding="utf-8").partition(reference_tables.BEGIN)[0]
    text = f"{prose}{reference_tables.BEGIN}\n\n{reference_tables.markdown()}"
    page.write_text(text, encoding="utf-8")
    typer.echo(str(page))


@app.command(hidden=True)
def fuzz(
    seeds: Annotated[int, typer.Option(help="how many", min=1)] = 100,
    seed: Annotated[int, typer.Option(help="the first", min=0)] = 1,
) -> None:
    """Random small fabrics, jobs and faults in the virtual world; prints what repeats a failure."""
    from scenarios import fuzz as fuzzing

    raise typer.Exit(fuzzing.main(seeds, seed))


@app.command(hidden=True)
def bench() -> None:
    """Ratios of speed (design section 13), printed and written to runs/bench.json."""
    from scenarios import bench as benchmarks

    raise typer.Exit(benchmarks.main(run_folder.RUNS / "bench.json"))


@app.command(hidden=True)
def bar(
    seeds: Annotated[int, typer.Option(help="runs of each scenario", min=1)] = 1,
) -> None:
    """Flow completion times beside the simulator's (docs/bar.md), also written to runs/bar.json."""
    from scenarios import bar as comparison

    raise typer.Exit(comparison.main(run_folder.RUNS / "bar.json", seeds))


def main() -> None:
    """The entry point: whatever goes wrong is one sentence and a documented exit code."""
    sys.exit(_main())


def _main() -> int:
    os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}:{SBIN}"
    try:
        app(prog_name="mrc-testbed")
    except InputError as error:
        return _complain(str(error), EXIT_BAD_INPUT)
    except KeyboardInterrupt:
        return _complain("interrupted", execute.INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        return _complain(f"{(error.strerror or str(error)).lower()}{where}", EXIT_BAD_INPUT)
    except Exception as error:
        log = run_folder.CHECKOUT / ".cache" / "error.txt"
        log.parent.mkdir(exist_ok=True)
        log.write_text(traceback.format_exc())
        text = f"internal error: {type(error).__name__}: {error} (details in {log})"
        return _complain(text, EXIT_CODES[Verdict.ERROR])
    return 0


def _complain(text: str, code: int) -> int:
    print(f"mrc-testbed: {text}", file=sys.stderr)
    return code


def _ceiling(measure: bool) -> tuple[int, str]:
    """Data packets a second, and how they are known."""
    if not measure:
        return round(doctor.ceiling_pps()), "not measured now"
    print("measuring how many packets this machine carries, about 20 s ...", file=sys.stderr)
    try:
        return doctor.measure_ceiling_pps(), "measured"
    except doctor.CannotMeasure as error:
        return round(doctor.ceiling_pps()), f"not measured: {error}"


@contextlib.contextmanager
def _as_written(folder: Path) -> Iterator[None]:
    """A folder that lacks what every run writes is not ours to explain."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        text = f"{folder} was not written by this version of the testbed: {error!r}"
        raise InputError(text) from None


def _one_of(option: str, value: str | None, allowed: tuple[str | None, ...]) -> None:
    if value not in allowed:
        names = " or ".join(name for name in allowed if name)
        raise InputError(f"{option}: expected {names}, got {value!r}")


def _hook(text: str) -> Hook:
    host, _, index = text.partition(":")
    if text and not index.isdecimal():
        raise InputError(f"--corrupt-byte: expected HOST:INDEX, got {text!r}")
    return Hook({host: int(index)} if text else {})


def _check_ports(loaded: load.Loaded, pcap: str) -> None:
    known = {
        addressing.interface_name(end.node, end.port)
        for link in loaded.fabric.links
        for end in (link.lower, link.upper)
    }
    for port in filter(None, pcap.split(",")):
        if port not in known:
            raise InputError(f"--pcap: there is no interface {port!r}: they are named like h0-eth0")


def _back_end(name: str) -> BackEnd:
    """Raises InputError."""
    _one_of("--switch", name, ("engine", "bmv2"))
    return "bmv2" if name == "bmv2" else "engine"


def _advice(summary: dict[str, Any], back_end: BackEnd) -> Advice | None:
    if back_end == "bmv2" and (advice := plan.bmv2_advice(summary, doctor.cores())):
        return advice
    return plan.advice(summary["live"]["load"])


def _heed(advice: Advice | None, screen: Any) -> None:
    if advice is None:
        return
    level, text = advice
    if level == "refuse":
        raise InputError(f"{text} (--force runs it all the same)")
    screen.print(f"note: {text}", markup=False)
