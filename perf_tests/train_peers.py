#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fits planar flows to real data with `meander train` and with PyTorch (eager and compiled), side by side in one run.

    python3 perf_tests/train_peers.py --meander build/openmp/bin/meander
    python3 perf_tests/train_peers.py --meander build/openmp/bin/meander --data FOLDER --sets breast_cancer,digits

Maximum likelihood, layers from data to latent rows, full-batch Adam at a constant rate, float32. PyTorch's flow is
written as everyone writes it, from the paper's formulas. Both begin from random parameters of the same distribution,
but not from the same numbers, so the mean over seeds is what to compare. One more row says what early stopping gives:
`meander train` with a tenth of the rows set apart, 10000 steps and a rate that falls from 0.02 to 0 by a cosine.

A set NAME is FOLDER/NAME.train.npy and FOLDER/NAME.test.npy, standardised rows. Times are those of whole fits; of
PyTorch without importing it; compile's with and without its compilation, which a fit of another shape pays again.
"""

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = ("eager", "compile")
EARLY_STOPPING = ["--validation-fraction", "0.1", "--steps", "10000", "--lr", "0.02", "--schedule", "cosine"]
EARLY_STOPPING_BATCH = {"breast_cancer": 128}  # the noise of small batches helps where rows are few


class Set:
    def __init__(self, folder, name):
        self.name = name
        self.train, self.test = (os.path.join(folder, f"{name}.{part}.npy") for part in ("train", "test"))
        missing = [path for path in (self.train, self.test) if not os.path.exists(path)]
        if missing:
            sys.exit(f"train_peers.py: there is no {missing[0]} (--data names the folder of the sets)")

    def load(self):
        import numpy

        return numpy.load(self.train), numpy.load(self.test)


class Fit:
    """What came of one fit."""

    def __init__(self, seconds, train_nll, test_nll, compiling=None):
        self.seconds, self.train_nll, self.test_nll, self.compiling = seconds, train_nll, test_nll, compiling


# --- Meander ------------------------------------------------------------------------------------------------------

def mean_nll(meander, model, rows, folder, environment):
    import numpy

    out = os.path.join(folder, "log_prob.npy")
    subprocess.run([meander, "log-prob", "--model", model, "--in", rows, "--out", out, "--compute", "float"],
                   check=True, env=environment)
    return -float(numpy.load(out).astype("float64").mean())


def fit_meander(data, seed, arguments, how):
    environment = dict(os.environ, OMP_NUM_THREADS=str(arguments.threads), OMP_PROC_BIND="spread", OMP_PLACES="threads")
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model.safetensors")
        command = [arguments.meander, "train", "--data", data.train, "--flow", f"planar:{arguments.layers}",
                   "--direction", "normalizing", "--seed", str(seed), "--compute", "float", "--out", model, *how]
        begin = time.perf_counter()
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - begin
        return Fit(seconds, *(mean_nll(arguments.meander, model, rows, folder, environment)
                              for rows in (data.train, data.test)))


# --- PyTorch ------------------------------------------------------------------------------------------------------

def log_prob(x, w, u, b):
    """The log-density of rows x: planar layers from data to latent rows, a standard normal there."""
    import torch

    wu = (w * u).sum(-1)
    m = torch.nn.functional.softplus(wu) - 1
    u_hat = u + (m - wu)[:, None] * w / w.square().sum(-1, keepdim=True)
    log_det = 0
    for i in range(len(w)):
        h = torch.tanh(x @ w[i] + b[i])
        x = x + h[:, None] * u_hat[i]
        log_det = log_det + torch.log1p((1 - h * h) * m[i])
    return -0.5 * x.square().sum(-1) - 0.5 * math.log(2 * math.pi) * x.shape[-1] + log_det


def initial_parameters(layers, dim, seed, arguments):
    """As `meander train` begins."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    draw = lambda scale, *shape: scale * torch.randn(*shape, generator=generator)
    w = draw(arguments.w_scale / dim**0.5, layers, dim)
    u = draw(arguments.u_scale / dim**0.5, layers, dim)
    if layers >= dim:  # softplus(w.u) = 1: the layer does nothing
        u += math.log(math.e - 1) * w / w.square().sum(-1, keepdim=True)
    return [parameter.requires_grad_() for parameter in (w, u, draw(arguments.b_scale, layers))]


