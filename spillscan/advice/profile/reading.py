"""Profiles of any format as launches."""

from __future__ import annotations

from collections.abc import Sequence

from spillscan.advice.profile.exports import reader_of
from spillscan.advice.profile.model import Profile, ProfiledLaunch
from spillscan.advice.profile.ncu import called, read
from spillscan.model import Issue
from spillscan.output.errors import InputError
from spillscan.output.safe import printable
from spillscan.reading.inputs.source import Source

_REPORT = ".ncu-rep"
_HOW = "make one with: ncu --csv --page raw --set full PROGRAM > profile.csv"


def read_all(sources: Sequence[Source]) -> Profile:
    """The launches of all inputs, in their order. :class:`InputError` where one cannot be read or is damaged, or where
    all of them hold no launch."""
    launches: list[ProfiledLaunch] = []
    issues: list[Issue] = []
    for each in sources:
        with each.open() as stream:
            profile = (reader_of(stream.head()) or read)(stream, each.uri)
        if not profile.launches and each.explicit:
            if each.uri.endswith(_REPORT):
                hint = f"write its tables: ncu -i {printable(each.uri, 200)} --csv --page raw --print-units base"
                raise InputError(f"{called(each.uri)} is a report of Nsight Compute, which only ncu reads", hint)
            why = f": {profile.issues[0].message}" if profile.issues else ""
            raise InputError(f"no launch of Nsight Compute in {called(each.uri)}{why}", _HOW)
        launches += profile.launches
        issues += profile.issues
    if not launches:
        raise InputError("no launch of Nsight Compute in these inputs", _HOW)
    return Profile(launches=tuple(launches), issues=tuple(issues))
