#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# measure.sh COMMAND_FILE FOLDER LIMIT: compiles kokkos.cpp and user.cpp, which lie beside this script, several
# times in turn into FOLDER. Fails if the least processor time of user.cpp is more than LIMIT percent of that of
# kokkos.cpp, or if user.cpp made the compiler compile a kernel.
set -euo pipefail

command_file=$1
folder=$2
limit=$3
sources=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
mapfile -t command <"$command_file"
TIMEFORMAT='%U %S'

# milliseconds NAME: processor time of one compilation. Wall time depends on what else the machine does.
milliseconds()
{
  local user system
  read -r user system < <({ time "${command[@]}" -O2 -c "$sources/$1.cpp" -o "$folder/$1.o" 2>"$folder/$1.log"; } 2>&1)
  [[ -s $folder/$1.o ]] || { cat -- "$folder/$1.log" >&2 && exit 1; }
  printf '%d' $((10#${user//[.,]/} + 10#${system//[.,]/}))
}

rm -f -- "$folder"/{kokkos,user}.o
declare -A least=([kokkos]=999999999 [user]=999999999)
for round in 1 2 3 4 5; do
  for name in kokkos user; do
    now=$(milliseconds "$name")
    printf 'round %d: %s.cpp %d ms\n' "$round" "$name" "$now"
    ((now >= least[$name])) || least[$name]=$now
  done
done

percent=$((100 * least[user] / least[kokkos]))
printf 'user.cpp takes %d %% of the time of kokkos.cpp; the limit is %d %%\n' "$percent" "$limit"
((percent <= limit))

# Every kernel that a source launches itself begins with a call of Kokkos::Tools::beginParallelFor (Reduce, Scan).
launches() { nm -C "$folder/$1.o" | grep 'Kokkos::Tools::beginParallel' >/dev/null; }
launches kokkos || { printf 'cannot tell from %s whether it launches a kernel\n' "$folder/kokkos.o" && exit 1; }
if launches user; then
  printf 'user.cpp compiles kernels\n'
  exit 1
fi
