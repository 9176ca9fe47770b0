"""What this machine can run, decided once and by trying; everything left out is a stated skip."""

import functools
import shutil
import subprocess

import hypothesis
import pytest

hypothesis.settings.register_profile(
    "mrc",
    deadline=None,  # timing here is noise; counts and order are what we assert
    derandomize=True,  # the same examples everywhere; fuzzing with fresh seeds is its own command
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("mrc")


@functools.cache
def why_no_namespaces() -> str | None:
    """None if this process may make network, PID and mount namespaces; else the reason."""
    for command in ("unshare", "ip", "mnexec"):
        if shutil.which(command) is None:
            return f"{command} is not installed"
    tried = subprocess.run(
        ["unshare", "--net", "--pid", "--mount", "--fork", "--kill-child", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    return None if tried.returncode == 0 else f"no namespaces here: {tried.stderr.strip()}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("root") is not None and (why := why_no_namespaces()):
        pytest.skip(f"live world: {why}")
    if item.get_closest_marker("bmv2") is not None and shutil.which("simple_switch_grpc") is None:
        pytest.skip("BMv2 is not installed (simple_switch_grpc is not on the PATH)")
