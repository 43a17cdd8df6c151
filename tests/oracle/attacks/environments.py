"""Builds in many environments: status formats, locales, colours, prefixes of CI services, log limits; one unit is lost.

A case is a small build that is put together of what a real compiler printed of single units. Its truth is known by
construction: where a unit failed, was killed, left no report or spills, or the log says that it was cut, the gate must
not pass; the same build without that must pass.

What nobody can tell is counted, and asked of no reader:

- a report that is dropped where no step names its unit: what is left is a whole log of a smaller build;
- a report that is dropped where steps stream (make) and no command shows how many archs each has: output of
  ``make -j`` looks the same; nor the report of one of several archs, without commands;
- a report that is dropped from what Cargo quotes of a build script: it quotes warnings, not all that is printed.
  That a unit failed Cargo says itself, in its last line.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from spillscan.judging.policy.effective import Policy
from spillscan.judging.rules import check, judged
from spillscan.judging.verdict import gaps_of, verdict
from spillscan.reading import logs
from spillscan.reading.inputs.source import Stream
from spillscan.reading.pipeline import build_of
from tests.conftest import FIXTURES, read_text
from tests.oracle.attacks import Attack

NAME = "environments"

_MODULE = "ptxas info    : 0 bytes gmem\n"
_COMMAND = "nvcc -O3 {archs} -Xptxas -v -c {source} -o {object}"


# ---- what is compiled ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unit:
    """What a compiler printed of one source, by arch."""

    name: str
    reports: tuple[str, ...]
    spills: bool

    @property
    def source(self) -> str:
        """Its source file."""
        return f"{self.name}.cu"


@cache
def units() -> tuple[Unit, ...]:
    """The units of a real build."""
    text = read_text(FIXTURES / "build" / "make-13.0.log")
    found = []
    for part in re.split(r"(?m)^(?=nvcc )", text)[1:]:
        command, _, report = part.partition("\n")
        report = "".join(line for line in report.splitlines(True) if line.startswith(("ptxas ", "    ")))
        modules = tuple(re.split(r"(?m)(?<=\n)^(?=ptxas info    : \d+ bytes gmem)", report))
        spills = re.search(r"[1-9]\d* bytes spill", report) is not None
        found.append(Unit(command.split()[-1].removesuffix(".o"), modules, spills))
    return tuple(found)


# ---- how build systems announce it -----------------------------------------------------------------------------------

Status = Callable[[int, int, str, str, str], str]
"""The line before a step: (number, of how many, source, object, command)."""


def _ninja(status: str) -> Status:
    """``status`` as ``NINJA_STATUS`` says it, before CMake's description."""

    def line(number: int, count: int, source: str, made: str, command: str) -> str:
        values = {
            "%f": number,
            "%s": number,
            "%t": count,
            "%u": count - number,
            "%r": 0,
            "%p": f"{100 * number // count:3d}%",
            "%e": f"{number * 1.7:.3f}",
            "%o": "2.4",
            "%E": "1.2",
        }
        shown = re.sub("%[a-zA-Z]", lambda match: str(values[match[0]]), status)
        return f"{shown}Building CUDA object {made}"

    return line


def _verbose(status: str) -> Status:
    describe = _ninja(status)

    def line(number: int, count: int, source: str, made: str, command: str) -> str:
        return describe(number, count, source, made, command).partition("Building")[0] + command

    return line


def _percent(number: int, count: int, source: str, made: str, command: str) -> str:
    return f"[{100 * number // count:3d}%] Building CUDA object {made}"


def _percent_verbose(number: int, count: int, source: str, made: str, command: str) -> str:
    return f"{_percent(number, count, source, made, command)}\n{command}"


STATUSES: dict[str, Status | None] = {
    "ninja": _ninja("[%f/%t] "),
    "ninja -v": _verbose("[%f/%t] "),
    "ninja, seconds": _ninja("[%f/%t %es] "),
    "ninja, percent": _ninja("[%p] "),
    "ninja, percent and count": _ninja("[%p %f/%t] "),
    "ninja, running": _ninja("[%r/%f/%t] "),
    "ninja, colon": _ninja("%f/%t: "),
    "ninja, of": _ninja("(%f of %t) "),
    "ninja, ETA": _ninja("[%f/%t, %o/s, %es elapsed] "),
    "ninja, left": _ninja("[%u left] "),
    "ninja, none": _ninja(""),
    "ninja -v, seconds": _verbose("[%f/%t %es] "),
    "make": lambda number, count, source, made, command: command,
    "CMake and make": _percent,
    "CMake and make, verbose": _percent_verbose,
    "make -s": None,
}


