"""What sets the instances of one template apart: columns of their arguments, and texts made of them.

A family is spelled at one of five levels, the same for all of its instances, so that its rows align: see
:data:`LEVELS`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from spillscan.naming.tree import Node
from spillscan.naming.words import words_of

LEVELS = 5
"""0 all arguments, where they are short; 1 the arguments that differ; 2 those that say something new, types and flags
in brief; 3 no more of them than set all apart; 4 without the words that all have in common."""
WHOLE, DIFFERING, BRIEF, FEWEST, CUT = range(LEVELS)

_MODIFIER = re.compile(r" const| volatile|[*&]|\[\d*\]")
_NUMBER, _SIZES = re.compile(r"-?\d+"), re.compile(r"-?\d+(?:x-?\d+)*")
_ALIASES = {
    **dict.fromkeys(("float",), "f32"),
    **dict.fromkeys(("double",), "f64"),
    **dict.fromkeys(("__half", "half", "half_t", "Half", "float16_t"), "f16"),
    **dict.fromkeys(("nv_bfloat16", "__nv_bfloat16", "bfloat16_t", "BFloat16"), "bf16"),
    **dict.fromkeys(("__nv_fp8_e4m3", "float_e4m3_t", "Float8_e4m3fn"), "e4m3"),
    **dict.fromkeys(("__nv_fp8_e5m2", "float_e5m2_t", "Float8_e5m2"), "e5m2"),
    "tfloat32_t": "tf32",
    "__nv_bfloat162": "bf16x2",
    "__half2": "f16x2",
    "half2": "f16x2",
    **dict.fromkeys(("int", "int32_t"), "i32"),
    **dict.fromkeys(("uint", "uint32_t"), "u32"),
    **dict.fromkeys(("long", "llong", "int64_t"), "i64"),
    **dict.fromkeys(("ulong", "ullong", "uint64_t"), "u64"),
    "short": "i16",
    "ushort": "u16",
    "char": "i8",
    "schar": "i8",
    "uchar": "u8",
    "int8_t": "i8",
    "uint8_t": "u8",
}
_TYPES = frozenset(_ALIASES) | frozenset(_ALIASES.values())
_FLAGS = {"true": "T", "false": "F"}
_LONG_NUMBER, _MOST_COMMON = 8, 5
_WORDS = (0, 2, 4)
"""The ranks of columns of types and names: each says by itself what it is, so that it need not stand in every row."""
_SHARE_OF_NEED = 4
"""A column that a fourth of the members needs is shown for all, so that they align."""
_MOST_TRIED = 48
"""Columns of which each is tried for whether it can go; a real template has less."""


class Column(Struct):
    """One place among the arguments of a family; a row for each of its members."""

    path: tuple[int, ...]
    """Where it is: the third argument of the first is ``(0, 2)``."""
    rows: list[str | None]
    """What stands there, in full; ``None`` where a member has no such place."""
    below: list[Column] = field(default_factory=list)
    """What differs among the arguments of what stands there."""
    _spelled: dict[int, list[str]] = field(default_factory=dict)

    def texts(self, level: int) -> list[str]:
        """Its rows as they are spelled at a level; empty where a member has none."""
        level = BRIEF if level == FEWEST else level  # these two differ in which columns they show
        found = self._spelled.get(level)
        if found is None:
            names: dict[str | None, str] = {None: ""}
            names.update(shortest(dict.fromkeys(row for row in self.rows if row is not None), level))
            found = self._spelled[level] = [names[row] for row in self.rows]
        return found


def differences(nodes: Sequence[Node | None], path: tuple[int, ...] = ()) -> list[Column]:
    """The columns in which ``nodes``, which are distinct, differ."""
    if len(nodes) < 2:
        return []
    groups: dict[str | None, list[int]] = defaultdict(list)
    for at, node in enumerate(nodes):
        groups[node.head if node is not None else None].append(at)
    found: dict[tuple[int, ...], Column] = {}
    for members in groups.values():
        lists = [node.args if (node := nodes[at]) is not None else () for at in members]
        for place in range(max(map(len, lists))):
            cells = [each[place] if place < len(each) else None for each in lists]
            number: dict[Node | None, int] = {}
            which = [number.setdefault(cell, len(number)) for cell in cells]
            for column in differences(list(number), (*path, place)):
                _spread(column, [members[at] for at in range(len(members))], which, len(nodes), found)
    below = [found[key] for key in sorted(found)]
    if len(groups) == 1:
        return below
    heads = [node.head if node is not None else None for node in nodes]
    return [Column(path, heads, below)]


def _spread(
    column: Column, members: Sequence[int], which: Sequence[int], size: int, into: dict[tuple[int, ...], Column]
) -> None:
    """Put the rows of a column of some members among those of all."""
    found = into.get(column.path)
    if found is None:
        found = into[column.path] = Column(column.path, [None] * size)
    for at, row in zip(members, which, strict=True):
        found.rows[at] = column.rows[row]
    below = {each.path: each for each in found.below}
    for each in column.below:
        _spread(each, members, which, size, below)
    found.below = [below[key] for key in sorted(below)]


# ---- words --------------------------------------------------------------------------------------------------------


def shortest(heads: Iterable[str], level: int = DIFFERING) -> dict[str, str]:
    """Each of several names by its last words, with as much before and behind them as sets it apart from the others."""
    forms = {head: _forms(head, brief=level >= BRIEF) for head in heads}
    step = dict.fromkeys(forms, 0)
    for _ in range(max(map(len, forms.values()), default=0)):
        found = {head: forms[head][min(at, len(forms[head]) - 1)] for head, at in step.items()}
        seen = Counter(found.values())
        clashes = [head for head in forms if seen[found[head]] > 1 and step[head] < len(forms[head]) - 1]
        if not clashes:
            break
        for head in clashes:
            step[head] += 1
    found = {head: forms[head][at] for head, at in step.items()}
    if level < CUT or len(found) < 2:
        return found
    cut = _without_common(found)
    return cut if len(set(cut.values())) == len(set(found.values())) else found


_SETTING = re.compile(r"(\d+) ([ws])(?:arp|tage)s?")
"""``4 warps``, ``3 stages``: ``4w``, ``3s``."""


def _forms(head: str, brief: bool) -> list[str]:
    """From short to long: ``f32``, ``float*``, ``ns::f``, ``ns::f#2``."""
    plain = _unmodified(head)
    modifiers = head[len(plain) :].replace(" const", "").replace(" volatile", "")
    parts = plain.split("::")
    last = parts[-1]
    forms = []
    if brief:
        if _NUMBER.fullmatch(last) and len(last) > _LONG_NUMBER:
            forms.append(f"…{last[-4:]}")
        setting = _SETTING.fullmatch(last)
        forms.append(setting[1] + setting[2] if setting else _ALIASES.get(last, last.partition("#")[0] or last))
    forms += [last, last + modifiers]
    forms += ["::".join(parts[-size:]) + modifiers for size in range(2, min(len(parts), 6) + 1)]
    return list(dict.fromkeys([*forms, head]))


