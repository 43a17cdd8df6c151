"""Whatever is wrong with a policy is one line that names the place, and exit 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillscan.judging.policy.effective import Layer
from spillscan.judging.policy.reading import layer, load
from spillscan.model.nodes import parse_toml, parse_yaml
from spillscan.output.errors import UsageError
from tests.conftest import FIXTURES, run

LOG = FIXTURES / "ptxas" / "plain-13.0.log"

YAML = [
    ("max_register: 3\n", "p.yaml:1: unknown key 'max_register'; did you mean 'max_registers'?"),
    ("\nMax-Registers: 3\n", "p.yaml:2: unknown key 'Max-Registers'; did you mean 'max_registers'?"),
    ("kernels:\n- match: a\n  max_spill: 3\n", "p.yaml:3: unknown key 'max_spill'; did you mean 'max_spill_bytes'?"),
    ("severity:\n  spil: off\n", "p.yaml:2: unknown rule 'spil'; did you mean 'spill'?"),
    (
        "severity: {wgmma_serialized: off}\n",
        "p.yaml:1: unknown rule 'wgmma_serialized'; did you mean 'wgmma-serialized'?",
    ),
    ("fail_on: error\nstrict: true\nfail_on: note\n", "p.yaml:3: 'fail_on' appears twice; first at p.yaml:1"),
    ("max_registers: many\n", "p.yaml:1: must be a whole number of 0 or more or none, not 'many'"),
    ("max_registers: -1\n", "p.yaml:1: must be a whole number of 0 or more or none, not -1"),
    ("max_registers: true\n", "p.yaml:1: must be a whole number of 0 or more or none, not true"),
    ("max_registers:\n", "p.yaml:1: must be a whole number of 0 or more or none, not nothing"),
    ("max_registers: [1]\n", "p.yaml:1: must be a whole number of 0 or more or none, not a list"),
    ("max_registers: 99999999999\n", "p.yaml:1: must be a whole number of 0 or more or none, not 99999999999"),
    ("expect_kernels: none\n", "p.yaml:1: must be a whole number of 0 or more, not 'none'"),
    ("strict: yes\n", "p.yaml:1: strict must be true or false, not 'yes'"),
    ("fail_on: fatal\n", "p.yaml:1: must be error, warning, note or never, not 'fatal'"),
    ("severity: {spill: never}\n", "p.yaml:1: must be error, warning, note or off, not 'never'"),
    ("labels: [spill]\n", "p.yaml:1: must be a mapping, not a list"),
    ("labels: {'ns::gemm': [relu]}\n", "p.yaml:1: 'ns::gemm' is not a template's name"),
    ("labels: {gemm: relu}\n", "p.yaml:1: must be a list, not 'relu'"),
    ("labels: {gemm: ['<b>']}\n", "p.yaml:1: '<b>' is not a parameter's name"),
    ("severity: [spill]\n", "p.yaml:1: must be a mapping, not a list"),
    ("kernels: {match: a}\n", "p.yaml:1: must be a list, not a mapping"),
    ("kernels:\n- gemm\n", "p.yaml:2: must be a mapping, not 'gemm'"),
    (
        "kernels:\n- max_registers: 3\n",
        "p.yaml:2: an entry of kernels must say which it means; give match, arch or unit",
    ),
    ("kernels:\n\n- match: a\n", "p.yaml:3: this entry sets nothing; give one of max_spill_bytes, "),
    ("kernels:\n- {match: [], strict: true}\n", "p.yaml:2: unknown key 'strict'"),
    ("kernels:\n- {match: [], max_registers: 1}\n", "p.yaml:2: an empty list; name at least one, or leave the key out"),
    ("kernels:\n- {match: 3, max_registers: 1}\n", "p.yaml:2: must be a list, not 3"),
    (
        "kernels:\n- match: 're:gemm('\n  max_registers: 1\n",
        "p.yaml:2: 're:gemm(' is not a regular expression: missing ), ",
    ),
    ("kernels:\n- match: a\n  launch: {dynamic_shared_bytes: 4}\n", "p.yaml:3: a launch must say threads_per_block"),
    (
        "kernels:\n- match: a\n  launch: {threads_per_block: 2048}\n",
        "p.yaml:3: must be a whole number from 1 to 1,024, not 2048",
    ),
    ("devices: [H1000]\n", "p.yaml:1: unknown device 'H1000'; nearest known: "),
    ("version: 2\n", "p.yaml:1: version 2 is not known; this release reads version 1"),
    ("version: true\n", "p.yaml:1: version true is not known; this release reads version 1"),
    ("- a\n", "p.yaml:1: must be a mapping, not a list"),
    ("just words\n", "p.yaml:1: must be a mapping, not 'just words'"),
    ("max_registers: 3\n  fail_on: x\n", "p.yaml:2: broken YAML: mapping values are not allowed here"),
    ("kernels: [a\n", "p.yaml:2: broken YAML: "),
    ("a: 1\n---\nb: 2\n", "p.yaml:2: a second document begins here"),
    ("a: \x07\n", "p.yaml:1: broken YAML: special characters are not allowed"),
    ("a: &x 1\nb: *x\n", "p.yaml:1: anchors and aliases are not read"),
    (
        "max_registers: !!python/object:os.system 1\n",
        "p.yaml:1: '1' is not read as tag:yaml.org,2002:python/object:os.system; write a plain value",
    ),
    ("max_registers: !!float none\n", "p.yaml:1: 'none' is not read as "),
    ("strict: !!bool maybe\n", "p.yaml:1: 'maybe' is not read as "),
    ("max_registers: " + "9" * 5000, "p.yaml:1: must be a whole number of 0 or more or none, not inf"),
    ("kernels:\n- {match: 're:a{9999999999}', max_registers: 1}\n", "p.yaml:2: 're:a{9999999999}' is not a regular"),
    ("max_registers: !!int none\n", "p.yaml:1: 'none' is not read as "),
    ("? [a]\n: 1\n", "p.yaml:1: a key must be a word"),
    ("[" * 30 + "]" * 30, "p.yaml:1: nested too deep"),
    ("[" * 5000, "p.yaml"),
    ("é: 1\n", "p.yaml:1: unknown key 'é'"),
]


@pytest.mark.parametrize(("text", "line"), YAML, ids=lambda value: repr(value[:30]))
def test_yaml(text: str, line: str, here: Path) -> None:
    refused(here / "p.yaml", text.encode(), line)


TOML = [
    ("[tool.spillscan]\nmax_register = 3\n", "p.toml:2: unknown key 'max_register'; did you mean 'max_registers'?"),
    ("[tool.spillscan]\nfail_on = 'note'\nfail_on = 'note'\n", "p.toml:3: broken TOML: Cannot overwrite a value"),
    ("[tool.spillscan]\nfail_on = note\n", "p.toml:2: broken TOML: Invalid value"),
    ("[tool.spillscan]\nfail_on = 'note", "p.toml:2: broken TOML: "),
    ("[tool.spillscan]\n\n[tool.spillscan.severity]\n# a = 1\nspil = 'off'\n", "p.toml:5: unknown rule 'spil'"),
    ("[tool.spillscan]\nseverity.spill = 'of'\n", "p.toml:2: must be error, warning, note or off, not 'of'"),
    (
        "[[tool.spillscan.kernels]]\nmatch = 'a'\nmax_registers = 1\n\n"
        "[[tool.spillscan.kernels]]\nmatch = 'b'\nmax_register = 1\n",
        "p.toml:7: unknown key 'max_register'",
    ),
    (
        "[[tool.spillscan.kernels]]\nmatch = 'a'\n[tool.spillscan.kernels.launch]\nthreads_per_block = 0\n",
        "p.toml:4: must be a whole number from 1 to 1,024",
    ),
    ("[tool.spillscan]\nkernels = [\n  {match = 'a'},\n]\n", "p.toml:2: this entry sets nothing"),
    ("[tool.spillscan]\nmax_registers = 2020-01-01\n", "p.toml:2: 2020-01-01 is not read"),
    ("[tool.spillscan]\nmax_registers = " + "9" * 5000, "p.toml: broken TOML: Exceeds the limit"),
    ("[tool.other]\n", "p.toml has no table [tool.spillscan]; add it, or name another file"),
    ("tool = 1\n", "p.toml has no table [tool.spillscan]"),
    ("[tool]\nspillscan = 1\n", "p.toml:2: must be a mapping, not 1"),
]


@pytest.mark.parametrize(("text", "line"), TOML, ids=lambda value: repr(value[:40]))
def test_toml(text: str, line: str, here: Path) -> None:
    refused(here / "p.toml", text.encode(), line)


PIECES = st.sampled_from(
    [*"-?:[]{}#&*!|>%@'\"~,. \n\t=01a", "\n- ", ": ", "kernels", "match", "!!int ", "[[", "tool.spillscan", "\ufeff"]
)


@given(st.lists(PIECES, max_size=25).map("".join))
def test_no_text_breaks_the_readers(text: str) -> None:
    for reader in (
        parse_yaml,
        parse_toml,
        lambda text, name: parse_toml("[tool.spillscan]\n" + text, name),
    ):
        try:
            root = reader(text, "file")
            if root is not None:
                layer(root)
        except UsageError as error:
            assert str(error).startswith("file")  # noqa: PT017 - most texts are wrong, in many ways
            assert "\n" not in str(error)  # noqa: PT017


def test_files_that_cannot_be_read(here: Path) -> None:
    refused(here / "p.yaml", b"fail_on: note\nb: \xff\n", "p.yaml:2: not UTF-8")
    (here / "folder.yaml").mkdir()
    assert error_of(config="folder.yaml") == "cannot read the policy folder.yaml: Is a directory"
    assert error_of(config="none.yaml") == "cannot read the policy none.yaml: No such file or directory"


ENVIRONMENT = [
    ({"SPILLSCAN_FAIL_ON": "fatal"}, "SPILLSCAN_FAIL_ON: must be error, warning, note or never, not 'fatal'"),
    (
        {"SPILLSCAN_MAX_REGISTERS": "x"},
        "SPILLSCAN_MAX_REGISTERS: must be a whole number of 0 or more or none, not",
    ),
    ({"SPILLSCAN_MAX_REGISTERS": "9" * 5000}, "SPILLSCAN_MAX_REGISTERS: must be a whole number of 0 or more"),
    ({"SPILLSCAN_STRICT": "maybe"}, "SPILLSCAN_STRICT: must be true or false, not 'maybe'"),
    ({"SPILLSCAN_SEVERITY": "spill"}, "SPILLSCAN_SEVERITY: 'spill' sets no severity; write RULE=LEVEL, "),
    ({"SPILLSCAN_SEVERITY": "spil=off"}, "SPILLSCAN_SEVERITY: unknown rule 'spil'; did you mean 'spill'?"),
    ({"SPILLSCAN_DEVICES": "sm_90,H1000"}, "SPILLSCAN_DEVICES: unknown device 'H1000'"),
    (
        {"SPILLSCAN_MAX_REGISTER": "3"},
        "SPILLSCAN_MAX_REGISTER: no such variable; did you mean SPILLSCAN_MAX_REGISTERS?",
    ),
    ({"SPILLSCAN_CONFIG": "none.yaml"}, "cannot read the policy none.yaml: No such file or directory"),
]


@pytest.mark.parametrize(("variables", "line"), ENVIRONMENT, ids=lambda value: str(value)[:40])
def test_environment(variables: dict[str, str], line: str, here: Path) -> None:
    assert error_of(variables=variables).startswith(line)


@pytest.mark.usefixtures("here")
def test_variables_of_others_are_left_alone() -> None:
    assert error_of(variables={"SPILLSCAN_TOOLCHAINS": "/x", "SPILL": "1"}) == ""


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--severity", "spil=off"), "spillscan: unknown rule 'spil'; did you mean 'spill'?\n"),
        (("--launch", "re:a(=256"), "spillscan: 're:a(' is not a regular expression: missing ), "),
        (("--launch", "gemm"), "spillscan: 'gemm' is not a launch; "),
        (("--launch", "gemm=" + "9" * 5000), "spillscan: 'gemm=99"),
        (("--config", "none.yaml"), "spillscan: cannot read the policy none.yaml: No such file or directory\n"),
    ],
)
def test_the_command_says_one_line_and_exits_with_2(arguments: tuple[str, ...], line: str) -> None:
    result = run("check", LOG, *arguments)
    assert result.returncode == 2
    assert result.stdout == b""
    assert result.stderr.decode().startswith(line)
    assert result.stderr.count(b"\n") == 1


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and the present one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def error_of(config: str | None = None, variables: dict[str, str] | None = None) -> str:
    """The error of a policy; empty where it has none."""
    try:
        load(Layer(), config=config, search=True, variables=variables or {})
    except UsageError as error:
        return str(error)
    return ""


def refused(path: Path, data: bytes, line: str) -> None:
    path.write_bytes(data)
    found = error_of(path.name)
    assert found.startswith(line)
    assert "\n" not in found
    assert path.read_bytes() == data
