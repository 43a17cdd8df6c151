"""Regular expressions of a grammar's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lark import Lark
    from lark.grammar import Symbol


class RuleExpressions:
    """Regular expressions for rules of a grammar.

    Terminals are possessive, as in a lexer, so no expression scans a text twice.
    """

    def __init__(self, lark: Lark) -> None:
        self._terminals = {terminal.name: terminal for terminal in lark.terminals}
        self._expansions: dict[str, list[list[Symbol]]] = {}
        for rule in lark.rules:
            self._expansions.setdefault(str(rule.origin.name), []).append(list(rule.expansion))
        self._captured: set[str] = set()

    def rule(self, name: str, capture: bool = True) -> str:
        """Expression for one rule."""
        repeated = [e for e in self._expansions[name] if e and e[0].name == name]
        once = [e for e in self._expansions[name] if not e or e[0].name != name]
        # The lexer tries terminals by priority; the alternation does the same.
        once.sort(key=self._priority, reverse=True)
        body = self._choice(once, capture and not repeated)
        return f"(?>{body})+" if repeated else body

    def _choice(self, expansions: list[list[Symbol]], capture: bool) -> str:
        """Alternatives with common beginnings factored out, so that an optional end stays one branch."""
        by_first: dict[Symbol, list[list[Symbol]]] = {}
        for expansion in expansions:
            if expansion:
                by_first.setdefault(expansion[0], []).append(expansion[1:])
        branches = [self._symbol(first, capture) + self._choice(rest, capture) for first, rest in by_first.items()]
        if not branches:
            return ""
        optional = any(not expansion for expansion in expansions)
        if len(branches) == 1 and not optional:
            return branches[0]
        return f"(?:{'|'.join(branches)}){'?' if optional else ''}"

    def _symbol(self, symbol: Symbol, capture: bool) -> str:
        name = str(symbol.name)
        if not symbol.is_term:
            return self.rule(name, capture)
        expression = self._terminals[name].pattern.to_regexp()
        if self._terminals[name].pattern.type == "re":
            expression = f"(?>{expression})"
        hidden = name.startswith("_") or getattr(symbol, "filter_out", False)  # an unnamed literal
        if capture and not hidden and name not in self._captured:
            self._captured.add(name)
            return f"(?P<{name}>{expression})"
        return f"(?:{expression})"

    def _priority(self, expansion: list[Symbol]) -> int:
        return min((self._terminals[str(s.name)].priority for s in expansion if s.is_term), default=0)