def _unmodified(text: str) -> str:
    """A type without ``const``, ``*`` and the like at its end."""
    if text.isalnum():  # most are words or numbers
        return text
    end = len(text)
    for modifier in reversed(list(_MODIFIER.finditer(text))):
        if modifier.end() < end:
            break
        end = modifier.start()
    return text[:end]


def _without_common(found: dict[str, str]) -> dict[str, str]:
    """Without the words that all begin or end with, and then as many of the first words as set them apart."""
    words = {head: words_of(text) for head, text in found.items() if len(text) > 6 and text.isidentifier()}
    for end in (0, -1):
        while len(words) > 1 and len({each[end] for each in words.values()}) == 1 and min(map(len, words.values())) > 1:
            words = {head: each[1:] if end == 0 else each[:-1] for head, each in words.items()}
    prefixes: Counter[tuple[str, ...]] = Counter()
    for each in words.values():
        prefixes.update(tuple(each[:size]) for size in range(1, len(each) + 1))
    for head, each in words.items():
        for size in range(1, len(each)):
            start = each[:size]
            if len("".join(start)) > 2 and start[-1].strip("_") and prefixes[tuple(start)] == 1:
                words[head] = start
                break
    return {**found, **{head: "".join(each).strip("_") or found[head] for head, each in words.items()}}


