"""From a P4 program to C."""

from switches.engine.lower.pipeline import lower

__all__ = ["lower"]
