#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Times the planar forward map with log-det in Meander, PyTorch (eager and compiled) and JAX, in one run.

    python3 perf_tests/peers.py --bench build/openmp/bin/planar_bench [--device cpu|cuda] [--threads N]

Needs PyTorch; JAX is used where it is installed and sees the device. Each peer is checked against PyTorch in
float64 on a slice of the batch before it is timed. Prints one table last.
"""

import argparse
import json
import os
import subprocess
import sys
import time

SHAPES = {  # (D, L, B)
    "cpu": [(32, 8, 1 << 20), (2, 32, 1 << 20), (32, 32, 1 << 20)],
    "cuda": [(32, 8, 4 << 20), (64, 8, 2 << 20), (256, 16, 512 << 10), (2, 32, 32 << 20), (32, 32, 4 << 20)],
}


def meander_times(bench, shapes, threads):
    """Best milliseconds of the row-major float benchmark of each shape, and the ceilings of the run."""
    shapes_pattern = "|".join(f"D:{d}/L:{l}/B:{b}/" for d, l, b in shapes)
    environment = dict(os.environ, OMP_PROC_BIND="spread", OMP_PLACES="threads")
    if threads:
        environment["OMP_NUM_THREADS"] = str(threads)
    out = subprocess.run(
        [bench, f"--benchmark_filter=forward/float/right/({shapes_pattern})", "--benchmark_format=json"],
        check=True, env=environment, stdout=subprocess.PIPE).stdout
    report = json.loads(out)
    times = {}
    for entry in report["benchmarks"]:
        words = dict(part.split(":") for part in entry["name"].split("/") if ":" in part)
        times[int(words["D"]), int(words["L"]), int(words["B"])] = entry["best_ms"]
    return times, report["context"]


def best_ms(call, synchronize, seconds=3.0):
    call()
    synchronize()
    best, started = float("inf"), time.perf_counter()
    while time.perf_counter() - started < seconds or best == float("inf"):
        begin = time.perf_counter()
        call()
        synchronize()
        best = min(best, time.perf_counter() - begin)
    return best * 1e3


def torch_peers(device, shape, threads):
    import torch

    if threads:
        torch.set_num_threads(threads)
    d, l, b = shape
    generator = torch.Generator().manual_seed(1)
    draw = lambda *size: (2 * torch.rand(*size, generator=generator, dtype=torch.float64) - 1)
    w, u, bias = draw(l, d) / d**0.5, draw(l, d) / d**0.5, draw(l)
    z = torch.randn(b, d, generator=generator)

    def flow(z, w, u, bias):
        log_det = torch.zeros(z.shape[0], dtype=z.dtype, device=z.device)
        for i in range(w.shape[0]):
            wu = torch.dot(w[i], u[i])
            u_hat = u[i] + (torch.nn.functional.softplus(wu) - 1 - wu) * w[i] / torch.dot(w[i], w[i])
            h = torch.tanh(z @ w[i] + bias[i])
            log_det = log_det + torch.log(torch.abs(1 + (1 - h * h) * torch.dot(w[i], u_hat)))
            z = z + torch.outer(h, u_hat)
        return z, log_det

    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    truth = flow(z[:1000].double(), w, u, bias)
    arguments = [t.float().to(device) for t in (z, w, u, bias)]
    results = {}
    with torch.no_grad():
        for name, f in (("eager", flow), ("torch.compile", torch.compile(flow))):
            try:
                y, log_det = f(*arguments)
                error = max((y[:1000].cpu() - truth[0]).abs().max().item(),
                            (log_det[:1000].cpu() - truth[1]).abs().max().item())
                results[name] = (best_ms(lambda: f(*arguments), synchronize), error)
            except Exception as problem:  # a peer that fails is a row of the table
                print(f"{name} {shape}: {problem}", file=sys.stderr)
                results[name] = (float("nan"), float("nan"))
    return results


def jax_peer(device, shape):
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return None
    if device == "cuda" and jax.default_backend() not in ("gpu", "cuda"):
        return None
    d, l, b = shape
    keys = jax.random.split(jax.random.PRNGKey(1), 4)
    w, u = (jax.random.uniform(k, (l, d), minval=-1, maxval=1) / d**0.5 for k in keys[:2])
    bias = jax.random.uniform(keys[2], (l,), minval=-1, maxval=1)
    z = jax.random.normal(keys[3], (b, d))

    @jax.jit
    def flow(z, w, u, bias):
        log_det = jnp.zeros(z.shape[0])
        for i in range(l):
            wu = w[i] @ u[i]
            u_hat = u[i] + (jax.nn.softplus(wu) - 1 - wu) * w[i] / (w[i] @ w[i])
            h = jnp.tanh(z @ w[i] + bias[i])
            log_det = log_det + jnp.log(jnp.abs(1 + (1 - h * h) * (w[i] @ u_hat)))
            z = z + h[:, None] * u_hat
        return z, log_det

    return best_ms(lambda: jax.block_until_ready(flow(z, w, u, bias)), lambda: None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True, help="the planar_bench program")
    parser.add_argument("--device", choices=SHAPES, default="cpu")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads for all (default: each one's own choice)")
    arguments = parser.parse_args()

    shapes = SHAPES[arguments.device]
    ours, context = meander_times(arguments.bench, shapes, arguments.threads)
    rows = []
    for shape in shapes:
        peers = torch_peers(arguments.device, shape, arguments.threads)
        jax_ms = jax_peer(arguments.device, shape)
        rows.append((shape, ours[shape], peers, jax_ms))
        print(f"{shape}: {ours[shape]:.3f} ms, peers (ms, error) {peers}, JAX {jax_ms}", file=sys.stderr, flush=True)

    print(f"meander {context['meander']} on {context['space']}, {arguments.device}, "
          f"copy {float(context['copy_GB/s']):.1f} GB/s, {float(context['float_GFMA/s']):.1f} GFMA/s")
    print("| D, L, B | Meander ms | eager ms | torch.compile ms | JAX jit ms | eager / Meander | compile / Meander |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for (d, l, b), mine, peers, jax_ms in rows:
        eager, compiled = peers["eager"][0], peers["torch.compile"][0]
        print(f"| {d}, {l}, {b} | {mine:.3f} | {eager:.3f} | {compiled:.3f} | "
              f"{'-' if jax_ms is None else f'{jax_ms:.3f}'} | {eager / mine:.1f} | {compiled / mine:.1f} |")


if __name__ == "__main__":
    main()