def whole(node: Node, known: dict[Node, str]) -> str:
    """``Op<float, 4>``: its arguments as they stand, by their last words."""
    text = known.get(node)
    if text is None:
        word = _unmodified(node.word)
        inner = ", ".join(whole(each, known) for each in node.args)
        text = known[node] = (f"{word}<{inner}>" if inner else word) + node.word[len(word) :]
    return text


# ---- choosing -----------------------------------------------------------------------------------------------------


def spelled(columns: Sequence[Column], size: int, level: int) -> list[Parts]:
    """What each of ``size`` members is set apart by at a level: the words that it needs; where rows would be alike so,
    all of them; and where they still would, a dash for what is missing."""
    flat = _flattened(columns)
    chosen = _chosen([column.texts(level) for column in flat], level)
    shown = _shown(columns, {id(flat[at]): texts for at, texts in chosen.items()})

    def row_of(several: Sequence[_Shown], row: int, care: int) -> list[Part]:
        found: list[Part] = []
        for texts, needed, inside in several:
            below = row_of(inside, row, care) if inside else []
            text = texts[row] if texts is not None else None
            if text and (care or ((needed is None or needed[row]) and not _is_off(text, level))):
                found.append((text, _flags_joined(below, level)))
            elif text == "" and care > 1:
                found.append(("-", ()))
            else:
                found += below
        return found

    rows = [_flags_joined(row_of(shown, row, 0), level) for row in range(size)]
    for care in (1, 2):
        alike = Counter(rows)
        if len(alike) < size:
            again = [row for row, found in enumerate(rows) if alike[found] > 1]
            for row in again:
                rows[row] = _flags_joined(row_of(shown, row, care), level)
    return rows


def _is_off(text: str, level: int) -> bool:
    """Whether a flag with a label is not set: in brief, only those that are set are shown."""
    return level >= BRIEF and text.startswith("!")


def flags(columns: Sequence[Column], level: int) -> list[tuple[int, ...]]:
    """Where the flags stand that are shown at a level as letters, in their order."""
    flat = _flattened(columns)
    chosen = _chosen([column.texts(level) for column in flat], level)
    return [flat[at].path for at in sorted(chosen) if {*flat[at].rows} <= {*_FLAGS, None}] if level >= BRIEF else []


def _flattened(columns: Iterable[Column]) -> list[Column]:
    """The columns, each before those below it."""
    return [each for column in columns for each in (column, *_flattened(column.below))]


class _Shown(NamedTuple):
    """A column that is shown, or has such below it."""

    texts: list[str] | None
    """``None``: only what is below it is shown."""
    needed: list[bool] | None
    """Which members need it; ``None``: all."""
    below: list[_Shown]


def _shown(columns: Iterable[Column], chosen: Mapping[int, tuple[list[str], list[bool] | None]]) -> list[_Shown]:
    """The chosen columns, and those above them."""
    found = []
    for column in columns:
        texts, needed = chosen.get(id(column), (None, None))
        below = _shown(column.below, chosen)
        if texts is not None or below:
            found.append(_Shown(texts, needed, below))
    return found


Part = tuple[str, tuple["Part", ...]]
"""A word, and what stands in brackets behind it."""
Parts = tuple[Part, ...]


def joined(parts: Iterable[Part], level: int) -> str:
    """``128, Tile<64, TFT>``."""
    separator = ", " if level < FEWEST else ","
    return separator.join([f"{text}<{joined(below, level)}>" if below else text for text, below in parts])


def _flags_joined(parts: Sequence[Part], level: int) -> Parts:
    """Flags side by side become a word, a dash for one that is missing."""
    if level < BRIEF:
        return tuple(parts)
    found: list[Part] = []
    for text, below in parts:
        short = _FLAGS.get(text, text) if not below else text
        if short in ("T", "F", "-") and not below and found and not found[-1][1] and not found[-1][0].strip("TF-"):
            found[-1] = found[-1][0] + short, ()
        else:
            found.append((short, below))
    return tuple(found)


