"""C identifiers for P4 names."""

import re

_C_WORDS = (
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch "
    "typedef union unsigned void volatile while bool true false main errno"
)
_KEYWORDS = frozenset(_C_WORDS.split())


def identifier(name: str) -> str:
    """The name with everything C does not allow made an underscore."""
    text = re.sub(r"\W", "_", name, flags=re.ASCII)
    if text[:1].isdigit():
        text = "_" + text
    return text + "_" if text in _KEYWORDS else text


class Scope:
    """Hands out identifiers that differ from each other."""

    def __init__(self, reserved: tuple[str, ...] = ()) -> None:
        self._taken = set(reserved)

    def take(self, name: str) -> str:
        base = identifier(name)
        chosen, number = base, 2
        while chosen in self._taken:
            chosen, number = f"{base}_{number}", number + 1
        self._taken.add(chosen)
        return chosen


def comment(text: str) -> str:
    """Text that is safe within a C comment, on one line."""
    line = " ".join(text.split())
    return line.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")


def c_string(text: str) -> str:
    """Text as a C string literal."""
    plain = {"\\": "\\\\", '"': '\\"', "?": "\\?", "\n": "\\n", "\t": "\\t"}
    return '"' + "".join(plain.get(char, char) for char in text) + '"'
