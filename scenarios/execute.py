"""One run from a checked scenario to a run folder and an exit code."""

import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from scenarios import derive, display, run_folder, verdict, worlds_choice
from scenarios.load import Loaded
from scenarios.observe import Observed
from scenarios.runner import Hook, Refused, Runner
from scenarios.verdict import EXIT_BAD_INPUT, EXIT_CODES, Judgement, Verdict
from scenarios.worlds_choice import Choice
from switches.engine.build import BuildError
from switches.program import UnsupportedProgram
from worlds.api import BackEnd, World, WorldError, WorldSettings, WorldUnavailable

INTERRUPTED = 130
INTERRUPTED_TEXT = "the run was interrupted"
NOT_HERE = (Refused, WorldUnavailable, BuildError, UnsupportedProgram)
"""What this machine, world or engine cannot do: one sentence, exit 2."""

P4_BUILD = run_folder.CHECKOUT / "p4" / "build"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line said about a run."""

    seed: int
    folder: Path
    switch: BackEnd = "engine"
    json: bool = False
    junit: Path | None = None
    pcap: tuple[str, ...] = ()
    program: Path = P4_BUILD / "mrc.json"
    hook: Hook = field(default_factory=Hook)
    command: tuple[str, ...] = ()


def execute(loaded: Loaded, choice: Choice, options: Options, out: Console) -> int:
    """The exit code.  Prints progress and verdict; nothing escapes but SystemExit."""
    run = _Run(loaded, choice, options, out)
    try:
        return run.do()
    except NOT_HERE as error:
        print(f"mrc-testbed: {str(error).splitlines()[0]}", file=sys.stderr)
        return EXIT_BAD_INPUT
    finally:
        run_folder.hand_back(options.folder)


@dataclass(slots=True)
class _Run:
    loaded: Loaded
    choice: Choice
    options: Options
    out: Console
    started: float = field(default_factory=time.monotonic)
    observed: Observed | None = None

    def do(self) -> int:
        judgement, error, code = self._judge()
        result = verdict.result(
            self.loaded,
            judgement,
            world=self.choice.world,
            switch=self.options.switch,
            seed=self.options.seed,
            error=error,
        )
        self._write(result, judgement)
        self._show(result)
        return EXIT_CODES[judgement.verdict] if code is None else code

    def _judge(self) -> tuple[Judgement, str | None, int | None]:
        """Verdict, what broke in our own hands, and an exit code that is not the verdict's."""
        world: World | None = None
        try:
            world = worlds_choice.make(self.choice, self.loaded.fabric, self._settings())
            runner = Runner(
                self.loaded,
                world,
                self.options.seed,
                display.ProgressLines(self.out),
                self.options.hook,
            )
            self.observed = runner.observed
            runner.run()
            return (
                verdict.judge(self.loaded, runner.derived, runner.ends, runner.observed),
                None,
                None,
            )
        except NOT_HERE as error:
            (self.options.folder / "logs" / "error.txt").write_text(f"{error}\n")
            raise
        except KeyboardInterrupt:
            return verdict.no_judgement(INTERRUPTED_TEXT), INTERRUPTED_TEXT, INTERRUPTED
        except WorldError as error:
            return verdict.no_judgement(str(error)), str(error), None
        except Exception as error:
            (self.options.folder / "logs" / "error.txt").write_text(traceback.format_exc())
            text = f"internal error: {type(error).__name__}: {error}"
            return verdict.no_judgement(text), text, None
        finally:
            if world is not None:
                world.close()

    def _settings(self) -> WorldSettings:
        return WorldSettings(
            seed=self.options.seed,
            program_json=self.options.program,
            p4info=P4_BUILD / "mrc.p4info.txtpb",
            run_dir=self.options.folder,
            switch=derive.switch_settings(self.loaded.scenario),
            pcap_ports=self.options.pcap,
            back_end=self.options.switch,
        )

    def _write(self, result: dict[str, Any], judgement: Judgement) -> None:
        seconds = round(time.monotonic() - self.started, 3)
        machine = run_folder.machine(self.options.command, self.choice.reason)
        written = run_folder.Written(
            self.loaded.data, result, self.observed, machine, seconds, judgement.books
        )
        run_folder.write(self.options.folder, written)
        junit = self.options.junit
        if junit is not None:
            is_new = not junit.exists()
            text = (self.options.folder / "junit.xml").read_text(encoding="utf-8")
            junit.write_text(text, encoding="utf-8")
            if is_new:
                run_folder.hand_back(junit)

    def _show(self, result: Mapping[str, Any]) -> None:
        self.out.print()
        if result["expectations"]:
            self.out.print(display.findings(result))
            self.out.print()
        for text in display.problems(result):
            self.out.print(f"  {text}", markup=False)
        if self.choice.world == "live" and (clock := display.clock_line(result["fidelity"])):
            self.out.print(clock, markup=False)
        self.out.print(f"twin: {result['twin']}", markup=False)
        self.out.print(display.verdict(result))
        if result["verdict"] == Verdict.ERROR and (self._log()).exists():
            self.out.print(f"  details: {self._log()}", markup=False)
        self.out.print(f"report: {self.options.folder / 'report.html'}", markup=False)
        if self.options.json:
            sys.stdout.write(run_folder.result_text(result))

    def _log(self) -> Path:
        return self.options.folder / "logs" / "error.txt"
