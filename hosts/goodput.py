"""New payload bytes by time: the series a receiver reports."""


class Goodput:
    """Bins of `bin_ns`, the first beginning at the start of the job; empty bins are not told.

    A bin is told once, when it is over: `take` leaves out the one that still runs unless it is the
    last word.
    """

    __slots__ = ("_bin_ns", "_bytes", "_done", "_end_ns", "_start_ns")

    def __init__(self, bin_ns: int) -> None:
        assert bin_ns > 0
        self._bin_ns = bin_ns
        self._start_ns = 0
        self._end_ns = bin_ns
        self._bytes = 0
        self._done: list[list[int]] = []

    def begin(self, t0_ns: int) -> None:
        """Bins are aligned to t0; what came before it stays in a bin of its own alignment."""
        self._close()
        self._start_ns, self._end_ns = t0_ns, t0_ns + self._bin_ns

    def add(self, count: int, now_ns: int) -> None:
        if now_ns >= self._end_ns:
            self._close()
            self._move_to(now_ns)
        self._bytes += count

    def take(self, now_ns: int, *, last: bool = False) -> list[list[int]]:
        """[bin start in ns, bytes] of bins that are over and were not told yet."""
        if last or now_ns >= self._end_ns:
            self._close()
            if now_ns >= self._end_ns:
                self._move_to(now_ns)
        out, self._done = self._done, []
        return out

    def _move_to(self, now_ns: int) -> None:
        self._start_ns += (now_ns - self._start_ns) // self._bin_ns * self._bin_ns
        self._end_ns = self._start_ns + self._bin_ns

    def _close(self) -> None:
        if self._bytes:
            self._done.append([self._start_ns, self._bytes])
            self._bytes = 0
