"""Pairs of builds with known renames: what a code base looks like before and after a refactoring.

Names are mangled by the ABI's grammar from a model of templates; records differ as they do between commits. The truth
is kept beside the builds: which kernel became which.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field, replace

from msgspec import structs

from spillscan.model import Build, Kernel, KernelKey, Usage

WORDS = re.findall(
    r"\w+",
    """
gemm softmax norm reduce scan sort transpose attention rope gelu relu conv pool scatter gather histogram spmm spmv fft
cholesky lu qr trsm axpy dot copy fill cast quantize dequantize topk argmax cumsum embedding lookup bias add mul layer
batch group rms flash paged decode prefill merge split pack unpack shuffle random sample mask causal window stencil
advect diffuse pressure velocity force integrate neighbor cell list octree bvh ray hit shade denoise blur sobel canny
resize warp rotate crop blend encode entropy huffman bitonic radix prefix segmented strided fused
""",
)
SCOPES = ("ops", "core", "detail", "kernels", "native", "cuda", "impl", "math", "linalg", "image", "physics", "render")
TYPES = ("f", "d", "i", "j", "x", "h", "6__half", "13__nv_bfloat16", "Pf", "Pd", "Pi", "PKf", "PKd", "PKi", "b", "m")
PARAMETERS = (
    "Pf",
    "PKf",
    "Pd",
    "PKd",
    "Pi",
    "PKi",
    "i",
    "m",
    "f",
    "P6__half",
    "PK6__half",
    "b",
    "x",
    "5Shape",
    "6Layout",
)
ARCHS = ("sm_80", "sm_90a")


@dataclass(frozen=True, kw_only=True)
class Name:
    """The parts of a kernel's name, mangled each."""

    scopes: tuple[str, ...]
    base: str
    arguments: tuple[str, ...]
    parameters: tuple[str, ...]

    def symbol(self) -> str:
        """The mangled name; C linkage where it has neither scopes, arguments nor parameters."""
        arguments = f"I{''.join(self.arguments)}E" if self.arguments else ""
        name = "".join(f"{len(part)}{part}" for part in (*self.scopes, self.base)) + arguments
        nested = f"N{name}E" if self.scopes else name
        return f"_Z{nested}{'v' if arguments else ''}{''.join(self.parameters) or 'v'}"


@dataclass
class Case:
    """Two builds and what became of what."""

    base: list[Kernel] = field(default_factory=list)
    head: list[Kernel] = field(default_factory=list)
    truth: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """(symbol before, arch) -> symbols after, any of which is right."""
    kinds: dict[tuple[str, str], str] = field(default_factory=dict)
    """Change of (symbol before, arch)."""

    def builds(self) -> tuple[Build, Build]:
        """Both builds, as arguments of :func:`spillscan.diff`."""
        return Build(kernels=tuple(self.base)), Build(kernels=tuple(self.head))


def usage(rng: random.Random) -> Usage:
    """A record like those of real kernels: most small, few spill."""
    spills = rng.random() < 0.1
    return Usage(
        registers=min(255, int(rng.lognormvariate(3.4, 0.6)) + 8) if not spills else rng.choice((64, 128, 168, 255)),
        stack_bytes=8 * rng.randint(1, 60) if spills else 0,
        spill_store_bytes=4 * rng.randint(1, 200) if spills else 0,
        spill_load_bytes=4 * rng.randint(1, 200) if spills else 0,
        shared_bytes=rng.choice((None, None, 128, 1024, 4096, 16384, 33792)),
        constant_bytes=((0, 352 + 8 * rng.randint(1, 12)),),
        barriers=rng.choice((0, 0, 1)),
    )


def later(rng: random.Random, before: Usage) -> Usage:
    """The record after a commit: mostly the same, sometimes some registers, sometimes new spills."""
    fate = rng.random()
    if fate < 0.5 or before.registers is None:
        return before
    if fate < 0.85:
        return structs.replace(before, registers=max(8, min(255, before.registers + rng.randint(-8, 16))))
    return structs.replace(
        before,
        registers=rng.choice((128, 168, 255)),
        stack_bytes=(before.stack_bytes or 0) + 8 * rng.randint(1, 40),
        spill_store_bytes=(before.spill_store_bytes or 0) + 4 * rng.randint(1, 100),
        spill_load_bytes=(before.spill_load_bytes or 0) + 4 * rng.randint(1, 100),
    )


def template(rng: random.Random) -> list[Name]:
    """A function and its instances."""
    scopes = tuple(rng.sample(SCOPES, rng.choice((0, 1, 2, 2, 3))))
    base = rng.choice(("_", "")).join(
        word if index == 0 else word.capitalize() if rng.random() < 0.3 else f"_{word}"
        for index, word in enumerate(rng.sample(WORDS, rng.randint(1, 3)))
    ) + rng.choice(("", "", "_kernel", "Kernel"))
    parameters = tuple(rng.choice(PARAMETERS) for _ in range(rng.randint(1, 7)))
    plain = Name(scopes=scopes, base=base, arguments=(), parameters=parameters)
    if rng.random() < 0.35:
        return [plain]
    shape = [rng.choice("tti") for _ in range(rng.randint(1, 4))]
    instances = {
        tuple(rng.choice(TYPES) if what == "t" else f"Li{2 ** rng.randint(1, 9)}E" for what in shape)
        for _ in range(rng.randint(1, 8))
    }
    return [replace(plain, arguments=arguments) for arguments in sorted(instances)]


