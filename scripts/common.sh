# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the scripts of this folder.
# shellcheck shell=bash

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
deps=$root/.deps

say() { printf 'meander: %s\n' "$*"; }

# Says what went wrong and what to do about it, and stops.
die()
{
  printf 'meander: %s\n' "$*" >&2
  exit 1
}

# log_or_die FILE SENTENCE COMMAND...: runs the command with its output in FILE; on failure shows the end of
# that output and stops with the sentence.
log_or_die()
{
  local log=$1 sentence=$2
  shift 2
  if ! "$@" >"$log" 2>&1; then
    tail -n 25 -- "$log" >&2
    die "$sentence"
  fi
}

probe_folder() { printf '%s/probe/%s' "$deps" "$1"; }

# probed PRESET KEY: what scripts/dependencies.sh, when last run, found CMake to find (dependencies/probe).
probed() { sed -n "s/^probe:$2=//p" "$(probe_folder "$1")/log" 2>/dev/null; }

# configure_preset PRESET [CMAKE ARGUMENT...]
configure_preset()
{
  mkdir -p -- "$root/build"
  # Presets are looked for in the current folder. -U: Kokkos may be another one than last time.
  (cd -- "$root" && log_or_die "$root/build/configure_$1.log" \
    "configuring the preset $1 failed (above; all of it: build/configure_$1.log)." \
    cmake --preset "$@" -U Kokkos_DIR -U KokkosKernels_DIR)
}

# build_preset PRESET [TARGET]: quiet unless it fails or there is a terminal to watch it on.
build_preset()
{
  local -a command=(cmake --build "$root/build/$1" --parallel "$(nproc)" ${2:+--target "$2"})
  local sentence="building the preset $1 failed (above). A changed compiler or Kokkos needs a fresh folder: rm -r build/$1"
  if [[ -t 1 ]]; then
    "${command[@]}" || die "$sentence"
  else
    log_or_die "$root/build/build_$1.log" "$sentence" "${command[@]}"
  fi
}
