#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Times planar flows in Meander, PyTorch (eager and compiled) and JAX on the same shapes, in one run.

    python3 perf_tests/peers.py --bench build/openmp/bin/planar_bench --device cpu
    python3 perf_tests/peers.py --bench build/openmp/bin/planar_bench --bench build/openmp/bin/flow_bench \
        --maps sample,inverse,log_prob --shapes 32x8,2x32x100000 --peers eager,compile

Float, row-major. Maps:
  forward   y and log|det| of rows z
  inverse   z and log|det| of rows y
  log_prob  the log-density of rows y under a standard normal base: needs the inverse
  sample    rows drawn from the base, pushed forward, and their log-density
  likelihood  mean negative log-likelihood of rows of a normalizing flow, and its gradients by w, u and b
No other library inverts a batch through tanh layers; the peers do it by twenty steps of safeguarded Newton.

Peers: eager, compile (torch.compile), jax (jit), and gemm: torch's two matrix products of the forward map in Gram form,
A = Z W^T and Z + H U, in full float precision. torch.compile and JAX unroll the layers and take minutes to compile
beyond some hundred steps (a layer inverted is twenty of them): there they run only where --peers names them.

Needs PyTorch; JAX is used where it is installed and sees the device. Each peer is checked against float64 on a slice
of the batch before it is timed: the error is the largest |value - truth| / max(1, |truth|). Says each shape as it is
done and prints one table last.
"""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import time

SHAPES = {  # (D, L, B)
    "cpu": [(32, 8, 1 << 20), (2, 32, 1 << 20), (32, 32, 1 << 20)],
    "cuda": [(32, 8, 4 << 20), (64, 8, 2 << 20), (256, 16, 512 << 10), (2, 32, 32 << 20), (32, 32, 4 << 20),
             (1024, 64, 128 << 10)],
}
ELEMENTS = {"cpu": 32 << 20, "cuda": 128 << 20}  # of a shape given without B
# A map, and how the benchmarks call it.
MAPS = {"forward": "forward", "inverse": "inverse", "log_prob": "flow_log_prob", "sample": "flow_sample",
        "likelihood": "likelihood"}
PEERS = ("eager", "compile", "jax", "gemm")
NEWTON_STEPS = 20
MOST_STEPS_COMPILED = 200  # layers, times Newton steps where the map is inverted
CHECKED_ROWS = 1000


# --- the maps, for torch and for jax.numpy alike ------------------------------------------------------------------

def prepare(np, softplus, w, u):
    """u_hat and s = 1 + w.u_hat of every layer (Rezende & Mohamed 2015, appendix A.1)."""
    wu = (w * u).sum(-1)
    s = softplus(wu)
    return u + ((s - 1 - wu) / (w * w).sum(-1))[:, None] * w, s


def forward(np, softplus, z, w, u, b):
    u_hat, s = prepare(np, softplus, w, u)
    log_det = 0
    for i in range(len(w)):
        h = np.tanh(z @ w[i] + b[i])
        log_det = log_det + np.log(np.abs(1 + (1 - h * h) * (s[i] - 1)))
        z = z + h[:, None] * u_hat[i]
    return z, log_det


def inverse(np, softplus, y, w, u, b):
    u_hat, s = prepare(np, softplus, w, u)
    log_det = 0
    for i in reversed(range(len(w))):
        c, m = y @ w[i], s[i] - 1
        low, high, a = c - np.abs(m), c + np.abs(m), c
        for _ in range(NEWTON_STEPS):
            h = np.tanh(a + b[i])
            rest = a + m * h - c
            low, high = np.where(rest < 0, a, low), np.where(rest < 0, high, a)
            step = a - rest / (1 + m * (1 - h * h))
            a = np.where((step > low) & (step < high), step, (low + high) / 2)
        h = np.tanh(a + b[i])
        log_det = log_det - np.log(np.abs(1 + (1 - h * h) * m))
        y = y - h[:, None] * u_hat[i]
    return y, log_det


def log_normal(z):
    return -0.5 * (z * z).sum(-1) - 0.5 * math.log(2 * math.pi) * z.shape[-1]


def log_prob(np, softplus, y, w, u, b):
    z, log_det = inverse(np, softplus, y, w, u, b)
    return log_normal(z) + log_det


def push_and_score(np, softplus, z, w, u, b):
    x, log_det = forward(np, softplus, z, w, u, b)
    return x, log_normal(z) - log_det


def loss(np, softplus, x, w, u, b):
    z, log_det = forward(np, softplus, x, w, u, b)
    return -(log_normal(z) + log_det).mean()


def loss_and_gradients(torch, softplus, x, *parameters):
    """In PyTorch; by autograd."""
    leaves = [p.detach().requires_grad_() for p in parameters]
    value = loss(torch, softplus, x, *leaves)
    return value.detach(), *torch.autograd.grad(value, leaves)


FUNCTIONS = {"forward": forward, "inverse": inverse, "log_prob": log_prob}  # of rows


# --- measuring ----------------------------------------------------------------------------------------------------

def best_ms(call, synchronize, seconds):
    call()
    synchronize()
    best, started = float("inf"), time.perf_counter()
    while time.perf_counter() - started < seconds or best == float("inf"):
        begin = time.perf_counter()
        call()
        synchronize()
        best = min(best, time.perf_counter() - begin)
    return best * 1e3


def meander_times(benches, maps, shapes, threads):
    """Best milliseconds of (map, shape), and the context of the run."""
    environment = dict(os.environ, OMP_PROC_BIND="spread", OMP_PLACES="threads")
    if threads:
        environment["OMP_NUM_THREADS"] = str(threads)
    times, context = {}, {}
    by_group = {group: name for name, group in MAPS.items()}
    groups = "|".join(MAPS[name] for name in maps)
    for bench in benches:
        out = subprocess.run(
            [bench, f"--benchmark_filter=^({groups})/float/right/", "--benchmark_format=json",
             "--shapes=" + ",".join(f"{d}x{l}x{b}" for d, l, b in shapes)],
            check=True, env=environment, stdout=subprocess.PIPE).stdout
        # A filter that nothing matches makes no JSON.
        report = json.loads(out) if out.strip().startswith(b"{") else {"benchmarks": [], "context": {}}
        context = context or report["context"]
        for entry in report["benchmarks"]:
            words = entry["name"].split("/")
            numbers = dict(word.split(":") for word in words if re.fullmatch("[DLB]:[0-9]+", word))
            times[by_group[words[0]], (int(numbers["D"]), int(numbers["L"]), int(numbers["B"]))] = entry["best_ms"]
    return times, context


def error_of(values, truths):
    """The largest |value - truth| / max(1, |truth|) of matching numpy arrays; NaN if there is one."""
    return max(float((abs(value - truth) / abs(truth).clip(min=1)).max()) for value, truth in zip(values, truths))


class Problem:
    """Parameters and rows of a shape, drawn once for all peers, and the truth on some rows."""

    def __init__(self, shape, device):
        import torch

        d, l, b = shape
        generator = torch.Generator().manual_seed(1)
        draw = lambda *size: (2 * torch.rand(*size, generator=generator) - 1).to(device)
        self.parameters = (draw(l, d) / d**0.5, draw(l, d) / d**0.5, draw(l))
        self.latent = torch.randn(b, d, generator=generator).to(device)
        self.data = None

    def rows(self, name):
        """Where the map starts: latent rows, or data rows."""
        import torch

        if name in ("forward", "sample", "likelihood"):
            return self.latent
        if self.data is None:
            self.data = forward(torch, torch.nn.functional.softplus, self.latent, *self.parameters)[0]
        return self.data

    def truth(self, f, rows):
        """The map of the first rows in float64, as numpy arrays."""
        import torch

        parameters = (p.cpu().double() for p in self.parameters)
        result = f(torch, torch.nn.functional.softplus, rows[:CHECKED_ROWS].cpu().double(), *parameters)
        return [value.numpy() for value in as_tuple(result)]


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


def torch_peer(problem, name, device, compiled, seconds):
    """Milliseconds and error of a map in PyTorch."""
    import torch

    softplus = torch.nn.functional.softplus
    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    wrap = torch.compile if compiled else lambda f: f
    checked = lambda values: [value[:CHECKED_ROWS].cpu().double().numpy() for value in as_tuple(values)]
    if name == "likelihood":
        rows = problem.rows(name)
        of_loss = wrap(lambda x, *p: loss(torch, softplus, x, *p))

        def call(x=rows):
            leaves = [p.detach().requires_grad_() for p in problem.parameters]
            value = of_loss(x, *leaves)
            return value.detach(), *torch.autograd.grad(value, leaves)

        got = [value.cpu().double().numpy() for value in call(rows[:CHECKED_ROWS])]
        error = error_of(got, problem.truth(loss_and_gradients, rows))
        return best_ms(call, synchronize, seconds), error
    with torch.no_grad():
        rows = problem.rows(name)
        if name == "sample":
            shape = rows.shape
            run = wrap(lambda *p: push_and_score(torch, softplus, torch.randn(shape, device=device), *p))
            call = lambda: run(*problem.parameters)
            x, score = call()
            error = error_of(checked(score), problem.truth(log_prob, x))
        else:
            f = FUNCTIONS[name]
            run = wrap(lambda rows, *p: f(torch, softplus, rows, *p))
            call = lambda: run(rows, *problem.parameters)
            error = error_of(checked(call()), problem.truth(f, rows))
        return best_ms(call, synchronize, seconds), error


def gemm_peer(problem, device, seconds):
    """The two matrix products of the forward map in Gram form, in full float precision."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    w, u, _ = problem.parameters
    z = problem.latent
    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    with torch.no_grad():
        a, y = z @ w.T, torch.empty_like(z)

        def products():
            torch.matmul(z, w.T, out=a)
            torch.addmm(z, a, u, out=y)

        products()
        part = z[:CHECKED_ROWS].cpu().double()
        truth = part + part @ w.cpu().double().T @ u.cpu().double()
        error = error_of([y[:CHECKED_ROWS].cpu().double().numpy()], [truth.numpy()])
        return best_ms(products, synchronize, seconds), error


