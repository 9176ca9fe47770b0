"""`python -m scenarios` is `mrc-testbed`."""

from scenarios.cli import main

main()
