#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# From a fresh clone to trained flows pushed forward, checked and drawn: gets the dependencies, builds the
# command line tool, runs it on the reference files, and says where the results are.
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

# Pushes one model's latent rows forward, computing in double and in float.
push_forward()
{
  local name=$1 compute
  local -a epsilon=()
  # The bare reference files were computed with this in the logarithm; see their README.
  [[ $name != reference_* ]] || epsilon=(--epsilon 1e-8)
  for compute in double float; do
    "$meander" forward --model "$data/$name.safetensors" --in "$data/$name.z.npy" --compute "$compute" \
      "${epsilon[@]}" --out "$results/$name.y_$compute.npy" --log-det "$results/$name.logdet_$compute.npy"
  done
}

# The largest error of one result against float64.
error_of() { "$meander" compare "$results/$1.npy" "$data/$2.npy"; }

print_errors()
{
  local name compute
  printf '\n%-26s %-8s %12s %12s\n' "model" "compute" "error of y" "of log-det"
  for name in "$@"; do
    for compute in double float; do
      printf '%-26s %-8s %12s %12s\n' "$name" "$compute" "$(error_of "$name.y_$compute" "$name.y64")" \
        "$(error_of "$name.logdet_$compute" "$name.logdet64")"
    done
  done
  printf '(largest |value - value64| / max(1, |value64|), value64 from PyTorch in float64)\n\n'
}

draw()
{
  "$meander" draw --out "$results/$1.png" "$data/$1.z.npy" "$results/$1.y_float.npy"
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
}

main "$@"
