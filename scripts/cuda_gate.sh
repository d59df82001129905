#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Compiles every kernel for CUDA, without a GPU and without a Kokkos that was built for CUDA, and prints what
# ptxas makes of each: registers, shared memory, stack, spills. Fails if a file does not compile or a kernel
# spills registers. Exits with 77 where it cannot tell (no nvcc).
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

# The files that hold kernels. Those of src/host and src/cli are compiled by the host compiler only.
kernel_sources=("$root"/src/affine.cpp "$root"/src/planar*.cpp "$root"/src/flow*.cpp "$root"/src/adam.cpp "$root"/src/importance.cpp
  "$root"/src/random.cpp "$root"/src/reverse_kl.cpp "$root"/src/trainer.cpp "$root"/src/trainer_rows.cpp)
arch=sm_90
# The macros of a Kokkos configured for that architecture.
kokkos_macros=(KOKKOS_ENABLE_CUDA KOKKOS_ARCH_HOPPER KOKKOS_ARCH_HOPPER90)

out=$root/build/cuda_gate

skip()
{
  printf 'cuda gate: SKIPPED, %s\n' "$1"
  exit 77
}

find_nvcc()
{
  command -v "${NVCC:-nvcc}" || command -v "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" || true
}

# Kokkos' headers are the same for every backend but for a few generated ones. A second set of those, found
# before the first, turns the CUDA backend on. Nothing compiled like this can be linked.
make_overlay()
{
  local kokkos=$1 overlay=$out/overlay macro kind
  rm -rf -- "$overlay"
  mkdir -p -- "$overlay/desul/atomics"
  cp -- "$kokkos"/KokkosCore_config.h "$kokkos"/KokkosCore_Config_*Backend.hpp "$overlay/"
  for macro in "${kokkos_macros[@]}"; do
    sed -i -E "s|^/\* #undef $macro \*/$|#define $macro|" "$overlay/KokkosCore_config.h"
    grep -q "^#define $macro$" "$overlay/KokkosCore_config.h" || die "this Kokkos has no macro $macro to set."
  done
  sed -i 's|^#endif|#include <setup/Kokkos_Setup_Cuda.hpp>\n&|' "$overlay/KokkosCore_Config_SetupBackend.hpp"
  for kind in Declare Fwd; do
    sed -i "s|^#endif|#include <${kind,,}/Kokkos_${kind}_CUDA.hpp>\n&|; s|<declare/|<decl/|" \
      "$overlay/KokkosCore_Config_${kind}Backend.hpp"
  done
  sed 's|^/\* #undef DESUL_ATOMICS_ENABLE_CUDA \*/$|#define DESUL_ATOMICS_ENABLE_CUDA|' \
    "$kokkos/desul/atomics/Config.hpp" >"$overlay/desul/atomics/Config.hpp"
}

# Compiles one file; its messages and ptxas' go to <name>.log. The host's half of the code is compiled as well,
# since nvcc has rules of its own for it, but not optimised. Device code that calls a host function is only a
# warning to nvcc, and a crash to users.
compile()
{
  local source=$1 name
  name=$(basename -- "$source" .cpp)
  "$nvcc" -x cu -std=c++20 -arch="$arch" --extended-lambda -Xptxas -v -Xcompiler -fopenmp \
    -Werror cross-execution-space-call -I "$out/overlay" -I "$root/include" -I "$kokkos_include" \
    -c "$source" -o "$out/$name.o" >"$out/$name.log" 2>&1 || touch -- "$out/$name.failed"
}

