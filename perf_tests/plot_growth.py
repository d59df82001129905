#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws how the time of a map grows with B, L and D, with its floors, from a benchmark's JSON.

    build/openmp/bin/planar_bench --benchmark_filter=growth --benchmark_out=b.json --benchmark_out_format=json
    python3 perf_tests/plot_growth.py b.json --out docs/growth.png

The floors are those of the copy bandwidth and of the multiply-adds that the same run measured. Needs matplotlib
(python3 -m pip install matplotlib).
"""

import argparse
import json
import re
import sys

SWEEPS = (("B", "rows B"), ("L", "layers L"), ("D", "dimension D"))
# Distinct without colour vision: the marks differ too.
LAYOUTS = {"right": ("row-major", "#0b6e99", "o"), "left": ("column-major", "#c8553d", "s")}


def read_growth(report, group):
    """{(sweep, layout): points sorted by the swept number}, of the float benchmarks GROUP_growth_*."""
    curves = {}
    for entry in report["benchmarks"]:
        words = entry["name"].split("/")
        if "best_ms" not in entry or len(words) < 3 or words[1] != "float":
            continue
        for sweep, _ in SWEEPS:
            if words[0] == f"{group}_growth_{sweep}":
                curves.setdefault((sweep, words[2]), []).append(entry)
    for (sweep, _), points in curves.items():
        points.sort(key=lambda entry: entry[sweep])
    return curves


def device_of(context):
    found = re.search(r"\[ *0 *\] (.*?) (?:capability|version)", context.get("kokkos", ""))
    return found.group(1) if found else f"{context['space']}, {context['concurrency']} threads"


def human(number):
    for power, unit in ((30, "Gi"), (20, "Mi"), (10, "Ki")):
        if number >= 2**power:
            return f"{number / 2**power:g} {unit}"
    return f"{number:g}"


def is_power_of_two(number):
    return number & (number - 1) == 0


def fixed_text(sweep, points):
    """What the other two numbers are, as long as they are the same all along."""
    same = lambda key: len({point[key] for point in points}) == 1
    text = ", ".join(f"{key} = {human(points[0][key])}" for key in "DLB" if key != sweep and same(key))
    return text + (f", B·D ≈ {human(points[0]['B'] * points[0]['D'])}" if sweep == "D" else "")


def draw(report, group, out):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    curves = read_growth(report, group)
    sweeps = [(sweep, label) for sweep, label in SWEEPS if any(key[0] == sweep for key in curves)]
    if not sweeps:
        sys.exit(f"plot_growth.py: there is no benchmark {group}_growth_* in this file")
    figure, panels = pyplot.subplots(1, len(sweeps), figsize=(4.6 * len(sweeps), 4.2), squeeze=False,
                                     layout="constrained")
    for panel, (sweep, label) in zip(panels[0], sweeps):
        for layout, (name, colour, mark) in LAYOUTS.items():
            points = curves.get((sweep, layout), [])
            even = [p for p in points if is_power_of_two(int(p[sweep]))]
            odd = [p for p in points if p not in even]
            plot = lambda chosen, **how: panel.plot([p[sweep] for p in chosen], [p["best_ms"] for p in chosen],
                                                    color=colour, marker=mark, markersize=4, **how)
            if even:
                plot(even, linewidth=1.4, label=name)
            if odd:
                plot(odd, linestyle="none", markerfacecolor="white", label=f"{name}, other D")
        floors = next(points for key, points in curves.items() if key[0] == sweep)
        for counter, style, name in (("bytes_floor_ms", "--", "bytes floor"), ("fma_floor_ms", ":", "FMA floor")):
            panel.plot([p[sweep] for p in floors], [p[counter] for p in floors], color="#333333", linestyle=style,
                       linewidth=1.1, label=name)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_xlabel(label)
        panel.set_title(fixed_text(sweep, floors), fontsize=10)
        panel.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: human(value)))
        panel.grid(True, which="major", linewidth=0.4, color="#cccccc")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_ylabel("milliseconds")
    panels[0][0].legend(frameon=False, fontsize=9)
    if panels[0][-1].get_legend_handles_labels()[1] != panels[0][0].get_legend_handles_labels()[1]:
        panels[0][-1].legend(frameon=False, fontsize=8)
    context = report["context"]
    figure.suptitle(f"{group} with log-det, float, {device_of(context)}: copy {float(context['copy_GB/s']):.0f} GB/s, "
                    f"{float(context['float_GFMA/s']) / 1000:.3g} TFMA/s", fontsize=11)
    # Without the date and the version of matplotlib the same figures give the same file.
    figure.savefig(out, dpi=130, metadata={"Software": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", help="what planar_bench wrote with --benchmark_out")
    parser.add_argument("--out", required=True, help="the picture (.png)")
    parser.add_argument("--group", default="forward", help="the map: GROUP_growth_* are drawn (default: forward)")
    arguments = parser.parse_args()
    with open(arguments.json, encoding="utf-8") as file:
        report = json.load(file)
    draw(report, arguments.group, arguments.out)


if __name__ == "__main__":
    main()
