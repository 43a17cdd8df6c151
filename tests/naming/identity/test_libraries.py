"""Matched libraries of two builds, one fact per row."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from spillscan.judging.compare.missing_kernels import missing_kernels
from spillscan.judging.compare.pairing import comparison
from spillscan.model import Build, Kernel, Origin
from spillscan.naming.libraries import by_library, copies, counterparts, library_of, whole
from spillscan.naming.pairs import paired
from spillscan.reading.binary.images import Place
from tests.reporting import kernel


def held(path: str, symbol: str = "gemm", registers: int = 32, unit: str = "") -> Kernel:
    return kernel(symbol, registers=registers, unit=unit, origins=(Origin(input=path, line=None, format="binary"),))


def libraries(base: list[str], head: list[str]) -> set[tuple[str, str]]:
    groups = by_library([held(path) for path in base], [held(path) for path in head])
    return {
        (ours[0].origins[0].input if ours else "", theirs[0].origins[0].input if theirs else "")
        for ours, theirs in groups
        if ours or theirs
    }


TABLE = [
    ("one library is the other, whatever it is called", ["a/x.so"], ["b/y.so"], {("a/x.so", "b/y.so")}),
    (
        "the path below the folders that were given",
        ["v1/p/x.so", "v1/q/x.so"],
        ["v2/q/x.so", "v2/p/x.so"],
        {("v1/p/x.so", "v2/p/x.so"), ("v1/q/x.so", "v2/q/x.so")},
    ),
    (
        "the file name, where it moved",
        ["v1/p/x.so", "v1/p/y.so"],
        ["v2/p/x.so", "v2/q/y.so"],
        {("v1/p/x.so", "v2/p/x.so"), ("v1/p/y.so", "v2/q/y.so")},
    ),
    (
        "the name without versions",
        ["x_cuda12.so", "y_cuda12.so"],
        ["x_cuda13.so", "y_cuda13.so"],
        {("x_cuda12.so", "x_cuda13.so"), ("y_cuda12.so", "y_cuda13.so")},
    ),
    (
        "the name without the digest that auditwheel puts into it",
        ["x.libs/libnv.02b6d700.so.12", "x.libs/liba-0123abcd.so.1", "x/_C.so"],
        ["x.libs/libnv.70530407.so.12", "x.libs/liba-89ef0123.so.2", "x/_C.so"],
        {
            ("x.libs/libnv.02b6d700.so.12", "x.libs/libnv.70530407.so.12"),
            ("x.libs/liba-0123abcd.so.1", "x.libs/liba-89ef0123.so.2"),
            ("x/_C.so", "x/_C.so"),
        },
    ),
    (
        "of several that a version tells apart none is guessed",
        ["x_cuda118.so", "x_cuda120.so", "x_cuda129.so"],
        ["x_cuda118.so", "x_cuda132.so"],
        {("x_cuda118.so", "x_cuda118.so"), ("x_cuda120.so", ""), ("x_cuda129.so", ""), ("", "x_cuda132.so")},
    ),
]


@pytest.mark.parametrize(("why", "base", "head", "expected"), TABLE, ids=[row[0] for row in TABLE])
def test_libraries(why: str, base: list[str], head: list[str], expected: set[tuple[str, str]]) -> None:
    assert libraries(base, head) == expected, why


@pytest.mark.parametrize(
    "pairs",
    [
        ["v1/a.whl:x/b.so=v2/c.whl:x/b.so", "v1/a.whl:=v2/c.whl:", "v1/a.whl:gemm_80.o=v2/c.whl:gemm_80.o"],
        ["a.so:=b/c.so:"],
        ["x.so:=x.so:", "y/x.so:=y/x.so:"],
        ["r/app-1.0-cp31{0}-cp31{0}-x.whl:=d/app-1.1-2-cp31{0}-cp31{0}-x.whl:", "r/z.so:=d/z.so:"],
        ["app-1.0+cu12{0}-py3-none-x.whl:=app-1.1+cu12{0}-py3-none-x.whl:"],
        ["app-1.0+g{0}-cp31{0}-none-x.whl:=app-1.1+h{0}-cp31{0}-none-x.whl:"],
        ["a.whl:lib{0}/nv-0123abcd.so.1=b.whl:lib{0}/nv-89ef0123.so.2"],
        ["a.zip:app-1.0-py3-none-x.whl > {0}/b.so=a.zip:app-1.1-py3-none-x.whl > {0}/b.so"],
        ["gemm_80.o:=gemm_80.o:", "gemm_90.o:=", "=gemm_100.o:"],
    ],
)
def test_files_of_two_versions(pairs: list[str]) -> None:
    every = [pair.format(at).split("=") for pair in pairs for at in ("0", "1")]
    sides: list[dict[str, set[str]]] = [{}, {}]
    for pair in every:
        for side, place in zip(sides, pair, strict=True):
            if place:
                side.setdefault(place.split(":")[0], set()).add(place.split(":")[1])
    renamed = counterparts(*sides)
    for old, new in every:
        assert renamed(*(old or new).split(":"), "") == (*(new or old).split(":"), ""), (old, new)


def test_kernels_of_a_new_library_are_compared_with_no_others() -> None:
    """The older build has the same kernel in a library that is gone: another library, and no regression."""
    base = [held("v1/x_cuda118.so"), held("v1/x_cuda120.so", registers=24), held("v1/x_cuda129.so", registers=24)]
    head = [held("v2/x_cuda118.so"), held("v2/x_cuda132.so", registers=64)]
    found = paired(base, head)
    assert [(before.origins[0].input, after.origins[0].input) for before, after in found.same] == [
        ("v1/x_cuda118.so", "v2/x_cuda118.so")
    ]
    assert not found.renamed
    assert whole(found.new, head) == {"x_cuda132.so": 1}
    assert whole(found.gone, base) == {"x_cuda120.so": 1, "x_cuda129.so": 1}


def test_renamed_kernels_stay_in_their_library() -> None:
    names = [f"{word}_{number}" for word in ("flash", "fa3") for number in (64, 128, 256)]
    base = [held(f"v1/{library}.so", name) for library in ("x", "y") for name in names[:3]]
    head = [held(f"v2/{library}.so", name) for library in ("x", "y") for name in names[3:]]
    for match in paired(base, head).renamed:
        assert match.before.origins[0].input[3:] == match.after.origins[0].input[3:]
        assert match.before.key.symbol.replace("flash", "fa3") == match.after.key.symbol


def test_a_library_that_is_there_is_not_missing_whatever_folder_was_given() -> None:
    """Half of its kernels are gone, and another library of the older build: that one is named, and no number is."""
    kept = [
        held(f"{{}}/lib/{library}.so", f"{library}{at}", unit=f"#{at}") for library in ("x", "y") for at in range(8)
    ]
    sides = [
        [replace(each, origins=(replace(each.origins[0], input=each.origins[0].input.format(root)),)) for each in kept]
        for root in ("old", "new/wheel")
    ]
    base, head = Build(kernels=tuple(sides[0])), Build(kernels=tuple(sides[1][:4] + sides[1][8:]))
    assert missing_kernels(comparison(base, head).changes, base, head) == []
    base = Build(kernels=(*base.kernels, held("old/lib/z.so", "z", unit="#4")))
    (gap,) = missing_kernels(comparison(base, head).changes, base, head)
    assert (gap.code, gap.names) == ("unit-missing", ("z.so",))


def test_a_packages_library_is_kept_if_the_source_is_known() -> None:
    """Builds with line information name the source of each fat binary."""
    place = Place(members=("pkg/libx.so.1",), identifier="/home/me/gemm.cu")
    assert place.unit("x.whl", "") == "pkg/libx.so.1:gemm.cu"
    packed = held("x.whl", unit=place.unit("x.whl", ""))
    assert library_of(packed, lambda path: path) == "pkg/libx.so.1"
    assert Place(members=("gemm.o",), identifier="/home/me/gemm.cu").unit("libx.a", "") == "gemm.cu"


def test_of_a_build_that_is_one_library_none_is_reported_as_whole() -> None:
    one, other = held("x.so"), held("y.so")
    assert whole([one], [one]) == {}
    assert whole([one], [one, other]) == {library_of(one, lambda path: path): 1}


@pytest.mark.parametrize(
    ("held_by", "said"),
    [
        ([held("a/x.so"), held("b/y.so")], ["x.so", "y.so"]),
        ([held("a/x.so"), held("b/x.so")], ["a/x.so", "b/x.so"]),
        ([held("1.whl", unit="k/x.so:a.cu"), held("2.whl", unit="k/x.so:a.cu")], ["1.whl:k/x.so", "2.whl:k/x.so"]),
        ([held("a/x.so"), held("b/y.so", "other"), held("c.cubin")], [None, None, None]),
        ([held("a/x.so"), held("a/x.so", unit="#2")], [None, None]),
    ],
)
def test_copies_name_their_library_by_its_distinct_part(held_by: list[Kernel], said: list[str | None]) -> None:
    found = copies(held_by, lambda kernel: library_of(kernel, str))
    assert [found.get(id(each)) for each in held_by] == said
