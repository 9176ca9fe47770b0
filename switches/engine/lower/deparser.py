"""The deparser: checksums, then the valid headers in front of the payload."""

from switches.engine.lower.bits import emit_lines
from switches.engine.lower.layout import VALID, Layout, TypeLayout
from switches.engine.lower.primitives import header_bytes
from switches.program import UnsupportedProgram

_TAIL = """\
    const uint32_t length = headers + payload;
    if (length > FRAME_MAX) {                     /* no port takes it */
        p->dropped = true;
        return;
    }
    if (p->offset + p->parsed < headers) {        /* headroom is used up: move the payload back */
        memmove(p->bytes + FRAME_HEADROOM + headers, p->bytes + p->offset + p->parsed, payload);
        p->offset = FRAME_HEADROOM;
    } else {
        p->offset += p->parsed - headers;
    }
    p->length = length;
    p->parsed = 0;
    uint8_t *d = p->bytes + p->offset;
"""


class DeparserLowering:
    """Lowers the deparser of a program."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._headers = layout.program.deparser
        for name in self._headers:
            if name not in layout.program.headers:
                raise UnsupportedProgram(f"deparser: {name!r} is not a header")

    def emit(self) -> list[str]:
        """The functions; the last is `deparse(sw, p)`, which calls update_checksums(p, h)."""
        return [*self._emit_functions(), *self._length(), *self._frame_length(), *self._main()]

    def _types(self) -> list[TypeLayout]:
        found = {self._layout.type_of(n).struct: self._layout.type_of(n) for n in self._headers}
        return list(found.values())

    def _emit_functions(self) -> list[str]:
        lines: list[str] = []
        for layout in self._types():
            body = emit_lines(layout)
            lines += [
                f"static inline void emit_{layout.struct}(const struct {layout.struct} *f, "
                "uint8_t *d)",
                "{",
                *([f"    {line}" for line in body] or ["    (void)f;", "    (void)d;"]),
                "}",
                "",
            ]
        return lines

    def _length(self) -> list[str]:
        lines = ["static uint32_t headers_length(const struct phv *h)", "{"]
        lines += ["    uint32_t length = 0;"] if self._headers else ["    (void)h;"]
        for name in self._headers:
            where = self._layout.header(name)
            length = header_bytes(where, self._layout.type_of(name))
            lines.append(f"    if ({where}.{VALID}) length += {length};")
        return [*lines, "    return length;" if self._headers else "    return 0;", "}", ""]

    def _frame_length(self) -> list[str]:
        return [
            "static uint32_t frame_length(const struct packet *p)",
            "{",
            "    const uint32_t length = headers_length(p->phv) + p->length - p->parsed;",
            "    return truncated_length(p, length);",
            "}",
            "",
        ]

    def _main(self) -> list[str]:
        lines = [
            "static void deparse(struct sw *sw, struct packet *p)",
            "{",
            "    (void)sw;",
            "    struct phv *h = p->phv;",
            "    update_checksums(p, h);",
            "    const uint32_t headers = headers_length(h), payload = p->length - p->parsed;",
            *_TAIL.splitlines(),
        ]
        if not self._headers:
            lines.append("    (void)d;")
        for name in self._headers:
            layout, where = self._layout.type_of(name), self._layout.header(name)
            lines += [
                f"    if ({where}.{VALID}) {{",
                f"        emit_{layout.struct}(&{where}, d);",
                f"        d += {header_bytes(where, layout)};",
                "    }",
            ]
        return [*lines, "    p->length = truncated_length(p, p->length);", "}", ""]
