#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds, tests and times Meander on a GPU node in one go:
#
#   Kokkos_ROOT=/path/to/kokkos perf_tests/run_on_node.sh out/
#
# Kokkos must have been built for the GPU. Everything that comes out lies in out/: configure.log, build.log,
# tests.log, planar_bench.json, sanitizer-<tool>.log (where compute-sanitizer is there) and peers.log (where
# PyTorch is there). JOBS sets how many compilers run at once; CXX the compiler (default: the nvcc_wrapper of
# that Kokkos, if it has one). Fails if something does not build, a test fails or the sanitizer finds something.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
if [[ $# -ne 1 || -z ${Kokkos_ROOT:-} ]]; then
  printf 'usage: Kokkos_ROOT=/path/to/kokkos %s OUT\n' "$0" >&2
  exit 2
fi
mkdir -p -- "$1"
out=$(cd -- "$1" && pwd)
build=$out/build
jobs=${JOBS:-$(nproc)}
status=0

if [[ -z ${CXX:-} && -x $Kokkos_ROOT/bin/nvcc_wrapper ]]; then
  export CXX=$Kokkos_ROOT/bin/nvcc_wrapper
fi

# step NAME LOG COMMAND...: runs it, keeps what it says, and goes on if it fails.
step()
{
  local name=$1 log=$out/$2
  shift 2
  if "$@" >"$log" 2>&1; then
    printf '%-14s ok\n' "$name"
  else
    printf '%-14s FAILED, see %s\n' "$name" "$log"
    status=1
  fi
}

step configure configure.log cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release \
  -DMEANDER_ENABLE_TESTS=ON -DMEANDER_ENABLE_PERF_TESTS=ON
step build build.log cmake --build "$build" -j "$jobs"
((status == 0)) || exit 1

# One after another: they share the GPU.
step tests tests.log ctest --test-dir "$build" --output-on-failure
step benchmark planar_bench.log "$build/bin/planar_bench" \
  --benchmark_out="$out/planar_bench.json" --benchmark_out_format=json

if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck initcheck; do
    step "$tool" "sanitizer-$tool.log" compute-sanitizer --tool "$tool" --error-exitcode 1 \
      "$build/bin/planar_shapes_test" --gtest_brief=1
  done
fi
if python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  step peers peers.log python3 "$root/perf_tests/peers.py" --bench "$build/bin/planar_bench" --device cuda
  tail -n 12 -- "$out/peers.log"
fi
exit "$status"
