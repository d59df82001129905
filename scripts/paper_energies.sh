#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The experiment of Rezende & Mohamed 2015, section 6.1: planar flows of K = 2, 8, 32 layers fitted to the densities U1
# to U4 by reverse KL, several seeds each. Prints their true KL and draws the paper's figure 3.
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

out=$root/build/paper_energies
meander=$root/build/openmp/bin/meander
python=$out/venv/bin/python

targets=(U1 U2 U3 U4)
lengths=(2 8 32)
seeds=5
with_torch=0
# One setting for all: chosen by the KL of U3, the hardest of the four, at K = 32.
steps=10000
batch=1024
rate=0.02
anneal=$((steps * 3 / 10))

usage()
{
  cat <<EOF
usage: scripts/paper_energies.sh [--torch] [--seeds N]

Gets the dependencies, builds the tool, trains $((${#targets[@]} * ${#lengths[@]})) flows with N seeds each (default: 5),
and leaves models, table and figure in build/paper_energies.

  --torch   trains the same with PyTorch and compares (takes some ten minutes more, and PyTorch from PyPI)
EOF
}

# Python with numpy and matplotlib (and PyTorch): $PYTHON if it has them, else from PyPI into a folder of its own.
get_python()
{
  local -a packages=(numpy matplotlib)
  ((with_torch == 0)) || packages+=(torch)
  if "${PYTHON:-python3}" -c "import ${packages[0]}$(printf ', %s' "${packages[@]:1}")" 2>/dev/null; then
    python=${PYTHON:-python3}
    return
  fi
  say "getting ${packages[*]} from PyPI"
  [[ -x $python ]] || python3 -m venv "$out/venv" || die "python3 -m venv failed (Debian: apt install python3-venv)"
  log_or_die "$out/pip.log" "pip failed (above); PYTHON names a Python that has ${packages[*]}." \
    "$python" -m pip install --disable-pip-version-check "${packages[@]}"
}

# train TARGET LAYERS SEED. One thread each: rows of two numbers are too little for more, and runs are many.
train()
{
  local name=$1_K$2_seed$3
  OMP_NUM_THREADS=1 OMP_PROC_BIND=false "$meander" train --target "$1" --flow "planar:$2" --steps "$steps" \
    --batch "$batch" --lr "$rate" --schedule cosine --anneal "$anneal" --seed "$3" \
    --out "$out/$name.safetensors" >"$out/$name.log" 2>&1 ||
    {
      tail -n 5 -- "$out/$name.log" >&2
      die "training $name failed (above; all of it: ${out#"$root"/}/$name.log)."
    }
}

train_all()
{
  local target layers seed jobs=0
  # Models of an earlier run with more seeds would count.
  rm -f -- "$out"/U*.safetensors
  for layers in "${lengths[@]}"; do
    for target in "${targets[@]}"; do
      for ((seed = 1; seed <= seeds; ++seed)); do
        ((jobs < $(nproc))) || { wait -n || exit 1; jobs=$((jobs - 1)); }
        train "$target" "$layers" "$seed" &
        jobs=$((jobs + 1))
      done
    done
  done
  while ((jobs > 0)); do
    wait -n || exit 1
    jobs=$((jobs - 1))
  done
}

train_torch()
{
  local layers
  layers=$(IFS=, && printf '%s' "${lengths[*]}")
  "$python" "$root/perf_tests/paper_energies_torch.py" --layers "$layers" --seeds "$seeds" --steps "$steps" \
    --batch "$batch" --lr "$rate" --anneal "$anneal" --csv "$out/torch.csv"
}

main()
{
  local started
  local -a peers=()
  while (($# > 0)); do
    case $1 in
      --torch) with_torch=1 ;;
      --seeds)
        shift
        seeds=${1-}
        [[ $seeds =~ ^[1-9][0-9]*$ ]] || { usage >&2 && exit 2; }
        ;;
      -h | --help) usage && exit ;;
      *) usage >&2 && exit 2 ;;
    esac
    shift
  done
  "$root/scripts/dependencies.sh" openmp
  say "building the command line tool"
  configure_preset openmp
  build_preset openmp bin/meander
  mkdir -p -- "$out"
  get_python

  started=$SECONDS
  train_all
  say "training took $((SECONDS - started)) s"
  if ((with_torch)); then
    started=$SECONDS
    train_torch
    say "training with PyTorch took $((SECONDS - started)) s"
    peers=(--torch "$out/torch.csv")
  fi
  say "$steps steps of $batch rows; the mean over $seeds seeds and its standard error:"
  "$python" "$root/perf_tests/paper_energies_report.py" --meander "$meander" --models "$out" "${peers[@]}" \
    --out "$out/energies.png" | tee "$out/table.md"
  say "picture: ${out#"$root"/}/energies.png"
}

main "$@"
