"""pytest plugin: fixture ``spillscan_build``, the build named by ``--spillscan-build`` or pytest's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import spillscan

_HELP = "inputs of the fixture spillscan_build: logs, libraries, folders"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the option and the ini setting, whose paths are relative to the ini file."""
    parser.getgroup("spillscan").addoption("--spillscan-build", action="append", metavar="INPUT", help=_HELP)
    parser.addini("spillscan_build", _HELP, type="paths")


@pytest.fixture(scope="session")
def spillscan_build(pytestconfig: pytest.Config) -> spillscan.Build:
    """The build, read once per session; tests that use it fail if no input is set."""
    paths = pytestconfig.getoption("spillscan_build") or pytestconfig.getini("spillscan_build")
    if not paths:
        pytest.fail("no build: pass --spillscan-build INPUT, or set spillscan_build", pytrace=False)
    import spillscan  # not needed in every run of pytest

    try:
        return spillscan.scan(paths)
    except spillscan.SpillscanError as error:
        pytest.fail(f"spillscan: {error}", pytrace=False)
