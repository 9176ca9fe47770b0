"""Controls: the graph of tables and conditions becomes one structured C function each."""

from switches.engine.lower.actions import Actions, source_comment, unused
from switches.engine.lower.expressions import Expressions
from switches.engine.lower.layout import Layout
from switches.engine.lower.tables import LoweredTable, Tables
from switches.program import Conditional, Control, refuse

END = ""
"""The end of the control, as a node of its graph."""

_COPIES_MAX = 32
"""Structured programs have each node once; a graph that needs more copies of them is refused."""


class ControlLowering:
    """Lowers one control to `control_NAME(sw, p, h)`."""

    def __init__(self, layout: Layout, actions: Actions, tables: Tables, control: Control) -> None:
        self._actions = actions
        self._tables = tables
        self._control = control
        self._expressions = Expressions(layout)
        self._conditionals = {c.name: c for c in control.conditionals}
        self._names = {t.name for t in control.tables}
        self._emitted = 0
        self._joins = _joins({END: [], **{n: self._successors(n) for n in self._nodes()}}, control)

    def _nodes(self) -> list[str]:
        return [*self._conditionals, *(t.name for t in self._control.tables)]

    def _successors(self, name: str) -> list[str]:
        if name in self._conditionals:
            node = self._conditionals[name]
            return [node.if_true or END, node.if_false or END]
        return sorted({target for target, _ in self._branches(self._tables.by_name[name])})

    def emit(self) -> list[str]:
        body = self._run(self._control.start or END, END)
        body = [*unused(body, ("sw", "p", "h")), *body]
        if any("&hit" in line for line in body):
            body.insert(0, "bool hit;")
        return [
            f"/* control {self._control.name}  {self._control.source or ''} */",
            f"static void control_{self._control.name}(struct sw *sw, struct packet *p, "
            "struct phv *h)",
            "{",
            *[f"    {line}" for line in body],
            "}",
            "",
        ]

    # --- nodes

    def _run(self, name: str, stop: str) -> list[str]:
        """The statements from a node up to, not including, another."""
        lines: list[str] = []
        while name != stop:
            self._emitted += 1
            if self._emitted > _COPIES_MAX * (len(self._nodes()) + 1):
                raise refuse(
                    f"control {self._control.name!r}: its graph is not structured",
                    self._control.source,
                )
            join = self._joins[name]
            if name in self._conditionals:
                lines += self._condition(self._conditionals[name], join)
            else:
                lines += self._table(self._tables.by_name[name], join)
            name = join
        return lines

    def _condition(self, node: Conditional, join: str) -> list[str]:
        truth = self._expressions.truth(node.condition, node.source)
        yes = self._run(node.if_true or END, join)
        no = self._run(node.if_false or END, join)
        note = [source_comment(node.source)] if node.source else []
        if not yes and no:
            return [*note, f"if (!{truth}) {{", *_indent(no), "}"]
        lines = [*note, f"if ({_bare(truth)}) {{", *_indent(yes)]
        return [*lines, *(["} else {", *_indent(no)] if no else []), "}"]

    def _branches(self, lowered: LoweredTable) -> list[tuple[str, str]]:
        """(next node, C label) of a table: by action, or by hit and miss."""
        table = lowered.table
        if "__HIT__" in table.next_by_action:
            return [
                (table.next_by_action["__HIT__"] or END, "hit"),
                (table.next_by_action["__MISS__"] or END, "miss"),
            ]
        found = []
        for action_id in table.actions:
            action = self._actions.by_id[action_id]
            name = self._tables.action_name(action_id)
            if name not in table.next_by_action:
                raise refuse(f"table {table.name!r}: nothing follows {name!r}", table.source)
            found.append((table.next_by_action[name] or END, action.constant))
        if table.default is None:
            found.append((table.next_default or END, "NO_ACTION"))
        return found

    def _table(self, lowered: LoweredTable, join: str) -> list[str]:
        if lowered.direct_action is not None:
            return self._call(lowered, join)
        apply = f"{lowered.function}(sw, p, h, &hit)"
        branches = self._branches(lowered)
        exits = any(self._actions.by_id[a].exits for a in lowered.table.actions)
        leave = ["if (p->exit_) return;"] if exits else []
        if all(target == join for target, _ in branches):
            return [f"{apply};", *leave]
        if branches[0][1] == "hit":
            yes, no = (self._run(target, join) for target, _ in branches)
            lines = [f"{apply};", *leave, "if (hit) {", *_indent(yes)]
            return [*lines, *(["} else {", *_indent(no)] if no else []), "}"]
        return [*self._switch(apply, branches, leave, join)]

    def _call(self, lowered: LoweredTable, join: str) -> list[str]:
        """A table without key is a call of its default action."""
        assert lowered.direct_action is not None
        assert lowered.table.default is not None
        action = self._actions.by_id[lowered.direct_action]
        params = f"default_{lowered.index}" if lowered.table.default.args else "NULL"
        lines = [f"{action.function}(sw, p, h, {params});"]
        if action.exits:
            lines.append("if (p->exit_) return;")
        targets = [t for t, label in self._branches(lowered) if label in ("miss", action.constant)]
        return [*lines, *self._run(targets[0] if targets else END, join)]

    def _switch(
        self, apply: str, branches: list[tuple[str, str]], leave: list[str], join: str
    ) -> list[str]:
        lines = [f"switch ({apply}) {{"]
        by_target: dict[str, list[str]] = {}
        for target, label in branches:
            by_target.setdefault(target, []).append(label)
        for target, labels in by_target.items():
            body = self._run(target, join)
            lines += [f"case {label}:" for label in labels]
            lines += [*_indent([*leave, *body]), "    break;"]
        return [*lines, "}"]


def _indent(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _bare(truth: str) -> str:
    """A condition without the parentheses that enclose all of it."""
    if not (truth.startswith("(") and truth.endswith(")")):
        return truth
    depth = 0
    for index, char in enumerate(truth):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return truth[1:-1] if index == len(truth) - 1 else truth
    return truth


def _joins(successors: dict[str, list[str]], control: Control) -> dict[str, str]:
    """For each node the first that every way from it passes (its immediate post-dominator)."""
    passed: dict[str, frozenset[str]] = {END: frozenset((END,))}
    joins: dict[str, str] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in passed:
            return
        if name in path:
            raise refuse(f"control {control.name!r} goes round at {name!r}", control.source)
        if name not in successors:
            raise refuse(f"control {control.name!r}: no node {name!r}", control.source)
        for following in successors[name]:
            visit(following, (*path, name))
        common = frozenset.intersection(*(passed[f] for f in successors[name] or [END]))
        joins[name] = max(common, key=lambda n: len(passed[n]))
        passed[name] = common | {name}

    for name in successors:
        visit(name, ())
    return joins
