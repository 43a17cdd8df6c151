"""Options that had other names: they hold until the next release, and one line says what they are now."""

from __future__ import annotations

from collections.abc import Sequence

_LIMITS = (
    *("max_code_bytes", "max_code_growth_percent", "max_compile_growth_percent", "max_compile_ms"),
    *("max_register_growth", "max_registers", "max_shared_bytes", "max_spill_bytes", "max_spill_growth_bytes"),
    *("max_stack_bytes", "max_unknown_spill_bytes", "min_blocks_per_sm", "max_removed", "expect_kernels"),
    *("max_file_bytes", "require_archs", "driver_release"),
    *("max_unpack_ratio", "max_member_mib", "max_nesting", "max_members"),
)
FORMER = {
    **{f"--{name.replace('_', '-')}": f"--set {name}={{}}" for name in _LIMITS},
    "--no-strict": "--set strict=false",
    "--no-config": "--config none",
    "--help-all": "--help",
    "--allow-fewer": "--accept fewer-kernels --accept not-comparable",
    "--fail-on-regression": "--fail-on policy",
    "--fail-on-code": "--fail-on code",
    **{f"--{what}": f"--with {what}" for what in ("live", "operands", "code", "source", "sass")},
    "--show-origin": "--with origins",
    "--slots": "--top {}",
    "--duplicates": "--by copy",
    "--gpus": "--by gpu",
    "--profile": "--measured {}",
    "--sweep": "--measured {}",
    "--caps": "--vary cap={}",
    "--bounds": "--vary bounds={}",
    "--maxnreg": "--vary maxnreg={}",
    "--toolkits": "--vary toolkit={}",
    **{f"--{tool}": f"--vary {tool}.{{}}" for tool in ("nvcc", "ptxas", "pragma")},
    "--advise": "--vary steps",
    "--no-cache": "--cache none",
    "--run-timeout": "--timeout {}",
    "--html": "-f html:{}",
    "--max-dynamic-shared": "--set max_dynamic_shared_bytes={}",
    "--carveout": "--set carveout_percent={}",
    "--barriers": "--set barriers={}",
    "--cluster": "--set cluster_blocks={}",
    "--blocks": "--set min_blocks_per_sm={}",
    "--stack": "--set stack_bytes={}",
    "occupancy --cache": "--set cache_preference={}",
    "--partitioned-caching": "--set global_caching={}",
    "history audit --max-file-bytes": "--exclude >{}",
    "--into": "--dataset {}",
    "--processes": "--jobs {}",
    "--family": "--kernel {}",
    "--time-limit": "--timeout {}",
    "--spills": "--sort spill_bytes",
    "--lost-blocks": "--sort lost_blocks",
    "history top --registers": "--sort registers",
    "history top --metric": "--sort {}",
    "history top -n": "--top {}",
    "run filter --log": "--output {}",
}
"""An option, of one command or of any, and what it is now; ``{}``: its word."""
_OWN_WORDS = ("run", "wrap", "help")
"""Commands whose words are another program's."""


def renamed(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Words of a call, the command first, with options as they are called now; and those that changed."""
    if not words or words[0] in _OWN_WORDS:
        return [*words], {}
    command, rest = words[0], iter(words[1:])
    found, changed = [command], {}
    for word in rest:
        option, equals, value = word.partition("=")
        now = FORMER.get(f"{command} {option}") or FORMER.get(option)
        if now is None:
            found += [word, *(rest if word == "--" else ())]
            continue
        if "{}" in now and not equals:
            value = next(rest, "")
        found += [part.replace("{}", value) for part in now.split()]
        changed[option] = now.replace("{}", "…")
    return found, changed
