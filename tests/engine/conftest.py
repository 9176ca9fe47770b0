"""Compiled once a session, and only where there is a C compiler."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from switches.engine.library import EngineSwitch
from tests.engine import tiny

MakeSwitch = Callable[..., EngineSwitch]


@pytest.fixture(scope="session")
def tiny_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if tiny.COMPILER is None:
        pytest.skip("no C compiler on the PATH")
    target = tmp_path_factory.mktemp("tiny") / "libtiny.so"
    library = tiny.RUNTIME / "library.c"
    return tiny.compile_tiny(target, "-O1", "-g", "-shared", "-fPIC", also=(library,))


@pytest.fixture
def make_switch(tiny_library: Path) -> Iterator[MakeSwitch]:
    """Switches of the tiny program, freed at the end."""
    made: list[EngineSwitch] = []

    def make(port_count: int = 4, *, seed: int = 1) -> EngineSwitch:
        switch = EngineSwitch(tiny_library, f"tiny{len(made)}", port_count, seed)
        made.append(switch)
        return switch

    yield make
    for switch in made:
        switch.close()
