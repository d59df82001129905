#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Scores and draws the flows that scripts/paper_energies.sh has trained.

    python3 perf_tests/paper_energies_report.py --meander build/openmp/bin/meander --models build/paper --out kl.png

--models holds files U1_K8_seed1.safetensors and so on. The KL of each is the mean of log q - log p over rows that the
flow draws, plus log Z; --torch adds PyTorch's from paper_energies_torch.py. Prints a table, draws a figure in the
arrangement of the paper (Rezende & Mohamed 2015, figure 3), and ends with 1 if the KL does not fall with K.
"""

import argparse
import csv
import math
import os
import re
import subprocess
import sys
import tempfile

import numpy

from paper_energies_targets import LOG_Z, log_density

POINTS = 300  # of the figure's grid, each way


def load(path):
    return numpy.load(path).astype("float64")


class Tool:
    """The command line tool, by way of files."""

    def __init__(self, program):
        self.program = program

    def rows_and_log_prob(self, model, rows):
        with tempfile.TemporaryDirectory() as folder:
            x, log_q = os.path.join(folder, "x.npy"), os.path.join(folder, "log_q.npy")
            # A seed that no training has.
            subprocess.run([self.program, "sample", "--model", model, "-n", str(rows), "--seed", "1000003", "--out", x,
                            "--log-prob", log_q], check=True)
            return load(x), load(log_q)

    def log_prob(self, model, x):
        with tempfile.TemporaryDirectory() as folder:
            rows, log_q = os.path.join(folder, "x.npy"), os.path.join(folder, "log_q.npy")
            numpy.save(rows, x)
            subprocess.run([self.program, "log-prob", "--model", model, "--in", rows, "--out", log_q], check=True)
            return load(log_q)


def find_models(folder):
    """{(target, layers): {seed: path}}"""
    found = {}
    for name in sorted(os.listdir(folder)):
        match = re.fullmatch(r"(U\d)_K(\d+)_seed(\d+)\.safetensors", name)
        if match:
            models = found.setdefault((match[1], int(match[2])), {})
            models[int(match[3])] = os.path.join(folder, name)
    return found


def kl(tool, target, model, rows):
    x, log_q = tool.rows_and_log_prob(model, rows)
    return float((log_q - log_density(numpy, target, x[:, 0], x[:, 1])).mean()) + LOG_Z[target]


def read_peers(path):
    """{(target, layers): [kl of each seed]}"""
    found = {}
    if path:
        with open(path) as file:
            for line in csv.DictReader(file):
                found.setdefault((line["target"], int(line["layers"])), []).append(float(line["kl"]))
    return found


def mean_and_error(values):
    values = numpy.asarray([value for value in values if math.isfinite(value)])
    error = values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return values.mean(), error


def cell(values):
    if not values:
        return "–"
    mean, error = mean_and_error(values)
    failed = sum(not math.isfinite(value) for value in values)
    return f"{mean:.4f} ± {error:.4f}" + (f" ({failed} of {len(values)} NaN)" if failed else "")


def print_table(ours, peers):
    print("| density | K | seeds | KL, nat | best seed |" + (" PyTorch's KL | best seed | difference, sigma |" if peers else ""))
    print("| --- | --- | --- | --- | --- |" + (" --- | --- | --- |" if peers else ""))
    for (target, layers), values in sorted(ours.items()):
        line = f"| {target} | {layers} | {len(values)} | {cell(values)} | {numpy.nanmin(values):.4f} |"
        if peers:
            theirs = peers.get((target, layers), [])
            line += f" {cell(theirs)} | {numpy.nanmin(theirs):.4f} |" if theirs else " – | – |"
            line += f" {sigmas(values, theirs):+.1f} |" if len(theirs) > 1 and len(values) > 1 else " – |"
        print(line)
    if peers:
        print("(positive: Meander's mean is the larger one, in standard errors of the difference)")


def sigmas(ours, theirs):
    (mine, my_error), (other, other_error) = mean_and_error(ours), mean_and_error(theirs)
    return (mine - other) / math.hypot(my_error, other_error)


def falls_with_layers(ours):
    fine = True
    for target in sorted({target for target, _ in ours}):
        means = [mean_and_error(values)[0] for (name, _), values in sorted(ours.items()) if name == target]
        if any(after >= before for before, after in zip(means, means[1:])):
            print(f"{target}: the KL does not fall with K", file=sys.stderr)
            fine = False
    return fine


# --- the figure ---------------------------------------------------------------------------------------------------

def draw(tool, models, ours, path):
    """Each flow's best seed."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    targets = sorted({target for target, _ in models})
    lengths = sorted({layers for _, layers in models})
    z1, z2 = numpy.meshgrid(numpy.linspace(-4, 4, POINTS), numpy.linspace(4, -4, POINTS))
    grid = numpy.stack([z1.ravel(), z2.ravel()], axis=1)
    figure, axes = plt.subplots(len(targets), 1 + len(lengths), squeeze=False, layout="constrained",
                                figsize=(2 * (1 + len(lengths)), 2.12 * len(targets)))
    for row, target in zip(axes, targets):
        truth = numpy.exp(log_density(numpy, target, z1, z2) - LOG_Z[target])
        pictures = [("", truth)]
        for layers in lengths:
            values = ours[target, layers]
            best = sorted(models[target, layers])[int(numpy.nanargmin(values))]
            density = numpy.exp(tool.log_prob(models[target, layers][best], grid)).reshape(z1.shape)
            pictures.append((f"KL {numpy.nanmin(values):.3f}", density))
        for axis, (label, picture) in zip(row, pictures):
            # One scale a row: what is too bright is too dense.
            axis.imshow(picture, extent=(-4, 4, -4, 4), cmap="magma", vmin=0, vmax=1.2 * truth.max())
            axis.set_xticks([]), axis.set_yticks([])
            axis.text(3.8, -3.8, label, color="white", ha="right", va="bottom", fontsize=8)
        row[0].set_ylabel(target)
    for axis, title in zip(axes[0], ["target", *(f"K = {layers}" for layers in lengths)]):
        axis.set_title(title, fontsize=10)
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--meander", required=True, help="the command line tool")
    parser.add_argument("--models", required=True, help="the folder they are in")
    parser.add_argument("--torch", help="what paper_energies_torch.py wrote")
    parser.add_argument("--rows", type=int, default=1 << 18, help="that each KL is the mean of")
    parser.add_argument("--out", help="the figure")
    arguments = parser.parse_args()
    tool, models = Tool(arguments.meander), find_models(arguments.models)
    if not models:
        sys.exit(f"paper_energies_report.py: there is no U1_K2_seed1.safetensors or the like in {arguments.models}")
    ours = {key: [kl(tool, key[0], found[seed], arguments.rows) for seed in sorted(found)]
            for key, found in models.items()}
    print_table(ours, read_peers(arguments.torch))
    if arguments.out:
        draw(tool, models, ours, arguments.out)
    return 0 if falls_with_layers(ours) else 1


if __name__ == "__main__":
    sys.exit(main())