# ---- where it runs ---------------------------------------------------------------------------------------------------

Environment = Callable[[Random, str, int], str]
"""What becomes of one line, without its end, by its number."""

_STEP = re.compile(r"Building CUDA object \S+")


def _stamped(form: str) -> Environment:
    def line(chance: Random, text: str, number: int) -> str:
        return form.format(minute=number // 60 % 60, second=number % 60, fraction=chance.randrange(10**6)) + text

    return line


def _coloured(before: str, behind: str) -> Environment:
    def line(chance: Random, text: str, number: int) -> str:
        return _STEP.sub(lambda match: f"{before}{match[0]}{behind}", text)

    return line


def _around(before: str, behind: str) -> Environment:
    return lambda chance, text, number: f"{before}{text}{behind}"


def _linked(chance: Random, text: str, number: int) -> str:
    """gcc's and CMake's links to files."""
    return re.sub(
        r"[\w./]+\.cu(?=:)", lambda match: f"\x1b]8;;file:///src/{match[0]}\x1b\\{match[0]}\x1b]8;;\x1b\\", text
    )


def _gcc_colours(chance: Random, text: str, number: int) -> str:
    """``-fdiagnostics-color=always``."""
    match = re.match(r"(\S+\.cu:\d+:\d+ ?[:：]) ?([^:：]+[:：] ?)(.*)", text)
    if match is None:
        return text
    return f"\x1b[01m\x1b[K{match[1]}\x1b[m\x1b[K \x1b[01;31m\x1b[K{match[2]}\x1b[m\x1b[K{match[3]}"


def _rewritten(chance: Random, text: str, number: int) -> str:
    """A terminal's status line, which ninja writes over."""
    return f"\r{text}\x1b[K" if _STEP.search(text) else text


ENVIRONMENTS: dict[str, Environment] = {
    "plain": _around("", ""),
    "CRLF": _around("", "\r"),
    "CMake colours": _coloured("\x1b[32m", "\x1b[0m"),
    "tput colours": _coloured("\x1b[32m\x1b(B", "\x1b(B\x1b[m"),
    "colours of a whole line": _around("\x1b[38;5;250m", "\x1b[0m"),
    "gcc colours": _gcc_colours,
    "links": _linked,
    "terminal": _rewritten,
    "GitHub": _stamped("2026-05-01T12:{minute:02d}:{second:02d}.{fraction:06d}0Z "),
    "gh run view": _stamped("build\tCompile\t2026-05-01T12:{minute:02d}:{second:02d}.{fraction:06d}0Z "),
    "GitLab": _stamped("2026-05-01T12:{minute:02d}:{second:02d}.{fraction:06d}Z 01O "),
    "Jenkins": _stamped("[2026-05-01T12:{minute:02d}:{second:02d}.123Z] "),
    "Jenkins, clock": _stamped("12:{minute:02d}:{second:02d}  "),
    "BuildKit": _stamped("#12 {minute}.{second} "),
    "docker compose": _around("builder-1  | ", ""),
    "Kubernetes": _stamped("2026-05-01T12:{minute:02d}:{second:02d}.{fraction:06d}000Z stderr F "),
    "Buildkite": _stamped("\x1b_bk;t=1700000{fraction:06d}\x07"),
    "TeamCity": _stamped("[12:{minute:02d}:{second:02d}]W:\t [Step 1/1] "),
    "AppVeyor": _stamped("[00:{minute:02d}:{second:02d}] "),
    "progress": lambda chance, text, number: f"Receiving: 10%\r{text}" if _STEP.search(text) else text,
    "eight bits": _around("\x9b1m\x9d0;building\x9c", "\x9bm"),
    "Azure": _stamped("2026-05-01T12:{minute:02d}:{second:02d}.{fraction:06d}0Z "),
    "pip": _around("      ", ""),
    "cargo": _around("cargo:warning=", ""),
}


# ---- what is said of a unit that failed ------------------------------------------------------------------------------

DIAGNOSTICS = (
    *(
        '{s}(10): error: identifier "undeclared_scale" is undefined',
        '{s}(3): catastrophic error: cannot open source file "m.h"',
    ),
    *(
        "{s}:4:10: fatal error: m.h: No such file or directory",
        "{s}:4:10: erreur fatale: m.h : Aucun fichier ou dossier",
    ),
    *(
        "{s}:4:10: schwerwiegender Fehler: m.h: Datei oder Verzeichnis nicht gefunden",
        "{s}:4:10: Fehler: »x« wurde nicht deklariert",
    ),
    *(
        "{s}:4:10: 致命错误：m.h：没有那个文件或目录",
        "{s}:4:10: 错误：‘x’未声明",
        "{s}:4:10: 嚴重錯誤：m.h：沒有此檔案",
    ),
    *(
        "{s}:4:10: エラー: 'x' はこのスコープで宣言されていません",
        "{s}:4:10: 致命的エラー: m.h: そのようなファイルはありません",
    ),
    *("{s}:4:10: error fatal: m.h: No existe el fichero o el directorio", "{s}:4:10: ошибка: «x» не описан"),
    *("{s}:4:10: фатальная ошибка: m.h: Нет такого файла", "{s}:4:10: erreur: « x » n'a pas été déclaré"),
    *(
        "{s}:4:10: błąd: „x” nie został zadeklarowany",
        "{s}:4:10: fel: ”x” deklarerades inte",
        "{s}:4:10: hata: 'x' bildirilmedi",
    ),
    *(
        "{s}:4:10: помилка: «x» не оголошено",
        "{s}:4:10: 오류: 'x' was not declared",
        "{s}:4:10: fejl: 'x' blev ikke erklæret",
    ),
    *(
        "{s}:4:10: virhe: 'x' ei esitelty",
        "{s}:4:10: lỗi: 'x' chưa được khai báo",
        "{s}:4:10: fout: 'x' is niet gedeclareerd",
    ),
)
TOOLS = (
    *("nvcc fatal   : Unknown option '-Xptaxs'", "nvcc error   : 'cicc' died due to signal 9 (Kill signal)"),
    *(
        "nvcc error   : 'ptxas' died due to signal 11 (Invalid memory reference)",
        "nvcc fatal   : Memory allocation failure",
    ),
    *("ptxas fatal   : Memory allocation failure", "ptxas fatal   : Unresolved extern function 'f'"),
    *("ptxas error   : Entry function 'k' uses too much shared data (0x10000 bytes, 0xc000 max)",),
    *("ptxas /tmp/x.ptx, line 15; error   : Unknown symbol 'x'", "ptxas fatal   : Ptx assembly aborted due to errors"),
    *(
        "g++: fatal error: Killed signal terminated program cc1plus",
        "g++: schwerwiegender Fehler: Killed signal terminated program cc1plus",
    ),
    *(
        "cc1plus: out of memory allocating 65536 bytes after a total of 1912832 bytes",
        "cc1plus: erreur fatale: {s}: Aucun fichier ou dossier",
    ),
    *(
        "virtual memory exhausted: Cannot allocate memory",
        "LLVM ERROR: out of memory",
        "sccache: encountered fatal error",
    ),
    *("g++: internal compiler error: Killed (program cc1plus)", "as: out of memory allocating 4064 bytes"),
    *("fatal error: error in backend: Cannot select: intrinsic %llvm.nvvm.foo",),
)
SHELLS = (
    *(
        "/bin/sh: 1: nvcc: not found",
        "/bin/sh: 1: nvcc: Permission denied",
        "/bin/bash: line 1: nvcc: command not found",
    ),
    *("./b.sh: ligne 12 : nvcc : commande introuvable", "./b.sh: Zeile 12: nvcc: Kommando nicht gefunden."),
    *(
        "./b.sh: línea 12: nvcc: orden no encontrada",
        "./b.sh: 行 12: nvcc: コマンドが見つかりません",
        "./b.sh: 第 12 行：nvcc：未找到命令",
    ),
    *(
        "./b.sh：行 12: nvcc：未找到命令",
        "./b.sh: строка 12: nvcc: команда не найдена",
        "./b.sh: linha 12: nvcc: comando não encontrado",
    ),
    *("./b.sh: riga 12: nvcc: comando non trovato", "./b.sh: 줄 12: nvcc: 명령어를 찾을 수 없음"),
    *(
        "make: nvcc: No such file or directory",
        "make: nvcc: Aucun fichier ou dossier de ce type",
        "env: 'nvcc': No such file or directory",
    ),
    *(
        "env: « nvcc »: Aucun fichier ou dossier de ce type",
        "nvcc: error while loading shared libraries: libm.so.6: cannot open shared object file: "
        "No such file or directory",
    ),
    *("Killed", "./b.sh: line 5: 12345 Killed                  nvcc -arch=sm_90 -Xptxas -v -c {s}"),
    *("./b.sh: ligne 5 : 12345 Processus arrêté      nvcc -arch=sm_90 -Xptxas -v -c {s}",),
    *("./b.sh: Zeile 5: 12345 Getötet                nvcc -arch=sm_90 -Xptxas -v -c {s}",),
    *("./b.sh: 行 5: 12345 強制終了            nvcc -arch=sm_90 -Xptxas -v -c {s}",),
    *(
        "./b.sh: line 5: 12345 Segmentation fault      (core dumped) nvcc -c {s}",
        "xargs: nvcc: exited with status 255; aborting",
    ),
    *("'nvcc' is not recognized as an internal or external command,", "zsh: command not found: nvcc"),
)
MAKES = ("Error 2", "Erreur 2", "Fehler 2", "エラー 2", "错误 2", "Ошибка 2", "Killed", "Getötet", "Błąd 2", "오류 2")
REMARKS = (
    *(
        '{s}(12): warning #177-D: variable "error" was declared but never referenced',
        "{s}:12:7: warning: unused variable 'x'",
    ),
    *("{s}:12:7: attention: variable « x » inutilisée", "{s}:12:7: Warnung: Variable »x« wird nicht verwendet"),
    *(
        "{s}:12:7: 警告：未使用的变量‘x’",
        "{s}:12:7: 警告: 使用されない変数 'x' です",
        "{s}:12:7: предупреждение: неиспользуемая переменная",
    ),
    *(
        "{s}:12:7: aviso: la variable 'x' no se usa",
        "{s}:12:7: ostrzeżenie: nieużywana zmienna",
        "{s}:12:7: 附注：在此处",
        "{s}:9:1: note: here",
    ),
)
CUTS = (
    "stderr (bazel-out/_tmp/actions/stderr-12) 1131999 exceeds maximum size of "
    "--experimental_ui_max_stdouterr_bytes=1048576 bytes; skipping",
    *("[output clipped, log limit 2MiB reached]", "[output clipped, log limit 200KiB/s reached]"),
    *(
        "Job's log exceeded limit of 4194304 bytes.",
        "The job exceeded the maximum log length, and has been terminated.",
    ),
    "The log length has exceeded the limit of 4 MB (this usually means that the test suite is raising the same "
    "exception over and over).",
    *(
        "This step has been truncated due to its large size. Download the full logs from the menu",
        ">>> Max Log Size reached 100(MB). Aborting <<<",
    ),
    "Your build output is too large to display in the browser. Only the last 400000 characters are displayed.",
)


# ---- a case ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Case:
    """One build, whole and with its fault."""

    chance: Random
    status: str
    built: list[Unit]
    archs: tuple[int, ...]

    @property
    def shows_commands(self) -> bool:
        """Whether its log says for which archs each unit is compiled."""
        return self.status == "make" or self.status.endswith("verbose") or "-v" in self.status

    def step(self, number: int, unit: Unit) -> list[str]:
        """The lines that announce a unit."""
        status = STATUSES[self.status]
        if status is None:
            return []
        made = (
            f"CMakeFiles/library.dir/{unit.source}.o"
            if "CMake" in self.status or "ninja" in self.status
            else f"{unit.name}.o"
        )
        names = ("arch=compute_80,code=sm_80", "arch=compute_90a,code=sm_90a")
        archs = " ".join(f"-gencode {names[arch]}" for arch in self.archs)
        command = _COMMAND.format(archs=archs, source=unit.source, object=made)
        return status(number + 1, len(self.built), unit.source, made, command).split("\n")

    def report(self, unit: Unit) -> list[str]:
        """What ptxas says of it."""
        return [line for arch in self.archs for line in unit.reports[arch].splitlines()]

    def lines(self, parts: Sequence[list[str] | None]) -> list[str]:
        """The log, where the report of each unit is such a part; it stops before ``None``."""
        found: list[str] = []
        for number, (unit, part) in enumerate(zip(self.built, parts, strict=True)):
            if part is None:
                break
            found += self.step(number, unit) + part
        return found


def _failure(case: Case, at: int) -> tuple[str, list[str]]:
    """(what failed, its lines) of the unit ``at``."""
    chance, unit = case.chance, case.built[at]
    kind, messages = chance.choice((("diagnostic", DIAGNOSTICS), ("tool", TOOLS), ("shell", SHELLS)))
    message = chance.choice(messages).replace("{s}", unit.source)
    said = [message]
    if chance.random() < 0.5:  # else a wrapper swallows what the build system says
        if "ninja" in case.status:
            said = [f"FAILED: CMakeFiles/library.dir/{unit.source}.o", *said]
        else:
            said.append(f"make: *** [Makefile:11: {unit.name}.o] {chance.choice(MAKES)}")
    return f"{kind} says that it failed", said


def attack(chance: Random) -> Attack:
    """Put a build together, lose a unit of it, and ask the gate about both."""
    status, environment = chance.choice(tuple(STATUSES)), chance.choice(tuple(ENVIRONMENTS))
    clean = [unit for unit in units() if not unit.spills]
    case = Case(chance, status, chance.sample(clean, chance.randint(2, 4)), chance.choice(((0,), (1,), (0, 1))))
    parts: list[list[str] | None] = [case.report(unit) for unit in case.built]
    for number, part in enumerate(parts):
        if part is not None and chance.random() < 0.3:
            parts[number] = [chance.choice(REMARKS).replace("{s}", case.built[number].source), *part]
    whole = case.lines(parts)
    at, damage, tell = chance.randrange(len(parts)), "", True
    match chance.choice(("fails", "fails", "cut", "dropped", "one arch", "spills")):
        case "fails":
            damage, failed = _failure(case, at)
            parts[at] = failed
            if chance.random() < 0.5 and at + 1 < len(parts):
                parts[at + 1] = None
            lines = case.lines(parts)
        case "cut":
            damage = "cut by a limit"
            kept = chance.randint(1, len(whole) - 1)
            lines = [*whole[:kept], chance.choice(CUTS), *(whole[chance.randint(kept, len(whole)) :])]
        case "dropped":
            damage = "report dropped"
            parts[at] = []
            lines = case.lines(parts)
            tell = _tells_of_dropped(case, environment)
        case "one arch":
            damage = "report of one arch dropped"
            parts[at] = case.built[at].reports[0].splitlines()
            case.archs = (0, 1)
            parts = [part if number == at else case.report(case.built[number]) for number, part in enumerate(parts)]
            lines = case.lines(parts)
            tell = environment != "cargo" and case.shows_commands
        case _:
            damage = "spills"
            case.built[at] = chance.choice([unit for unit in units() if unit.spills])
            parts[at] = case.report(case.built[at])
            lines = case.lines(parts)
    dressed = [_dressed(chance, each, environment) for each in (whole, lines)]
    if environment == "cargo" and "says" in damage:
        dressed[1] += _CARGO_FAILED.encode()
    label, failures = damage, []
    healthy, said = judge(dressed[0])
    if healthy != 0:
        failures.append(f"healthy twin is {healthy}: {status}, {environment}: {said[:200]}")
    found, said = judge(dressed[1])
    if not tell:
        label += ", nobody can tell"
    elif found == 0:
        odd = [line for line in lines if not line.startswith(("ptxas info", "    "))]
        failures.append(f"passed: {status}, {environment}: {odd}")
    elif damage == "spills" and found != 1:
        failures.append(f"spills are not found: {status}, {environment}: {said[:200]}")
    return Attack(label, f"{status}, {environment}", dressed[1].decode(), failures)


def _tells_of_dropped(case: Case, environment: str) -> bool:
    """Whether what is left of a build without one report says so."""
    if STATUSES[case.status] is None or environment == "cargo":
        return False
    buffered = case.status.startswith("ninja") and case.status not in ("ninja, none", "ninja, left", "ninja, percent")
    return buffered or case.shows_commands or len(case.archs) == 1


def _dressed(chance: Random, lines: Sequence[str], environment: str) -> bytes:
    dress = ENVIRONMENTS[environment]
    shown = [
        line if environment == "cargo" and line in CUTS else dress(chance, line, number)  # Cargo does not cut
        for number, line in enumerate(lines)
    ]
    return "".join(f"{line}\n" for line in shown).encode()


_POLICY = Policy()
_CARGO_FAILED = "error: failed to run custom build command for `kernels v0.1.0 (/src)`\n"


def judge(data: bytes) -> tuple[int, str]:
    """(exit status of ``check``, the gaps) for a log."""
    reading = logs.read(Stream(io.BytesIO(data), "build.log"), "build.log")
    if not reading.understood:
        return 2, "nothing is understood"
    build = build_of(reading)
    found = check(build, _POLICY)
    gaps = list(gaps_of(build, found.undecided, judged(found.terms, "build", _POLICY.fail_on), _POLICY))
    return verdict(found.findings, gaps, _POLICY).status, "; ".join(f"{gap.code}: {gap.message}" for gap in gaps)
