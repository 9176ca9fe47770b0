"""Errors typed by whose fault they are."""


class WireError(ValueError):
    """Bytes from outside that are not what they claim to be: counted by `reason` and dropped."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class UsageError(ValueError):
    """The caller of an API did what its contract forbids; raised at once, nothing changed."""
