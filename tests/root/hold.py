"""A runner for tests of its end: builds a tiny live world, says `ready`, waits or fails.

`python -m tests.root.hold RUN_DIR [raise]`
"""

import sys
from pathlib import Path

from tests.support.live import settings, tiny
from worlds.live import private_namespace
from worlds.live.world import LiveWorld


def hold() -> int:
    world = LiveWorld(tiny(), settings(Path(sys.argv[1])))
    try:
        world.start()
        assert world.wiring.net["h0"].cmd("echo shell").strip() == "shell"
        print("ready", flush=True)
        world.run_until(world.now_ns() + (1 if "raise" in sys.argv else 100_000_000_000))
        raise RuntimeError("as asked for")
    finally:
        world.close()


if __name__ == "__main__":
    sys.exit(private_namespace.run(hold))