def _chosen(columns: list[list[str]], level: int) -> dict[int, tuple[list[str], list[bool] | None]]:
    """The columns that are shown, and who needs their words; ``None``: everyone. Of those that divide the members alike
    one is enough; then no more than are needed, and of tiles but the first no more than one size."""
    if level < BRIEF or not columns:
        return {at: (texts, None) for at, texts in enumerate(columns)}
    order = sorted(range(len(columns)), key=lambda at: (_rank(columns[at]), at))
    alike: dict[tuple[int, ...], int] = {}
    numbers: dict[int, tuple[int, ...]] = {}
    for at in order:
        key = _numbered(columns[at])
        if alike.setdefault(key, at) == at:
            numbers[at] = key
    if level < FEWEST:
        return {at: (columns[at], None) for at in numbers}
    kept: dict[int, tuple[list[str], list[bool] | None]] = {}
    keys: dict[int, tuple[int, ...]] = {}
    parts, ids, tiles = 1, (0,) * len(columns[0]), 0
    for at, key in numbers.items():
        finer = _numbered(zip(ids, key, strict=True))
        if max(finer) + 1 == parts:
            continue
        texts = columns[at]
        if _is_tile(texts):
            tiles += 1
            if tiles > 1 or all(text.endswith("x1") for text in texts):
                texts = next((one for one in _sizes(texts) if _numbered(zip(ids, one, strict=True)) == finer), texts)
        keys[at] = _numbered(texts)
        rank = _rank(texts)
        kept[at] = texts, _split(ids, finer, rank) if rank in _WORDS else None
        ids, parts = finer, max(finer) + 1
    if len(kept) < _MOST_TRIED:
        for at in reversed([at for at in kept if _rank(columns[at]) not in _WORDS]):
            rest = [key for other, key in keys.items() if other != at]
            if rest and len(set(zip(*rest, strict=True))) == parts:
                del kept[at], keys[at]
    return kept


def _split(before: Sequence[int], after: Sequence[int], rank: int) -> list[bool] | None:
    """Which members are set apart from some by this and by nothing before; ``None``: many."""
    parts = Counter(old for old, _ in set(zip(before, after, strict=True)))
    split = [parts[old] > 1 for old in before]
    return split if rank or split.count(True) * _SHARE_OF_NEED < len(split) else None


def _numbered(texts: Iterable[object]) -> tuple[int, ...]:
    """Equal ones by equal numbers, in the order of coming."""
    number: dict[object, int] = {}
    return tuple([number.setdefault(text, len(number)) for text in texts])


def _is_tile(texts: Sequence[str]) -> bool:
    return "x" in texts[0] and len({text.count("x") for text in texts}) == 1 and all(map(_SIZES.fullmatch, texts))


def _sizes(texts: Sequence[str]) -> list[list[str]]:
    """Each of the sizes of tiles."""
    return [list(one) for one in zip(*(text.split("x") for text in texts), strict=True)]


def _rank(texts: Sequence[str]) -> int:
    """How gladly people read a column: types and tiles, numbers, names, flags; last, long names and columns of several
    kinds. If most of its texts decided, a few instances that go could put the columns of all into another order."""
    kinds: set[int] = set()
    for text in {*texts} - {""}:
        if text in _TYPES or ("x" in text and _SIZES.fullmatch(text)):
            kinds.add(0)
        elif _NUMBER.fullmatch(text):
            kinds.add(1)
        elif text in _FLAGS or text.startswith("!") or f"!{text}" in texts:
            kinds.add(3)
        else:
            kinds.add(2 if len(text) < 20 else 4)
    return kinds.pop() if len(kinds) == 1 else 4


def common(nodes: Sequence[Node]) -> list[str]:
    """The types and tiles that all of several trees have in one place, each once."""
    found: dict[str, None] = {}
    several = [list(nodes)]
    while several and len(found) < _MOST_COMMON:
        group = several.pop(0)
        first = group[0]
        if any(node.head != first.head for node in group):
            continue
        word = _ALIASES.get(first.word, first.word)
        if not first.args and (word in _TYPES or ("x" in word and _SIZES.fullmatch(word))):
            found[word] = None
        places = min(len(node.args) for node in group)
        several += [list(dict.fromkeys(node.args[place] for node in group)) for place in range(places)]
    return list(found)