def argument_added(rng: random.Random, name: Name) -> Name:
    """One template parameter more, first or last; each template has its own choice."""
    added = rng.choice(("Lb0E", "Lb1E", "Li4E", "f", "N4cute6LayoutE"))
    return replace(name, arguments=(*name.arguments, added) if rng.random() < 0.7 else (added, *name.arguments))


def namespace_moved(rng: random.Random, name: Name) -> Name:
    """Another namespace, one more or one less."""
    scopes = list(name.scopes)
    other = rng.choice([scope for scope in SCOPES if scope not in scopes])
    fate = rng.random()
    if scopes and fate < 0.4:
        scopes[rng.randrange(len(scopes))] = other
    elif scopes and fate < 0.6:
        del scopes[rng.randrange(len(scopes))]
    else:
        scopes.insert(rng.randint(0, len(scopes)), other)
    return replace(name, scopes=tuple(scopes))


def function_renamed(rng: random.Random, name: Name) -> Name:
    """Another base name that has something of the old one."""
    word = rng.choice(WORDS)
    form = rng.choice(("{0}_v2", "{0}_{1}", "{1}_{0}", "fast_{0}", "{0}_impl", "{0}2", "{0}_kernel_opt", "my{0}"))
    return replace(name, base=form.format(name.base, word))


def argument_type_changed(rng: random.Random, name: Name) -> Name:
    """One parameter of another type, or one more."""
    parameters = list(name.parameters)
    if rng.random() < 0.7:
        at = rng.randrange(len(parameters))
        parameters[at] = rng.choice([kind for kind in PARAMETERS if kind != parameters[at]])
    else:
        parameters.insert(rng.randint(0, len(parameters)), rng.choice(PARAMETERS))
    return replace(name, parameters=tuple(parameters))


def function_named_anew(rng: random.Random, name: Name) -> Name:
    """Another base name that has nothing of the old one."""
    words = [word for word in WORDS if word not in name.base.lower()]
    return replace(
        name, base="_".join(rng.sample(words, rng.randint(1, 2))) + ("_kernel" if "ernel" in name.base else "")
    )


def two_things_changed(rng: random.Random, name: Name) -> Name:
    """Moved and renamed, or renamed with another argument."""
    first, second = rng.sample((namespace_moved, function_renamed, argument_type_changed, argument_added), 2)
    return second(rng, first(rng, name))


RENAMES = {
    "template parameter added": argument_added,
    "namespace moved": namespace_moved,
    "function renamed": function_renamed,
    "argument type changed": argument_type_changed,
    "two things changed": two_things_changed,
    "function named anew": function_named_anew,
}


def make(seed: int, templates: int = 120, changed: float = 0.4) -> Case:
    """Two builds of ``templates`` templates; some of them are changed, each in one way for all archs."""
    rng = random.Random(seed)
    case = Case()
    taken: set[str] = set()
    for _ in range(templates):
        instances = [name for name in template(rng) if name.symbol() not in taken]
        taken |= {name.symbol() for name in instances}
        fate = rng.random()
        kind = rng.choice((*RENAMES, "split in two", "added", "removed", "replaced")) if fate < changed else ""
        choices = rng.randrange(2**32)  # one decision for all instances
        for name in instances:
            afters = _afters(kind, name, choices)
            if any(after.symbol() in taken and after != name for after in afters):
                continue
            taken |= {after.symbol() for after in afters}
            for arch in ARCHS:
                _put(case, rng, kind, name, afters, arch)
    rng.shuffle(case.base)
    rng.shuffle(case.head)
    return case


def _afters(kind: str, name: Name, choices: int) -> list[Name]:
    rng = random.Random(choices)
    if kind in RENAMES:
        return [RENAMES[kind](rng, name)]
    if kind == "split in two":
        one, other = rng.choice((("{0}_first", "{0}_second"), ("{0}_load", "{0}_store"), ("{0}_fwd", "{0}_bwd")))
        return [replace(name, base=form.format(name.base)) for form in (one, other)]
    if kind == "replaced":  # by a sibling of the same signature that does something else
        return [function_named_anew(rng, name)]
    return [] if kind == "removed" else [name]


def _put(case: Case, rng: random.Random, kind: str, name: Name, afters: list[Name], arch: str) -> None:
    before = usage(rng)
    if kind != "added":
        case.base.append(kernel(name, arch, before))
    for after in afters:
        case.head.append(kernel(after, arch, usage(rng) if kind == "replaced" else later(rng, before)))
    if kind in RENAMES or kind == "split in two":
        case.truth[name.symbol(), arch] = {after.symbol() for after in afters}
        case.kinds[name.symbol(), arch] = kind


def kernel(name: Name, arch: str, figures: Usage) -> Kernel:
    """A kernel entry of that name."""
    return Kernel(key=KernelKey(symbol=name.symbol(), arch=arch), role="entry", usage=figures)
