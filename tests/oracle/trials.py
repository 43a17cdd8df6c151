"""A project that is built again and again under ``spillscan run``, and what must hold of each build."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event, Thread

from spillscan.builds import gaps, record
from spillscan.model.units import Unit

_ARGUMENT = re.compile(r'"((?:[^"\\]|\\.)*)"')


class Trial:
    """One project in a folder of its own."""

    def __init__(
        self, name: str, place: Path, nvcc: str, variables: Mapping[str, str] | None = None, unsaid: str = ""
    ) -> None:
        """``unsaid``: what no gate may name."""
        self._name, self.place, self._unsaid = name, place, unsaid
        self._environment = os.environ | {
            "PATH": os.pathsep.join((os.path.dirname(nvcc), os.path.dirname(sys.executable), os.environ["PATH"])),
            "XDG_CACHE_HOME": str(place.parent / "cache"),
            **(variables or {}),
        }
        self.wrong: list[str] = []
        self.held = 0
        place.mkdir(parents=True, exist_ok=True)

    def run(self, command: str, *options: str, **more: str) -> subprocess.CompletedProcess[str]:
        """A build, watched."""
        words = ["spillscan", "run", *options, "--", "sh", "-c", command]
        environment = self._environment | more
        return subprocess.run(
            words, cwd=self.place, env=environment, capture_output=True, text=True, errors="replace", check=False
        )

    def interrupted(self, command: str, name: str) -> int:
        """The status of a build that Ctrl-C ends while the source ``name`` is compiled."""
        words = ["spillscan", "run", "--", "sh", "-c", command]
        build = subprocess.Popen(
            words,
            cwd=self.place,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        done = Event()
        killer = Thread(target=when_compiled, args=(name, ("cicc", "ptxas"), done, lambda _: _interrupt(build.pid)))
        killer.start()
        status = build.wait()
        done.set()
        killer.join()
        return status

    def killed(self, command: str, name: str, tools: tuple[str, ...]) -> None:
        """A build in which the compiler, or a part of it, is killed that works on a source."""
        done = Event()
        killer = Thread(target=when_compiled, args=(name, tools, done, lambda pid: os.kill(pid, signal.SIGKILL)))
        killer.start()
        self.run(command)
        done.set()
        killer.join()

    def gate(self, *inputs: str) -> tuple[int, str]:
        """(exit status, output) of ``spillscan check``."""
        done = subprocess.run(
            ["spillscan", "check", "--set", "max_spill_bytes=1000000", *(inputs or (record.NAME,))],
            cwd=self.place,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def check(self, what: str, status: int, *said: str, inputs: tuple[str, ...] = ()) -> bool:
        """The gate must end with ``status`` and name what is ``said``."""
        ended, text = self.gate(*inputs)
        missing = [word for word in said if word not in text]
        if self._unsaid and self._unsaid in text:
            missing.append(f"not {self._unsaid}")
        return self.expect(f"{what}: exit {ended}, not {status}; {missing}\n{text}", ended == status and not missing)

    def expect(self, what: str, holds: bool) -> bool:
        """Something that must hold."""
        self.held += 1
        if not holds:
            self.wrong.append(f"{self._name}: {what}")
        return holds

    @property
    def units(self) -> dict[str, Unit]:
        """By the name of their source, without its suffix."""
        build = record.read(str(self.place / record.NAME))
        return {} if build is None else {Path(unit.source).stem: unit for unit in gaps.units(build)}

    def traced(self, command: str) -> set[str]:
        """The sources that nvcc is called to compile in a watched build, as strace sees it, but for compiler checks."""
        log = self.place.parent / "trace"
        self.run(f"strace -f -qq -s 65536 -e trace=execve -o {log} {command}")
        found = set()
        for call in re.findall(r'execve\("[^"]*/nvcc", \[(.*?)\], 0x', log.read_text(errors="replace")):
            words = [json.loads(f'"{word}"') if "\\" not in word else word for word in _ARGUMENT.findall(call)]
            if {"-c", "-dc", "--fatbin"} & {*words} and not {"-M", "-E"} & {*words}:
                sources = [word for word in words if word.endswith(".cu")]
                found |= {Path(word).stem for word in sources if not re.search(r"CMakeFiles/\d|meson-private", word)}
        return found - {"CMakeCUDACompilerId"}


def _interrupt(group: int) -> None:
    """What a terminal does at Ctrl-C."""
    os.killpg(group, signal.SIGINT)


def when_compiled(name: str, tools: tuple[str, ...], done: Event, act: Callable[[int], None]) -> None:
    """Call ``act`` with the process of one of ``tools`` that works on a source, once."""
    while not done.wait(0.002):
        for place in Path("/proc").glob("[0-9]*"):
            try:
                words = (place / "cmdline").read_bytes().split(b"\0")
                named = b"-M" not in words and any(name.encode() in word for word in words)
                if named and os.path.basename(os.readlink(place / "exe")) in tools:
                    act(int(place.name))
                    return
            except OSError:
                continue
