#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds, tests and times Meander on a GPU node in one go; --help says how. The defaults are meant to take less
# than eight minutes on 16 cores.
set -euo pipefail

usage()
{
  cat <<'HELP'
usage: Kokkos_ROOT=/path/to/kokkos perf_tests/run_on_node.sh [option...] OUT

Kokkos must have been built for the GPU. Everything that comes out lies in OUT: a log of each step, the benchmarks'
results (*_bench.json), peers*.log, growth.png, and the build folder. Steps, in this order:
  build      configures and builds
  tests      runs every GoogleTest program
  sanitize   memcheck, racecheck and initcheck on some of them, where compute-sanitizer is there
  bench      runs the benchmarks
  peers      times PyTorch and JAX on the same shapes, where PyTorch is there and sees the GPU
  plots      draws the growth benchmarks, where matplotlib is there

Called again with the same OUT, it repeats only what failed, or what other programs or options make different.
A step that fails does not keep the others from running, except that nothing runs without a build. The last lines
say how each went; the exit status is 1 if one failed.

options:
  --steps LIST     only these steps, separated by commas
  --programs DIR   do not build: test and time the programs in DIR
  --all-tests      the tests through ctest: also those that compile code, which take minutes under nvcc
  --sanitize LIST  the programs for compute-sanitizer, separated by commas (default: planar_test,
                   planar_shapes_test, planar_inverse_test, flow_test and random_test, those that exist)
  --fresh          repeat everything
  -h, --help       print this

environment:
  Kokkos_ROOT  the Kokkos to build with
  CXX          the compiler (default: the nvcc_wrapper of that Kokkos, if it has one)
  JOBS         how many compilers run at once (default: as many as there are cores)
  CMAKE_ARGS   more arguments for CMake, such as -DMEANDER_ENABLE_TOOLS=OFF where CLI11 or libpng is missing
  PYTHON       the Python of peers and plots (default: python3)
  MIN_TIME     seconds that a benchmark repeats its map, at least (default: 0.2)
  STEP_LIMIT   seconds after which a test or a benchmark is stopped (default: 300)
HELP
}

wrong_usage()
{
  printf '%s: %s; --help says more\n' "$0" "$1" >&2
  exit 2
}

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
jobs=${JOBS:-$(nproc)}
python=${PYTHON:-python3}
limit=${STEP_LIMIT:-300}
min_time=${MIN_TIME:-0.2}
all_steps=(build tests sanitize bench peers plots)
steps=("${all_steps[@]}")
sanitized=(planar_test planar_shapes_test planar_inverse_test flow_test random_test)
programs=
all_tests=
fresh=
out=

while (($# > 0)); do
  case $1 in
    -h | --help) usage && exit ;;
    --all-tests) all_tests=yes ;;
    --fresh) fresh=yes ;;
    --steps | --programs | --sanitize)
      (($# > 1)) || wrong_usage "$1 needs a value"
      case $1 in
        --steps) IFS=', ' read -r -a steps <<<"$2" ;;
        --sanitize) IFS=', ' read -r -a sanitized <<<"$2" ;;
        --programs) programs=$2 ;;
      esac
      shift
      ;;
    -*) wrong_usage "there is no option $1" ;;
    *)
      [[ -z $out ]] || wrong_usage "one OUT is enough"
      out=$1
      ;;
  esac
  shift
done
[[ -n $out ]] || wrong_usage "OUT is missing"
for name in "${steps[@]}"; do
  [[ " ${all_steps[*]} " == *" $name "* ]] || wrong_usage "there is no step $name"
done

wanted() { [[ " ${steps[*]} " == *" $1 "* ]]; }

mkdir -p -- "$out/.done"
out=$(cd -- "$out" && pwd)
build=$out/build
if [[ -n $programs ]]; then
  [[ -d $programs ]] || wrong_usage "there is no folder $programs"
  programs=$(cd -- "$programs" && pwd)
else
  programs=$build/bin
  if wanted build; then
    [[ -n ${Kokkos_ROOT:-} ]] || wrong_usage "Kokkos_ROOT is not set"
    if [[ -z ${CXX:-} && -x $Kokkos_ROOT/bin/nvcc_wrapper ]]; then
      export CXX=$Kokkos_ROOT/bin/nvcc_wrapper
    fi
  fi
fi

# --- steps ----------------------------------------------------------------------------------------------------

summary=()
failures=0
stamp=

report()
{
  local line
  line=$(printf '%-34s %-8s %5s s' "$1" "$2" "$3")
  printf '%s\n' "$line"
  summary+=("$line")
}