def jax_peer(problem, name, device, seconds):
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # PyTorch needs room beside it
    import jax
    import jax.numpy as jnp
    import torch

    if device == "cuda" and jax.default_backend() not in ("gpu", "cuda"):
        return None
    parameters = [jnp.asarray(p.cpu().numpy()) for p in problem.parameters]
    rows = jnp.asarray(problem.rows(name).cpu().numpy())
    checked = lambda values: [jax.device_get(value[:CHECKED_ROWS]).astype("float64") for value in as_tuple(values)]
    if name == "likelihood":
        run = jax.jit(jax.value_and_grad(lambda p, x: loss(jnp, jax.nn.softplus, x, *p)))
        value, gradients = run(parameters, rows[:CHECKED_ROWS])
        got = [jax.device_get(x).astype("float64") for x in (value, *gradients)]
        error = error_of(got, problem.truth(loss_and_gradients, problem.rows(name)))
        return best_ms(lambda: jax.block_until_ready(run(parameters, rows)), lambda: None, seconds), error
    if name == "sample":
        shape, key = rows.shape, jax.random.PRNGKey(1)
        run = jax.jit(lambda *p: push_and_score(jnp, jax.nn.softplus, jax.random.normal(key, shape), *p))
        call = lambda: jax.block_until_ready(run(*parameters))
        x, score = call()
        error = error_of(checked(score), problem.truth(log_prob, torch.from_numpy(checked(x)[0])))
    else:
        f = FUNCTIONS[name]
        run = jax.jit(lambda rows, *p: f(jnp, jax.nn.softplus, rows, *p))
        call = lambda: jax.block_until_ready(run(rows, *parameters))
        error = error_of(checked(call()), problem.truth(f, problem.rows(name)))
    return best_ms(call, lambda: None, seconds), error