# From ptxas' messages to one line a function, tab-separated:
# kernel|function  registers  shared  stack  spilled  mangled name
# A device function that was not inlined has properties of its own, but no entry line.
ptxas_table()
{
  awk '
    function row() {
      if (name == "") return
      printf "%s\t%d\t%d\t%d\t%d\t%s\n", kind, registers, shared, stack, spilled, name
      name = ""
    }
    function before(unit,   a) { return match($0, "[0-9]+ " unit) ? substr($0, RSTART, RLENGTH) + 0 : 0 }
    /Compiling entry function/ { entry = $0; sub(/^[^\x27]*\x27/, "", entry); sub(/\x27.*/, "", entry); next }
    /Function properties for/ {
      row(); name = $NF; kind = name == entry ? "kernel" : "function"; registers = shared = 0; next
    }
    /bytes stack frame/ { stack = before("bytes stack"); spilled = before("bytes spill stores") + before("bytes spill loads") }
    /: Used [0-9]+ registers/ {
      match($0, /Used [0-9]+/); registers = substr($0, RSTART + 5, RLENGTH - 5)
      shared = before("bytes smem"); row()
    }
    END { row() }
  ' "$@"
}

# Of the demangled name of a launch only the functor matters: ParallelFor<functor, policy, ...>.
short_names()
{
  c++filt | awk -F '\t' -v OFS='\t' '
    {
      name = $NF
      if (match(name, /Parallel(For|Reduce|Scan|ScanWithTotal)<(Kokkos::Impl::CombinedFunctorReducer<)?/)) {
        rest = substr(name, RSTART + RLENGTH)
        depth = 0
        for (i = 1; i <= length(rest); ++i) {
          c = substr(rest, i, 1)
          if (c ~ /[<(]/) ++depth
          if (c ~ /[>)]/) --depth
          if (depth < 0 || (depth == 0 && c == ",")) break
        }
        name = substr(rest, 1, i - 1)
      }
      gsub(/\(anonymous namespace\)::/, "", name)
      gsub(/meander::impl::/, "", name)
      gsub(/meander::/, "", name)
      $NF = name
      print
    }'
}

# Prints the table; fails if anything spills.
report()
{
  ptxas_table "$@" | short_names | awk -F '\t' '
    BEGIN { printf "%9s %7s %6s %6s  %s\n", "registers", "shared", "stack", "spill", "kernel" }
    $1 == "kernel" { ++kernels }
    $5 > 0 { ++spills }
    $1 == "kernel" || $4 > 0 || $5 > 0 {
      printf "%9s %7d %6d %6d  %s%s\n", $1 == "kernel" ? $2 : "-", $3, $4, $5, $6, $1 == "kernel" ? "" : " (called)"
    }
    END {
      printf "cuda gate: %d kernels, %d spills\n", kernels, spills
      exit spills > 0 || kernels == 0
    }'
}

main()
{
  local -a logs=()
  local source name version failed=0
  nvcc=$(find_nvcc)
  [[ -n $nvcc ]] || skip "there is no nvcc here (the CUDA toolkit, 12.4 or newer)"
  "$root/scripts/dependencies.sh" openmp >/dev/null
  kokkos_include=$(probed openmp kokkos_include)
  [[ -e $kokkos_include/Cuda/Kokkos_Cuda.hpp ]] || skip "the Kokkos in $kokkos_include comes without the CUDA headers"
  version=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
  say "nvcc $version for $arch, Kokkos $(probed openmp kokkos_version)"

  mkdir -p -- "$out"
  rm -f -- "$out"/*.log "$out"/*.failed
  make_overlay "$kokkos_include"
  for source in "${kernel_sources[@]}"; do
    while (($(jobs -rp | wc -l) >= $(nproc))); do
      wait -n
    done
    compile "$source" &
  done
  wait

  for source in "${kernel_sources[@]}"; do
    name=$(basename -- "$source" .cpp)
    logs+=("$out/$name.log")
    [[ -e $out/$name.failed ]] || continue
    failed=1
    grep -v '^ptxas info' -- "$out/$name.log" | head -n 40 >&2 || true
    printf 'cuda gate: %s does not compile (all of it: %s)\n' "$source" "$out/$name.log" >&2
  done
  report "${logs[@]}" && ((failed == 0))
}

main "$@"
