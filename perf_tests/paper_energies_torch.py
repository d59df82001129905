#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The experiment of Rezende & Mohamed 2015, section 6.1, in PyTorch: what scripts/paper_energies.sh compares with.

    python3 perf_tests/paper_energies_torch.py --layers 2,8,32 --seeds 3 --csv torch.csv

Planar flows with tanh and the constraint of the paper's appendix A.1, as everyone writes them, fitted to the densities
of the paper by reverse KL with Adam. All targets and seeds of one number of layers are trained at once, each with rows
of its own, as one batch of flows: PyTorch's time is that of its calls, so this costs little more than one of them.

Writes the true KL = loss + log Z, from rows that training has not seen.
"""

import argparse
import math
import sys
import time

import torch

from paper_energies_targets import LOG_Z, log_density

def log_densities(targets, x):
    """x is (targets, seeds, rows, 2)."""
    return torch.stack([log_density(torch, name, rows[..., 0], rows[..., 1]) for name, rows in zip(targets, x)])


# --- the flow -----------------------------------------------------------------------------------------------------

class Flows(torch.nn.Module):
    """A batch of planar flows on R^2, for (targets, seeds) each."""

    def __init__(self, targets, seeds, layers, generator):
        super().__init__()
        draw = lambda scale, *shape: scale * torch.randn(*shape, generator=generator)
        # As Meander begins: near layers that do nothing, where softplus(w.u) = 1.
        w = draw(2 / 2**0.5, layers, targets, seeds, 1, 2)
        u = math.log(math.e - 1) * w / w.square().sum(-1, keepdim=True) + draw(0.02 / 2**0.5, *w.shape)
        self.w, self.u = torch.nn.Parameter(w), torch.nn.Parameter(u)
        self.b = torch.nn.Parameter(draw(0.1, layers, targets, seeds, 1))

    def forward(self, z):
        """z (targets, seeds, rows, 2) to x and log|det dx/dz|."""
        wu = (self.w * self.u).sum(-1, keepdim=True)
        m = torch.nn.functional.softplus(wu) - 1
        u_hat = self.u + (m - wu) * self.w / self.w.square().sum(-1, keepdim=True)
        log_det = 0
        for i in range(len(self.w)):
            h = torch.tanh((z * self.w[i]).sum(-1) + self.b[i])
            z = z + h[..., None] * u_hat[i]
            log_det = log_det + torch.log1p((1 - h * h) * m[i, ..., 0])
        return z, log_det

    def weights(self, targets, z, beta=1.0):
        """log q(x) - beta log p(x) of the rows x that z becomes."""
        x, log_det = self(z)
        log_q = -0.5 * z.square().sum(-1) - math.log(2 * math.pi) - log_det
        return log_q - beta * log_densities(targets, x)


# --- training -----------------------------------------------------------------------------------------------------

def beta_at(step, arguments):
    return min(1.0, arguments.beta_start + (1 - arguments.beta_start) * step / max(1, arguments.anneal))


def train(flows, targets, arguments, generator):
    optimizer = torch.optim.Adam(flows.parameters(), lr=arguments.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, arguments.steps, eta_min=arguments.lr_final)
    weights = torch.compile(flows.weights) if arguments.compile else flows.weights
    shape = (len(targets), arguments.seeds, arguments.batch, 2)
    for step in range(arguments.steps):
        z = torch.randn(shape, generator=generator)
        # A sum over targets and seeds: none of them sees another's gradient.
        loss = weights(targets, z, torch.tensor(beta_at(step, arguments))).mean(-1).sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()


def evaluate(flows, targets, arguments, generator):
    """(targets, seeds): the mean of log q - log p."""
    chunk, total = 1 << 14, 0
    with torch.no_grad():
        for _ in range(arguments.rows // chunk):
            z = torch.randn((len(targets), arguments.seeds, chunk, 2), generator=generator)
            total = total + flows.weights(targets, z).double().mean(-1)
    return total / (arguments.rows // chunk)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: text.split(",")
    parser.add_argument("--targets", type=words, default=list(LOG_Z), help="default: U1,U2,U3,U4")
    parser.add_argument("--layers", type=words, default=["2", "8", "32"], help="default: 2,8,32")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--lr-final", type=float, default=0, help="reached by a cosine")
    parser.add_argument("--beta-start", type=float, default=0.01, help="what log p counts in the first step")
    parser.add_argument("--anneal", type=int, default=3000, help="steps until it counts in full")
    parser.add_argument("--rows", type=int, default=1 << 18, help="that the KL is evaluated with")
    parser.add_argument("--compile", action="store_true", help="torch.compile: a minute or more, then faster")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--csv", help="takes a line target,layers,seed,kl,seconds for each run")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    out = open(arguments.csv, "w") if arguments.csv else sys.stdout
    print("target,layers,seed,kl,seconds", file=out)
    for layers in map(int, arguments.layers):
        generator = torch.Generator().manual_seed(layers)
        flows = Flows(len(arguments.targets), arguments.seeds, layers, generator)
        begin = time.perf_counter()
        train(flows, arguments.targets, arguments, generator)
        seconds = time.perf_counter() - begin
        losses = evaluate(flows, arguments.targets, arguments, generator)
        for i, name in enumerate(arguments.targets):
            for seed in range(arguments.seeds):
                kl = float(losses[i, seed]) + LOG_Z[name]
                print(f"{name},{layers},{seed + 1},{kl:.6f},{seconds:.1f}", file=out, flush=True)


if __name__ == "__main__":
    main()