def fit_torch(data, seed, arguments, compiled):
    import torch

    torch.set_num_threads(arguments.threads)
    train, test = (torch.from_numpy(rows) for rows in data.load())
    parameters = initial_parameters(arguments.layers, train.shape[1], seed, arguments)
    optimizer = torch.optim.Adam(parameters, lr=arguments.lr)
    nll = lambda rows: -log_prob(rows, *parameters).mean()
    loss_of = torch.compile(nll) if compiled else nll
    begin = time.perf_counter()
    first = None
    for _ in range(arguments.steps):
        optimizer.zero_grad(set_to_none=True)
        loss_of(train).backward()
        optimizer.step()
        first = first or time.perf_counter() - begin
    seconds = time.perf_counter() - begin
    with torch.no_grad():
        return Fit(seconds - (first if compiled else 0), float(nll(train)), float(nll(test)), first if compiled else None)


# --- the table ----------------------------------------------------------------------------------------------------

def run(data, peer, seed, arguments):
    if peer == "Meander":
        return fit_meander(data, seed, arguments, ["--steps", str(arguments.steps), "--lr", str(arguments.lr)])
    if peer == "early stopping":
        batch = EARLY_STOPPING_BATCH.get(data.name)
        return fit_meander(data, seed, arguments, EARLY_STOPPING + (["--batch", str(batch)] if batch else []))
    return fit_torch(data, seed, arguments, peer == "compile")


def with_spread(values):
    if len(values) == 1:
        return f"{values[0]:.4f}"
    return f"{statistics.mean(values):.3f} ± {statistics.stdev(values) / len(values)**0.5:.3f}"


def print_table(results):
    print("| set | | time of a fit, s | / Meander | train NLL | test NLL | best test NLL |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    ours = {}
    for data, peer, fits in results:
        seconds = min(fit.seconds for fit in fits)
        ours.setdefault(data.name, seconds)
        compiling = f" + {max(fit.compiling for fit in fits):.0f} to compile" if fits[0].compiling else ""
        print(f"| {data.name} | {peer} | {seconds:.2f}{compiling} | {seconds / ours[data.name]:.1f} | "
              f"{with_spread([fit.train_nll for fit in fits])} | {with_spread([fit.test_nll for fit in fits])} | "
              f"{min(fit.test_nll for fit in fits):.3f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--meander", required=True, help="the command line tool")
    parser.add_argument("--data", default=os.path.join(HERE, "../unit_tests/data"), help="default: unit_tests/data")
    parser.add_argument("--sets", default="breast_cancer", help="default: breast_cancer")
    parser.add_argument("--peers", default="eager,compile", help="of eager, compile; empty: none")
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--w-scale", type=float, default=2, help="spread of the initial parameters, PyTorch's only")
    parser.add_argument("--u-scale", type=float, default=0.02)
    parser.add_argument("--b-scale", type=float, default=0.1)
    arguments = parser.parse_args()
    peers = [peer for peer in arguments.peers.split(",") if peer]
    if not set(peers) <= set(PEERS):
        parser.error(f"--peers takes {', '.join(PEERS)}")
    results = []
    for name in arguments.sets.split(","):
        data = Set(arguments.data, name)
        for peer in ["Meander", "early stopping", *peers]:
            fits = []
            for seed in range(1, arguments.seeds + 1):
                fits.append(run(data, peer, seed, arguments))
                print(f"{name}, {peer}, seed {seed}: {fits[-1].seconds:.2f} s, train {fits[-1].train_nll:.4f}, "
                      f"test {fits[-1].test_nll:.4f}", file=sys.stderr, flush=True)
            results.append((data, peer, fits))
    print_table(results)


if __name__ == "__main__":
    main()
