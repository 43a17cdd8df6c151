"""The device table: what an SM of each compute capability has, with the source of every figure.

Without a name, one line a compute capability; with one (sm_90, 9.0, H100), all its figures, sources,
conflicts, and the register and shared-memory cliffs.
"""

from __future__ import annotations

import argparse

NAME = "devices"
HELP = "list the known compute capabilities, or everything about one"
ORDER = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("device", nargs="?", help="target, compute capability or GPU name: sm_90, 9.0, H100")
    parser.add_argument(
        "-f",
        "--format",
        choices=("text", "json", "csv"),
        default="text",
        help="output format (default: text)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the table, or one device."""
    import csv
    import io
    import json
    import sys

    from spillscan.occupancy import data
    from spillscan.occupancy import text as listing
    from spillscan.occupancy.devices import FIGURES, device, devices, sources

    chosen = [device(arguments.device)] if arguments.device else list(devices())
    if arguments.format == "json":
        records = [data.device_data(one) for one in chosen]
        print(json.dumps({"devices": records, "sources": dict(sources())}, indent=2, ensure_ascii=False))
    elif arguments.format == "csv":
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["target", "compute_capability", "architecture", "chip", "status", *FIGURES])
        for one in chosen:
            row = [one.target, one.compute_capability, one.architecture, one.chip or "", one.status]
            figures = (getattr(one, figure) for figure in FIGURES)
            writer.writerow(row + [data.plain(figure) for figure in figures])
        sys.stdout.write(out.getvalue())
    elif arguments.device:
        print("\n".join(listing.device_lines(chosen[0])))
    else:
        print("\n".join(listing.devices_table(chosen)))
    return 0
