"""What a kernel costs before it runs, the size of its machine code and its compile time: against limits and an older
build. Without a limit anything is fine: compile times are never the same twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from spillscan.judging.rules._declared import Family, Said, Terms, Threshold, finding
from spillscan.model import Change, Finding, Limit, Rule
from spillscan.model.figures import value_of
from spillscan.output.nouns import sizes

if TYPE_CHECKING:
    from spillscan.model.findings import CodeChange

MAX_BYTES = Limit("max_code_bytes", "most bytes of machine code of a kernel", "build", 35)
MAX_GROWTH = Limit(
    "max_code_growth_percent", "most percent by which the machine code of a kernel may grow", "change", 75
)


class Growth(Struct, frozen=True, kw_only=True):
    """A figure that may grow by some percent since an older build, where a limit is set."""

    rule: Rule
    """The rule; it has one limit."""
    most: Threshold
    """The figure, in one build."""
    what: str
    """As messages call it."""
    texts: Callable[..., Sequence[str]]
    """Two values that are held against each other."""

    def regressions(self, change: Change, terms: Terms) -> Iterator[Said]:
        """It grew by more than the policy tolerates."""
        most, before, after = terms.limit(*self.rule.limits), *self._sides(change, terms)
        if most is not None and before is not None and after is not None and 100 * (after - before) > most * before:
            percent = f"+{100 * (after - before) / before:.0f}%" if before else "from nothing"
            was, now = self.texts(before, after)
            yield self.rule, f"has more {self.what}: {was} → {now} ({percent}, {most}% allowed)"

    def undecided(self, change: Change, terms: Terms) -> Said | None:
        """Of a kernel of both builds one at least does not show it."""
        judged = terms.limit(*self.rule.limits) is not None and change.before is not None and change.after is not None
        return (self.rule, self.most.silent) if judged and None in self._sides(change, terms) else None

    def _sides(self, change: Change, terms: Terms) -> list[int | None]:
        return [None if each is None else self.most.figure(each, terms) for each in (change.before, change.after)]


SIZE = Growth(
    rule=Rule("code-growth", "error", ("change",), ("code",), (MAX_GROWTH,), recorded_as="code-size"),
    most=Threshold(
        rule=Rule("code-size", "error", ("build",), ("code",), (MAX_BYTES,)),
        key="bytes",
        figure=lambda kernel, _: value_of("code_bytes", kernel),
        message=lambda kernel, terms, value, most: "has {} of machine code, {} allowed".format(*sizes(value, most)),
        silent="no input shows its machine code; give its binary",
    ),
    what="machine code",
    texts=sizes,
)

CODE = Limit(
    "code",
    "unchanged: a kernel's machine code must be identical (diff --with code)",
    "change",
    77,
    words=("unchanged", "any"),
)
OTHER = Rule("other-code", "error", ("change",), ("code",), (CODE,))


def _other(change: Change, terms: Terms) -> Iterator[Said]:
    """Its code differs, and must not."""
    if terms.demanded(CODE) and change.code == "differs":
        yield OTHER, "has different machine code; the policy requires the same"


def noted(code: Iterable[CodeChange], known: Sequence[Finding]) -> list[Finding]:
    """A note on each kernel whose code differs, unless a ``known`` finding says so."""
    said = {id(each.kernel) for each in known if each.rule == OTHER.id}
    return [
        finding(OTHER, f"has different machine code: {each.reasons[0]}", each.change.kernel, "note")
        for each in code
        if each.verdict == "differs" and id(each.change.kernel) not in said
    ]


def _hidden(change: Change, terms: Terms) -> Said | None:
    """The code of a kernel of both builds was not compared."""
    pair = change.before is not None and change.after is not None
    if not pair or not terms.demanded(CODE) or change.kernel.caller or change.code not in (None, "not compared"):
        return None
    return OTHER, "its machine code was not compared; diff --with code says why"


FAMILIES = (
    *(
        Family(
            thresholds=(each.most,), rules=(each.rule,), regressions=each.regressions, undecided_change=each.undecided
        )
        for each in (SIZE,)
    ),
    Family(rules=(OTHER,), regressions=_other, undecided_change=_hidden),
)
