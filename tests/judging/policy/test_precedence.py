"""Which of the layers holds: defaults < file < environment < command line, and inside a layer the last entry."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from spillscan.judging.policy import Policy
from spillscan.judging.policy.keys import Key, keys
from spillscan.judging.policy.reading import from_options, load
from spillscan.model import Kernel, KernelKey, Usage

KEYS = {name: key for name, key in keys().items() if key.kind != "files"}
"""Those that all layers may say."""

VALUES: dict[str, tuple[tuple[str, object], ...]] = {
    "limit": (("1", 1), ("2", 2), ("none", None)),
    "count": (("1", 1), ("2", 2), ("3", 3)),
    "choice": (("warning", "warning"), ("note", "note"), ("never", "never")),
    "flag": (("true", True), ("false", False), ("true", True)),
    "names": (("sm_90", ("sm_90",)), ("sm_86", ("sm_86",)), ("sm_80", ("sm_80",))),
    "code": (("unchanged", "unchanged"), ("any", "any"), ("unchanged", "unchanged")),
    "driver_release": (('"12.4"', "12.4"), ("12.5", "12.5"), ("13.0", "13.0")),
    "path": (("a.yaml", "a.yaml"), ("b.yaml", "b.yaml"), ("c.yaml", "c.yaml")),
}
"""(as written, as it holds) in the file, the environment and on the command line."""


def policy(folder: Path, *, file: str = "", environment: dict[str, str] | None = None, **options: object) -> Policy:
    (folder / "spillscan.yaml").write_text(file)
    texts = {name: str(value) for name, value in options.items() if name in KEYS}
    layer = from_options(texts, options.get("severity", ()), options.get("launch", ()))  # type: ignore[arg-type]
    return load(layer, config=str(folder / "spillscan.yaml"), search=True, variables=environment or {})


def kernel(symbol: str = "k", arch: str = "sm_80", unit: str = "") -> Kernel:
    return Kernel(key=KernelKey(symbol=symbol, arch=arch, unit=unit), role="entry", usage=Usage())


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
@pytest.mark.parametrize("said", list(itertools.product((False, True), repeat=3)), ids=str)
def test_the_strongest_that_speaks_holds(key: Key, said: tuple[bool, ...], tmp_path: Path) -> None:
    values = VALUES.get(key.name, VALUES[key.kind])
    (in_file, file_value), (in_environment, environment_value), (on_line, line_value) = values
    found = policy(
        tmp_path,
        file=f"{key.name}: {in_file}\n" if said[0] else "",
        environment={key.variable: in_environment} if said[1] else {},
        **({key.name: on_line} if said[2] else {}),
    ).setting(key.name)
    value, origin = key.default, "default"
    if said[0]:
        value, origin = file_value, f"{tmp_path}/spillscan.yaml:1"
        value = f"{tmp_path}/{value}" if key.kind == "path" else value
    if said[1]:
        value, origin = environment_value, key.variable
    if said[2]:
        value, origin = line_value, key.option
    assert (found.value, found.origin) == (value, origin)


@pytest.mark.parametrize("key", [key for key in KEYS.values() if key.per_kernel], ids=lambda key: key.name)
def test_every_limit_reaches_the_kernel_that_an_entry_names(key: Key, tmp_path: Path) -> None:
    one, other, none = (*key.choices, key.choices[0]) if key.choices else (7, 8, "none")
    found = policy(
        tmp_path,
        file=f"{key.name}: {one}\nkernels:\n- {{match: 'a*', {key.name}: {other}}}\n"
        f"- {{match: ab, {key.name}: {none}}}\n",
    )
    limits = [found.terms_of(kernel(symbol)).limits[key.name] for symbol in ("b", "a", "ab")]
    assert limits == [one, other, None if none == "none" else none]


def test_the_last_entry_wins_key_by_key(tmp_path: Path) -> None:
    found = policy(
        tmp_path,
        file="""
max_registers: 100
kernels:
- match: "*"
  max_registers: 90
  max_stack_bytes: 64
  severity: {spill: note, stack: off}
- match: gemm
  arch: sm_9*
  max_registers: 168
  severity: {spill: warning}
- unit: "*/attention/*"
  launch: {threads_per_block: 128}
""",
    )
    plain, hopper = found.terms_of(kernel("gemm")), found.terms_of(kernel("gemm", "sm_90a", "src/attention/a.o"))
    assert (plain.limits["max_registers"], plain.limits["max_stack_bytes"], plain.levels["spill"]) == (90, 64, "note")
    assert (hopper.limits["max_registers"], hopper.limits["max_stack_bytes"], hopper.levels["spill"]) == (
        168,
        64,
        "warning",
    )
    assert hopper.levels["stack"] == "off"
    assert plain.launch is None
    assert hopper.launch is not None
    assert hopper.launch.threads_per_block == 128


def test_a_stronger_layer_overrules_the_entries_of_the_file(tmp_path: Path) -> None:
    file = "kernels:\n- match: k\n  max_registers: 168\n  severity: {spill: off}\n  launch: {threads_per_block: 64}\n"
    assert policy(tmp_path, file=file).terms_of(kernel()).limits["max_registers"] == 168
    by_variable = policy(tmp_path, file=file, environment={"SPILLSCAN_MAX_REGISTERS": "128"})
    assert by_variable.terms_of(kernel()).limits["max_registers"] == 128
    both = policy(tmp_path, file=file, environment={"SPILLSCAN_MAX_REGISTERS": "128"}, max_registers="96")
    assert both.terms_of(kernel()).limits["max_registers"] == 96
    stronger = policy(tmp_path, file=file, environment={"SPILLSCAN_SEVERITY": "spill=note, stack=off"})
    assert stronger.terms_of(kernel()).levels == {"spill": "note", "stack": "off"}
    strongest = policy(tmp_path, file=file, environment={"SPILLSCAN_SEVERITY": "spill=note"}, severity=["spill=error"])
    assert strongest.terms_of(kernel()).levels == {"spill": "error"}
    launched = policy(tmp_path, file=file, launch=["*=256,1024"]).launch_of(kernel())
    assert launched is not None
    assert (launched.threads_per_block, launched.dynamic_shared_bytes) == (256, 1024)
    assert launched.max_dynamic_shared_bytes == 1024, "what is launched so has opted in"


def test_an_empty_variable_says_nothing(tmp_path: Path) -> None:
    assert policy(tmp_path, file="fail_on: note\n", environment={"SPILLSCAN_FAIL_ON": ""}).fail_on == "note"


def test_without_any_layer_the_defaults_hold() -> None:
    found = Policy()
    assert (found.fail_on, found.strict, found.expect_kernels, found.baseline, found.devices) == (
        "error",
        False,
        None,
        None,
        (),
    )
    limits = found.terms_of(kernel()).limits
    assert limits == {name: key.default for name, key in KEYS.items() if key.per_kernel}


def test_patterns_that_name_nothing_are_listed(tmp_path: Path) -> None:
    found = policy(tmp_path, file="max_registers: 9\nkernels:\n- {match: [a, b, c], arch: sm_80, max_registers: 3}\n")
    kernels = [kernel("a"), kernel("b", "sm_90")]
    assert [pattern for _, pattern in found.unused(kernels)] == ["b", "c"]
    assert found.terms_of(kernels[0]).limits["max_registers"] == 3
    assert found.terms_of(kernels[1]).limits["max_registers"] == 9
