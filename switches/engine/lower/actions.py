"""Actions: one C function each."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from switches.engine.lower.bits import load
from switches.engine.lower.expressions import Expressions
from switches.engine.lower.layout import Layout, word_type
from switches.engine.lower.names import Scope, comment
from switches.engine.lower.primitives import Externs, Primitives
from switches.program import Action, Const, Primitive, Source, refuse


def source_comment(source: Source | None) -> str:
    """A comment with the place in the P4 source, or nothing."""
    if source is None:
        return ""
    return f"/* {comment(f'{source}  {source.fragment}')} */"


def uses(body: list[str], name: str) -> bool:
    """Whether statements mention an identifier."""
    text = re.sub(r"/\*.*?\*/", "", "\n".join(body))
    return re.search(rf"(?<![\w.>]){name}\b", text) is not None


def unused(body: list[str], names: Sequence[str]) -> list[str]:
    """Statements that tell the compiler which arguments are not needed."""
    return [f"(void){name};" for name in names if not uses(body, name)]


@dataclass(frozen=True, slots=True)
class LoweredAction:
    function: str
    constant: str
    lines: list[str]
    exits: bool
    """Whether it may end the control."""


class Actions:
    """All actions of a program as C functions `action_X(sw, p, h, params)`."""

    def __init__(self, layout: Layout, externs: Externs, actions: Sequence[Action]) -> None:
        self._layout = layout
        self._externs = externs
        scope = Scope()
        self.by_id: dict[int, LoweredAction] = {}
        self.index: dict[int, int] = {}
        for index, action in enumerate(actions):
            self.index[action.id] = index
            self.by_id[action.id] = self._lower(action, scope.take(action.name))

    def _lower(self, action: Action, name: str) -> LoweredAction:
        locals_ = Scope(("sw", "p", "h", "params", "i", "low", "high", "size"))
        codes = [locals_.take(param.name) for param in action.params]
        expressions = Expressions(self._layout, action.params, codes)
        body = self._body(action, Primitives(self._layout, self._externs, expressions))
        loads = _param_loads(action, codes, expressions.used_params)
        body = [*loads, *body]
        body = [*unused(body, ("sw", "p", "h", "params")), *body]
        where = f" *  {action.source}" if action.source else ""
        lines = [
            f"/* action {comment(action.name)}{where.replace(' *', '')} */",
            f"static void action_{name}(struct sw *sw, struct packet *p, struct phv *h, "
            "const uint8_t *params)",
            "{",
            *[line if line.endswith(":;") else f"    {line}" for line in body],
            "}",
            "",
        ]
        exits = any(call.op in ("exit", "assert", "assume") for call in action.primitives)
        return LoweredAction(f"action_{name}", f"ACTION_{name}", lines, exits)

    def _body(self, action: Action, primitives: Primitives) -> list[str]:
        targets = {_jump_target(c, len(action.primitives)) for c in action.primitives}
        lines: list[str] = []
        for index, call in enumerate(action.primitives):
            if index in targets:
                lines.append(f"at_{index}:;")
            if call.source is not None:
                lines.append(source_comment(call.source))
            lines += self._call(call, primitives, len(action.primitives))
        if len(action.primitives) in targets:
            lines.append(f"at_{len(action.primitives)}:;")
        return lines

    def _call(self, call: Primitive, primitives: Primitives, count: int) -> list[str]:
        target = _jump_target(call, count)
        if target is None:
            return primitives.lower(call)
        if call.op == "_jump":
            return [f"goto at_{target};"]
        condition = primitives.truth(call.args[0], call.source)
        return [f"if (!{condition}) goto at_{target};"]


def _jump_target(call: Primitive, count: int) -> int | None:
    if call.op not in ("_jump", "_jump_if_zero"):
        return None
    offset = call.args[-1]
    if not isinstance(offset, Const) or not 0 <= offset.value <= count:
        raise refuse("a jump to an unknown place", call.source)
    return offset.value


def _param_loads(action: Action, codes: list[str], used: set[int]) -> list[str]:
    lines, at = [], 0
    for index, param in enumerate(action.params):
        where = f"params + {at}" if at else "params"
        if index in used:
            kind = word_type(param.bits)
            lines.append(f"const {kind} {codes[index]} = {load(where, param.bits)};")
        at += (param.bits + 7) // 8
    return lines