# step NAME SECONDS COMMAND...: runs the command with its output in OUT/NAME.log for at most that long, unless it
# has succeeded before with the same programs.
step()
{
  local name=$1 seconds=$2 started=$SECONDS status=0 done_before=$out/.done/$1 this
  shift 2
  this="$stamp $*"
  if [[ -z $fresh && -n $stamp && -e $done_before && $(<"$done_before") == "$this" ]]; then
    report "$name" "before" 0
    return
  fi
  rm -f -- "$done_before"
  timeout --kill-after=10 "$seconds" "$@" >"$out/$name.log" 2>&1 || status=$?
  if ((status == 0)); then
    report "$name" "ok" $((SECONDS - started))
    printf '%s' "$this" >"$done_before"
    return
  fi
  ((status != 124 && status != 137)) || printf 'stopped after %s seconds\n' "$seconds" >>"$out/$name.log"
  report "$name" "FAILED" $((SECONDS - started))
  failures=$((failures + 1))
  tail -n 20 -- "$out/$name.log" | sed 's/^/    /'
}

finish()
{
  printf '\n'
  printf '%s\n' "${summary[@]}"
  printf '%d steps, %d failed, %d s; logs in %s\n' "${#summary[@]}" "$failures" "$SECONDS" "$out"
  exit $((failures > 0))
}

skipped() { report "$1" "skipped" 0; }

configure_and_build()
{
  local -a more=()
  read -r -a more <<<"${CMAKE_ARGS:-}"
  step configure 300 cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DMEANDER_ENABLE_TESTS=ON \
    -DMEANDER_ENABLE_PERF_TESTS=ON "${more[@]}"
  ((failures > 0)) || step build 1800 cmake --build "$build" -j "$jobs"
}

# What the other steps' results depend on.
stamp_of_programs()
{
  {
    find -L "$programs" -maxdepth 1 -type f -executable -print0 | sort -z | xargs -0 -r cat --
    cat -- "$root"/perf_tests/*.py
  } | cksum
}

# One after another: they share the GPU.
test_programs()
{
  local program count=0
  if [[ -n $all_tests ]]; then
    step ctest 1800 ctest --test-dir "$build" --output-on-failure --no-tests=error
    return
  fi
  for program in "$programs"/*_test; do
    [[ -x $program ]] || continue
    count=$((count + 1))
    step "$(basename -- "$program")" "$limit" "$program" --gtest_brief=1
  done
  # An empty folder must not look like a success.
  ((count > 0)) || step "tests" 1 ls -- "$programs/"*_test
}

sanitize()
{
  local tool program
  if ! command -v compute-sanitizer >/dev/null; then
    skipped "sanitize"
    return
  fi
  for tool in memcheck racecheck initcheck; do
    for program in "${sanitized[@]}"; do
      [[ -x $programs/$program ]] || continue
      step "$tool-$program" "$limit" compute-sanitizer --tool "$tool" --error-exitcode 1 "$programs/$program" \
        --gtest_brief=1
    done
  done
}

run_benchmarks()
{
  local program name
  for program in "$programs"/*_bench; do
    [[ -x $program ]] || continue
    name=$(basename -- "$program")
    step "$name" "$limit" "$program" --benchmark_min_time="$min_time" \
      --benchmark_out="$out/$name.json" --benchmark_out_format=json
  done
}

has_python() { "$python" -c "$1" 2>/dev/null; }

run_peers()
{
  local -a peers=("$python" "$root/perf_tests/peers.py" --device cuda --seconds 1)
  local program
  for program in planar_bench flow_bench; do
    [[ ! -x $programs/$program ]] || peers+=(--bench "$programs/$program")
  done
  if [[ " ${peers[*]} " != *" --bench "* ]] ||
    ! has_python 'import torch, sys; sys.exit(not torch.cuda.is_available())'; then
    skipped "peers"
    return
  fi
  step peers 600 "${peers[@]}"
  step peers_of_flows 600 "${peers[@]}" --maps sample,inverse,log_prob --shapes 32x8
  # Their tables come last.
  sed -n '/^|/p' -- "$out/peers.log" "$out/peers_of_flows.log"
}

draw_plots()
{
  if [[ -e $out/planar_bench.json ]] && has_python 'import matplotlib'; then
    step plots 120 "$python" "$root/perf_tests/plot_growth.py" "$out/planar_bench.json" --out "$out/growth.png"
  else
    skipped "plots"
  fi
}

if wanted build && [[ $programs == "$build/bin" ]]; then
  configure_and_build
  ((failures == 0)) || finish
fi
stamp=$(stamp_of_programs)
if wanted tests; then test_programs; fi
if wanted sanitize; then sanitize; fi
if wanted bench; then run_benchmarks; fi
if wanted peers; then run_peers; fi
if wanted plots; then draw_plots; fi
finish
