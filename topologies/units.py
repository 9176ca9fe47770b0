"""Quantities as people write them: 10mbit, 200us, 4MiB, 5s, 20 %.  Everything becomes an integer
in one base unit (bits a second, nanoseconds, bytes) or a fraction; nothing is ever guessed.
"""

import re
from decimal import Decimal, InvalidOperation

RATE_UNITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9, "tbit": 10**12}
TIME_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}
SIZE_UNITS = {
    "B": 1,
    **{f"{p}B": 1000**n for n, p in enumerate("kMGT", 1)},
    **{f"{p}iB": 1024**n for n, p in enumerate("KMGT", 1)},
}

_QUANTITY = re.compile(r"(\d+(?:\.\d+)?) ?([A-Za-z%]+)", re.ASCII)
_DIGITS_MAX = 18
"""Digits of a number; beyond it no quantity of ours makes sense."""


def rate_bps(text: object) -> int:
    """`10mbit` -> 10 000 000 bits a second.  Raises ValueError saying what was expected."""
    return _quantity(text, RATE_UNITS, "a rate such as 10mbit or 100gbit")


def duration_ns(text: object) -> int:
    """`200us` -> 200 000 ns.  Raises ValueError saying what was expected."""
    return _quantity(text, TIME_UNITS, "a duration such as 200us, 300ms or 5s")


def size_bytes(text: object) -> int:
    """`4MiB` -> 4 194 304.  Raises ValueError saying what was expected."""
    return _quantity(text, SIZE_UNITS, "a size such as 64KiB, 4MiB or 2000B")


def fraction(value: object) -> float:
    """`20%` or 0.2 -> 0.2.  Raises ValueError saying what was expected."""
    expected = "a share such as 20% or 0.2, from 0 to 1"
    number: float | None = None
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value)
    elif isinstance(value, str):
        match = re.fullmatch(r"(\d{1,3}(?:\.\d{1,9})?) ?%", value, re.ASCII)
        number = float(match[1]) / 100 if match else None
    if number is None or not 0 <= number <= 1:
        raise ValueError(f"expected {expected}, got {shown(value)}")
    return number


def shown(value: object) -> str:
    """A value in an error message, short and on one line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _quantity(text: object, units: dict[str, int], expected: str) -> int:
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    if match is None or match[2] not in units or len(match[1]) > _DIGITS_MAX:
        raise ValueError(f"expected {expected}, got {shown(text)}")
    try:
        exact = Decimal(match[1]) * units[match[2]]
    except InvalidOperation as error:
        raise ValueError(f"expected {expected}, got {shown(text)}") from error
    if exact != int(exact):
        raise ValueError(f"expected {expected}, got {text!r}, which is not a whole number of units")
    return int(exact)


def show_rate(bps: float) -> str:
    """38.6 Mb/s."""
    return _show(bps, (("Tb/s", 1e12), ("Gb/s", 1e9), ("Mb/s", 1e6), ("kb/s", 1e3), ("b/s", 1.0)))


def show_duration(ns: float) -> str:
    """2.55 s, 200 us."""
    return _show(ns, (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0)))


def show_size(count: float) -> str:
    """4 MiB."""
    units = (("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10), ("B", 1.0))
    return _show(count, units)


def _show(value: float, units: tuple[tuple[str, float], ...]) -> str:
    for name, scale in units:
        if abs(value) >= scale:
            return f"{value / scale:.4g} {name}"
    return f"{value:.4g} {units[-1][0]}"