# --- the command line ---------------------------------------------------------------------------------------------

def run_peer(peer, problem, name, shape, arguments):
    """(milliseconds, error), or None where there is nothing to run. A peer that fails is a row of the table."""
    if peer == "gemm" and name != "forward":
        return None
    steps = shape[1] * (NEWTON_STEPS if name in ("inverse", "log_prob") else 1)
    if peer in ("compile", "jax") and steps > MOST_STEPS_COMPILED and arguments.peers is None:
        return None
    try:
        if peer == "jax":
            return jax_peer(problem, name, arguments.device, arguments.seconds)
        if peer == "gemm":
            return gemm_peer(problem, arguments.device, arguments.seconds)
        return torch_peer(problem, name, arguments.device, peer == "compile", arguments.seconds)
    except ImportError:
        return None
    except Exception as failure:
        print(f"{peer}, {name}, {shape}: {type(failure).__name__}: {failure}", file=sys.stderr, flush=True)
        return float("nan"), float("nan")


def list_of(allowed):
    def parse(text):
        words = text.split(",")
        for word in words:
            if word not in allowed:
                raise argparse.ArgumentTypeError(f"'{word}' is none of {', '.join(allowed)}")
        return words
    return parse


def shape_list(text):
    found = [re.fullmatch(r"([1-9]\d*)x([1-9]\d*)(?:x([1-9]\d*))?", word) for word in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError("expected DxL or DxLxB, separated by commas")
    return [tuple(int(number) if number else None for number in match.groups()) for match in found]


def with_batch(shape, device):
    d, l, b = shape
    usual = {(known[0], known[1]): known[2] for known in SHAPES[device]}
    return d, l, b or usual.get((d, l), max(1, ELEMENTS[device] // d))


def cell(result):
    return "–" if result is None else f"{result[0]:.3f}"


def print_table(rows, peers, context, device):
    if context:
        print(f"meander {context['meander']} on {context['space']}, {device}, "
              f"copy {float(context['copy_GB/s']):.1f} GB/s, {float(context['float_GFMA/s']):.1f} GFMA/s")
    flows = [peer for peer in peers if peer != "gemm"]
    header = ["map", "D, L, B", "Meander ms", *(f"{peer} ms" for peer in peers),
              *(f"{peer} / Meander" for peer in flows), "largest error"]
    print("| " + " | ".join(header) + " |")
    print("|" + " --- |" * len(header))
    for name, shape, mine, results in rows:
        ratio = lambda result: "–" if result is None or mine is None else f"{result[0] / mine:.1f}"
        ratios = [ratio(results[peer]) for peer in flows]
        errors = [result[1] for peer, result in results.items() if result is not None]
        print("| " + " | ".join([name, ", ".join(map(str, shape)), "–" if mine is None else f"{mine:.3f}",
                                 *(cell(results[peer]) for peer in peers), *ratios,
                                 f"{max(errors):.1e}" if errors else "–"]) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", action="append", default=[],
                        help="a benchmark program of Meander's; may be repeated")
    parser.add_argument("--device", choices=SHAPES, default="cpu")
    parser.add_argument("--maps", type=list_of(list(MAPS)), default=["forward"], help="default: forward")
    parser.add_argument("--shapes", type=shape_list, help="DxL or DxLxB, separated by commas (default: the device's)")
    parser.add_argument("--peers", type=list_of(PEERS), help="default: all")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads for all (default: each one's own choice)")
    parser.add_argument("--seconds", type=float, default=2, help="for each time, at least (default: 2)")
    arguments = parser.parse_args()

    shapes = [with_batch(shape, arguments.device) for shape in arguments.shapes or SHAPES[arguments.device]]
    peers = arguments.peers or list(PEERS)
    if arguments.threads and {"eager", "compile", "gemm"} & set(peers):
        import torch

        torch.set_num_threads(arguments.threads)
    ours, context = meander_times(arguments.bench, arguments.maps, shapes, arguments.threads)
    rows = []
    for shape in shapes:
        problem = Problem(shape, arguments.device)
        for name in arguments.maps:
            results = {peer: run_peer(peer, problem, name, shape, arguments) for peer in peers}
            rows.append((name, shape, ours.get((name, shape)), results))
            text = ", ".join(f"{peer} {cell(result)}" + (f" (error {result[1]:.1e})" if result else "")
                             for peer, result in results.items())
            mine = ours.get((name, shape))
            print(f"{name} {shape}: Meander {'–' if mine is None else f'{mine:.3f}'}, {text} ms", file=sys.stderr,
                  flush=True)
    print_table(rows, peers, context, arguments.device)


if __name__ == "__main__":
    main()
