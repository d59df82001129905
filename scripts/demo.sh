#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# From a fresh clone to trained flows pushed forward, sampled, checked and drawn: gets the dependencies, builds
# the command line tool, runs it on the reference files, and says where the results are.
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

data=$root/unit_tests/data
results=$root/build/demo
meander=$root/build/openmp/bin/meander

build_tool()
{
  say "building the command line tool"
  configure_preset openmp
  build_preset openmp bin/meander
}

# Float arithmetic is shown on the files that hold float32 rows; on float64 rows the tool refuses it.
arithmetics_for()
{
  case $1 in
    reference_*) echo double float ;;
    *) echo double ;;
  esac
}

# Pushes one model's latent rows forward.
push_forward()
{
  local name=$1 compute
  local -a epsilon=()
  # The reference files were computed with this in the logarithm; see the README beside them.
  [[ $name != reference_* ]] || epsilon=(--epsilon 1e-8)
  for compute in $(arithmetics_for "$name"); do
    "$meander" forward --model "$data/$name.safetensors" --activation tanh --in "$data/$name.z.npy" \
      --compute "$compute" "${epsilon[@]}" --out "$results/$name.y_$compute.npy" --log-det "$results/$name.logdet_$compute.npy"
  done
}

# print_error LABEL ARITHMETIC Y LOG_DET NAME: the largest errors of two files against the model's float64 truth.
print_error()
{
  printf '%-24s %-16s %12s %12s\n' "$1" "$2" "$("$meander" compare "$3" "$data/$5.y64.npy")" \
    "$("$meander" compare "$4" "$data/$5.logdet64.npy")"
}

print_errors()
{
  local name compute label
  printf '\n%-24s %-16s %12s %12s\n' "model" "arithmetic" "error of y" "of log-det"
  for name in "$@"; do
    label=$name
    for compute in $(arithmetics_for "$name"); do
      print_error "$label" "$compute" "$results/$name.y_$compute.npy" "$results/$name.logdet_$compute.npy" "$name"
      label=
    done
    [[ ! -e $data/$name.y_torch32.npy ]] ||
      print_error "" "PyTorch float32" "$data/$name.y_torch32.npy" "$data/$name.logdet_torch32.npy" "$name"
  done
  printf '(largest |value - truth| / max(1, |truth|); the truth is PyTorch in float64)\n\n'
}

# The density of the rows that came out, against the float64 truth.
print_log_prob_error()
{
  "$meander" log-prob --model "$data/$1.safetensors" --activation tanh --in "$data/$1.y64.npy" \
    --out "$results/$1.logq.npy"
  printf '%s: the largest error of log q(x) is %s\n' "$1" \
    "$("$meander" compare "$results/$1.logq.npy" "$data/$1.logq64.npy")"
}

# Draws a sample, and its histogram beside the flow's density.
sample_and_draw()
{
  "$meander" sample --model "$data/$1.safetensors" --activation tanh -n 2000000 --seed 1 \
    --out "$results/$1.sample.npy" --log-prob "$results/$1.sample_logq.npy" --verbose
  "$meander" density --model "$data/$1.safetensors" --activation tanh --after "$results/$1.sample.npy" --bins 100 \
    --title-after "2000000 rows drawn" --out "$results/$1.density.png"
}

draw()
{
  "$meander" density --before "$data/$1.z.npy" --after "$results/$1.y_double.npy" --out "$results/$1.png"
}

run_main_job()
{
  local -a names=(reference_d2_l32 reference_d5_l3 reference_d32_l8 reference_d32_l8_hard reference_d100_l16
    normflows_twomodes_k16)
  local name
  mkdir -p -- "$results"
  for name in "${names[@]}"; do
    push_forward "$name"
  done
  print_errors "${names[@]}"
  print_log_prob_error normflows_twomodes_k16
  sample_and_draw normflows_twomodes_k16
  draw normflows_twomodes_k16
}

main()
{
  if (($# > 0)); then
    printf 'usage: scripts/demo.sh\n\n%s\n' "Gets the dependencies, builds the tool, runs it; results in build/demo."
    [[ $1 == -h || $1 == --help ]] && exit
    exit 2
  fi
  "$root/scripts/dependencies.sh" openmp
  build_tool
  run_main_job
  say "results (.npy): ${results#"$root"/}"
  say "picture, samples before and after: ${results#"$root"/}/normflows_twomodes_k16.png"
  say "picture, density and sample: ${results#"$root"/}/normflows_twomodes_k16.density.png"
}

main "$@"
