#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Makes sure that everything Meander is built with is there, and says what was found. Run again, it only looks.
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/dependencies/debian.sh
. "$root/scripts/dependencies/debian.sh"

usage()
{
  cat <<'EOF'
usage: scripts/dependencies.sh [openmp] [serial] [checks]

Looks for the compiler, CMake, the libraries, and a Kokkos for the presets named:
  openmp   for the presets openmp and asan
  serial   for the preset serial
  checks   clang-format, clang-tidy and shellcheck
Without arguments: all three.

A Kokkos (4.6 to 5.x) in Kokkos_ROOT or CMAKE_PREFIX_PATH is used as it is, whatever its backends; then an
installed one that has the backend; otherwise Debian's packages are put into .deps/<preset>, which the presets
search. MEANDER_DEBIAN_MIRROR names the mirror to take them from; without it, Debian's own apt settings say.
Missing Debian packages are installed as root, and named otherwise. CXX chooses the compiler.
EOF
}

cmake_minimum=3.25
gcc_minimum=12

# --- the system's packages ------------------------------------------------------------------------------------

version_at_least() { [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]; }

# missing_tools: "command package" pairs whose command is not there, as package names.
missing_tools()
{
  local command package
  while (($# > 0)); do
    command=$1 package=$2
    shift 2
    command -v "$command" >/dev/null || printf '%s\n' "$package"
  done
}

missing_packages()
{
  local -a tools=(c++ g++ cmake cmake ninja ninja-build)
  local -a missing
  wants checks && tools+=(clang-format clang-format clang-tidy clang-tidy shellcheck shellcheck)
  mapfile -t missing < <(missing_tools "${tools[@]}")
  case " ${missing[*]} " in
    *" g++ "* | *" cmake "* | *" ninja-build "*)
      # CMake cannot look for the libraries yet; apt passes over those that are there.
      missing+=(libgtest-dev libgmock-dev libbenchmark-dev libcli11-dev nlohmann-json3-dev libpng-dev)
      ;;
    *) mapfile -t -O ${#missing[@]} missing < <(probe_answers "${presets[0]:-openmp}" missing) ;;
  esac
  # Debian's compiled Kokkos Kernels calls LAPACK.
  if wants serial && [[ -z ${Kokkos_ROOT:-} ]] && have_apt && ! /sbin/ldconfig -p | grep -c 'liblapack\.so\.3' >/dev/null; then
    missing+=(liblapack3)
  fi
  ((${#missing[@]} == 0)) || printf '%s\n' "${missing[@]}"
}

have_apt() { command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; }

ensure_packages()
{
  local -a missing
  [[ -z ${CXX:-} ]] || command -v "${CXX%% *}" >/dev/null || die "CXX=$CXX: no such compiler. Correct it or unset it."
  mapfile -t missing < <(missing_packages)
  ((${#missing[@]} == 0)) && return
  if ! have_apt; then
    die "these are missing (under Debian's names): ${missing[*]}. Install them with this system's package" \
      "manager or Spack, and name their prefixes in CMAKE_PREFIX_PATH."
  fi
  if ((EUID != 0)); then
    printf 'meander: some packages are missing, and only root can install them. Please run, or ask for:\n' >&2
    printf '  apt-get install %s\n' "${missing[*]}" >&2
    exit 1
  fi
  say "installing ${missing[*]}"
  install_packages "${missing[@]}"
  mapfile -t missing < <(missing_packages)
  ((${#missing[@]} == 0)) || die "installed, and still not found: ${missing[*]}. See cmake's search in $(probe_folder openmp)."
}

install_packages()
{
  local sentence="apt-get could not install $*. Check the network and this machine's package sources, and run this again."
  log_or_die "$work/install.log" "$sentence" apt-get -q update
  log_or_die "$work/install.log" "$sentence" \
    env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install "$@"
}

check_tool_versions()
{
  local cmake_version compiler
  cmake_version=$(cmake --version | sed -n '1s/.* //p')
  version_at_least "$cmake_version" "$cmake_minimum" ||
    die "CMake $cmake_version is too old, $cmake_minimum is needed. A newer one is on PyPI: pip install cmake."
  compiler=$(probe_answers "${presets[0]:-openmp}" compiler)
  if [[ $compiler == "GNU "* ]]; then
    version_at_least "${compiler#GNU }" "$gcc_minimum" ||
      die "g++ ${compiler#GNU } is too old, $gcc_minimum is needed. Name a newer compiler in CXX."
  fi
  say "$compiler, CMake $cmake_version, Ninja $(ninja --version)"
}

# --- what CMake finds -----------------------------------------------------------------------------------------

# Configures the probe project as the preset would be, into <folder>/answers. Its build folder is kept, so that
# only the first time has to try the compiler.
probe()
{
  local preset=$1 folder key
  folder=$(probe_folder "$preset")
  key="$root ${CXX:-} ${CXXFLAGS:-}"
  [[ $(cat -- "$folder/key" 2>/dev/null) == "$key" ]] || rm -rf -- "$folder"
  mkdir -p -- "$folder"
  printf '%s' "$key" >"$folder/key"
  # The presets' search path: the user's first.
  CMAKE_PREFIX_PATH="${CMAKE_PREFIX_PATH:+$CMAKE_PREFIX_PATH:}$deps/$preset" log_or_die "$folder/log" \
    "CMake cannot make a small C++ project (above). Check the compiler${CXX:+ named in CXX, $CXX}." \
    cmake -S "$root/scripts/dependencies/probe" -B "$folder/build" -G Ninja -U '*_DIR' -U 'PNG_*' -U 'ZLIB_*'
}

# probe_answers PRESET KEY: the values found for the key, one a line.
probe_answers()
{
  probe "$1" >&2
  probed "$1" "$2"
}

# --- Kokkos ---------------------------------------------------------------------------------------------------

under() { [[ -n $2 && $(realpath -m -- "$1")/ == "$(realpath -m -- "$2")"/* ]]; }

# Who named the folder in which Kokkos was found.
kokkos_source()
{
  local preset=$1 dir=$2 prefix
  local -a prefixes
  if under "$dir" "${Kokkos_ROOT:-}"; then
    printf 'Kokkos_ROOT'
  elif under "$dir" "$deps/$preset"; then
    printf 'debian'
  elif under "$dir" "${Kokkos_DIR:-}"; then
    printf 'Kokkos_DIR'
  else
    IFS=: read -r -a prefixes <<<"${CMAKE_PREFIX_PATH:-}"
    for prefix in "${prefixes[@]}"; do
      under "$dir" "$prefix" && printf 'CMAKE_PREFIX_PATH' && return
    done
    printf 'installed'
  fi
}

# Sets the found_* variables to what the preset would find.
look_for_kokkos()
{
  local preset=$1
  probe "$preset"
  found_dir=$(probed "$preset" kokkos_dir)
  found_version=$(probed "$preset" kokkos_version)
  found_devices=$(probed "$preset" kokkos_devices)
  found_rejected=$(probed "$preset" kokkos_rejected)
  found_kernels=$(probed "$preset" kernels_version)
  found_kernels_dir=$(probed "$preset" kernels_dir)
  found_source=none
  [[ -z $found_dir ]] || found_source=$(kokkos_source "$preset" "$found_dir")
}

# A Kokkos that the user names is taken as it is; one that is merely there has to have the preset's backend.
kokkos_is_good()
{
  case $found_source in
    none) return 1 ;;
    debian) ! prefix_outdated "$1" ;;
    installed) [[ " $found_devices " == *" ${1^^} "* ]] ;;
    *) return 0 ;;
  esac
}

ensure_kokkos()
{
  local preset=$1
  look_for_kokkos "$preset"
  if [[ -n ${Kokkos_ROOT:-} && $found_source != Kokkos_ROOT ]]; then
    die "Kokkos_ROOT=$Kokkos_ROOT has no usable Kokkos from 4.6 to 5.x${found_rejected:+ (only $found_rejected)}." \
      "Correct it, or unset it to use Debian's packages."
  fi
  if ! kokkos_is_good "$preset"; then
    get_kokkos "$preset"
    look_for_kokkos "$preset"
    kokkos_is_good "$preset" || die "CMake does not find the Kokkos just made; see $(probe_folder "$preset")/log."
  fi
  report_kokkos "$preset"
}

get_kokkos()
{
  local preset=$1
  if have_apt && [[ -n $(debian_mirrors) ]]; then
    make_prefix "$preset"
  elif [[ $preset == openmp ]] && distribution_has_kokkos; then
    install_distribution_kokkos
  else
    die "no Kokkos (4.6 to 5.x) with the ${preset^^} backend was found${found_rejected:+ (only $found_rejected)}, and this" \
      "system's packages hold none. Point at an existing one: Kokkos_ROOT=/its/prefix $0 (a module or Spack package" \
      "of Kokkos), or, on a system with apt, name a Debian mirror in MEANDER_DEBIAN_MIRROR."
  fi
}

distribution_has_kokkos()
{
  local version
  have_apt || return 1
  version=$(apt-cache policy libkokkos-dev 2>/dev/null | sed -n 's/^ *Candidate: //p')
  [[ $version =~ ^[0-9] ]] && version_at_least "$version" 4.6 && ! version_at_least "$version" 6
}

install_distribution_kokkos()
{
  ((EUID == 0)) || die "this system has a package of Kokkos, and only root can install it. Please run, or ask for:" \
    "apt-get install libkokkos-dev"
  say "installing libkokkos-dev"
  install_packages libkokkos-dev
}

report_kokkos()
{
  local preset=$1 from=$found_source
  case $from in
    debian) from="Debian's packages" ;;
    installed) from="installed" ;;
    *) from="named by $from" ;;
  esac
  say "$preset: Kokkos $found_version ($found_devices) in $found_dir, $from"
  if [[ -n $found_kernels ]]; then
    say "$preset: Kokkos Kernels $found_kernels in $found_kernels_dir"
  else
    say "$preset: no Kokkos Kernels (only MEANDER_ENABLE_KOKKOS_KERNELS needs it)"
  fi
}

# --- all of it ------------------------------------------------------------------------------------------------

wants() { [[ " ${wanted[*]} " == *" $1 "* ]]; }

# One run at a time: the presets' folders are shared. The lock goes when the last process of a killed run is gone.
lock()
{
  mkdir -p -- "$deps"
  exec 9>"$deps/lock"
  if ! flock -n 9; then
    say "waiting for another run of this script"
    flock 9
  fi
}

# What a killed run has left, and a folder for this one that goes with it.
open_work()
{
  rm -rf -- "$deps"/.work.* "$deps"/.*.partial.* "$deps"/.*.old.*
  work=$deps/.work.$$
  mkdir -- "$work"
  trap 'rm -rf -- "$deps"/.work.$$ "$deps"/.*.partial.$$' EXIT
}

main()
{
  local preset
  wanted=("$@")
  (($# > 0)) || wanted=(openmp serial checks)
  presets=()
  for preset in "${wanted[@]}"; do
    case $preset in
      openmp | serial) presets+=("$preset") ;;
      checks) ;;
      -h | --help) usage && exit ;;
      *) usage >&2 && exit 2 ;;
    esac
  done

  lock
  open_work
  ensure_packages
  check_tool_versions
  for preset in "${presets[@]}"; do
    ensure_kokkos "$preset"
  done
}

main "$@"
