# SPDX-License-Identifier: BSD-3-Clause
# Sourced by scripts/dependencies.sh: makes a prefix with Kokkos and Kokkos Kernels from the binary packages
# of Debian's unstable and experimental suites, on any Debian, without root and without touching the system.
# shellcheck shell=bash
# root, deps, say, die and log_or_die come from common.sh, work from dependencies.sh.
# shellcheck disable=SC2154

# Raise this when the contents of a prefix change: older prefixes are then made anew.
debian_recipe=1

debian_keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[[ -e $debian_keyring ]] || debian_keyring=${debian_keyring%.gpg}.pgp

os_release()
{
  # A subshell, so that the variables of that file stay out of this script.
  (
    set +u
    # shellcheck source=/dev/null
    . /etc/os-release 2>/dev/null && printf '%s' "${!1}"
  )
}

# The mirrors to try, one a line: the one the user names, else those this machine's apt already uses for its
# own Debian release. Other archives can carry the release's name too; the signature check sorts them out.
debian_mirrors()
{
  if [[ -n ${MEANDER_DEBIAN_MIRROR:-} ]]; then
    printf '%s\n' "$MEANDER_DEBIAN_MIRROR"
  elif [[ $(os_release ID) == debian ]] && command -v apt-get >/dev/null; then
    # shellcheck disable=SC2016 # for apt to expand
    apt-get indextargets --no-release-info --format '$(CREATED_BY) $(COMPONENT) $(RELEASE) $(SITE)' 2>/dev/null |
      awk -v codename="$(os_release VERSION_CODENAME)" '
        $1 == "Packages" && $2 == "main" && !seen[$4]++ &&
          ($3 == codename || $3 ~ /^(oldstable|stable|testing|unstable|sid|experimental)$/) { print $4 }'
  fi
}

debian_apt() { "apt-$1" -c "$work/apt/apt.conf" "${@:2}"; }

# Points a private apt at one mirror. Of the machine's configuration only how to reach the network is kept:
# hooks and pins are left out, and the list of installed packages is empty.
debian_configure()
{
  local mirror=$1 apt=$work/apt
  rm -rf -- "$apt"
  mkdir -p -- "$apt/state/lists/partial" "$apt/cache/archives/partial"
  : >"$apt/status"
  printf 'deb [signed-by=%s] %s %s main\n' "$debian_keyring" "$mirror" unstable \
    "$debian_keyring" "$mirror" experimental >"$apt/sources.list"
  cat >"$apt/apt.conf" <<EOF
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Dir::State "$apt/state";
Dir::State::lists "$apt/state/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
Dir::Cache::archives "$apt/cache/archives";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::Etc::preferences "-";
Dir::Etc::preferencesparts "-";
APT::Get::List-Cleanup "false";
// This folder may lie where apt's own download user may not go; signatures are checked all the same.
APT::Sandbox::User "root";
Acquire::AllowInsecureRepositories "false";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::http::Timeout "60";
Acquire::https::Timeout "60";
EOF
}

# Finds a mirror that has Debian's packages and reads their lists; once per run.
debian_open()
{
  [[ -n ${debian_mirror:-} ]] && return
  [[ -r $debian_keyring ]] ||
    die "${debian_keyring%.pgp}.gpg is missing, so Debian's packages cannot be verified. Install the package" \
      "debian-archive-keyring, or point Kokkos_ROOT at an existing Kokkos."
  local mirror
  while read -r mirror; do
    debian_configure "$mirror"
    debian_apt get -q update </dev/null >"$work/apt/update.log" 2>&1 || continue
    if [[ -n $(debian_newest libkokkos-dev '.*') ]]; then
      debian_mirror=$mirror
      return
    fi
  done < <(debian_mirrors)
  [[ -r $work/apt/update.log ]] && tail -n 5 -- "$work/apt/update.log" >&2
  die "the package lists of Debian unstable could not be read. Check the network and run this again," \
    "name a mirror in MEANDER_DEBIAN_MIRROR, or point Kokkos_ROOT at an existing Kokkos."
}

# debian_newest PACKAGE REGEX: the newest version that matches; nothing if there is none.
debian_newest()
{
  debian_apt cache madison "$1" 2>/dev/null | awk -F ' *[|] *' '{ print $2 }' |
    grep -Ex -- "$2" | sort -V | tail -n 1 || true
}

# debian_with_library PACKAGE VERSION: that package and the one that holds its shared library, which -dev
# packages depend on with the very same version. Its name carries a version and moves on.
debian_with_library()
{
  printf '%s=%s\n' "$1" "$2"
  debian_apt cache show "$1=$2" | sed -n 's/^Depends: //p' |
    grep -oE 'lib[^ ,]+ \(= [^)]+\)' | sed -E 's/ \(= (.*)\)/=\1/'
}

# debian_unpack FOLDER PACKAGE...: downloads the packages and unpacks them into the folder.
debian_unpack()
{
  local folder=$1 debs=$work/debs deb
  shift
  rm -rf -- "$debs"
  mkdir -p -- "$debs" "$folder"
  (cd -- "$debs" && log_or_die "$work/download.log" \
    "downloading $* failed. Check the network and run this again; nothing half-made is left behind." \
    debian_apt get -q download "$@")
  for deb in "$debs"/*.deb; do
    dpkg-deb -x "$deb" "$folder"
  done
  printf '%s\n' "${debs}"/*.deb | sed -E 's|.*/||; s|_[^_]*$||; s|_| |; s|%3a|:|' >>"$work/packages"
}

# The folder with the libraries of a prefix: lib/<architecture>.
prefix_libraries() { dirname -- "$(dirname -- "$(dirname -- "$(find "$1/lib" -name KokkosConfig.cmake)")")"; }

# Debian's files name /usr/include/kokkos, and static archives of header-only parts that no package holds.
fix_kokkos_config()
{
  local prefix=$1 libraries config archive
  libraries=$(prefix_libraries "$prefix")
  config=$libraries/cmake/Kokkos
  # shellcheck disable=SC2016 # for CMake to expand
  sed -i 's|"/usr/include/kokkos"|"${_IMPORT_PREFIX}/include/kokkos"|' "$config/KokkosTargets.cmake"
  while read -r archive; do
    [[ -e $libraries/$archive ]] || ar qc "$libraries/$archive"
  done < <(sed -n 's|.*IMPORTED_LOCATION_NONE .*/\(lib[a-z]*\.a\)".*|\1|p' "$config"/KokkosTargets-*.cmake)
  cp -- "$root/scripts/dependencies/KokkosTargets-meander.cmake" "$config/"
}

# Kokkos Kernels without its library: every kernel is then compiled by who uses it, for the Kokkos at hand.
make_kernels_header_only()
{
  local headers=$1/include/trilinos header
  for header in "$headers"/generated_specializations_hpp/*.hpp; do
    : >"$header"
  done
  sed -i -E 's|^#define (KOKKOSKERNELS_ENABLE_TPL_(BLAS\|LAPACK))$|/* #undef \1 */|' \
    "$headers/KokkosKernels_config.h"
}

write_kernels_config()
{
  local prefix=$1 header=$1/include/trilinos/KokkosKernels_config.h config version
  config=$(prefix_libraries "$prefix")/cmake/KokkosKernels
  version=$(sed -n -E 's/^#define KOKKOSKERNELS_VERSION_(MAJOR|MINOR|PATCH) //p' "$header" | paste -sd .)
  rm -rf -- "$config"
  mkdir -- "$config"
  cp -- "$root/scripts/dependencies/KokkosKernelsConfig.cmake" "$config/"
  cat >"$work/version.cmake" <<EOF
include(CMakePackageConfigHelpers)
write_basic_package_version_file(
  "$config/KokkosKernelsConfigVersion.cmake" VERSION $version COMPATIBILITY SameMajorVersion ARCH_INDEPENDENT)
EOF
  cmake -P "$work/version.cmake"
}

# True where the prefix's libraries ask for versions of the C or C++ library that this machine has not got.
needs_newer_runtime()
{
  local libraries
  libraries=$(prefix_libraries "$1")
  # Not "ldd | grep -q": grep would leave early, and pipefail then report ldd's broken pipe.
  [[ $(LD_LIBRARY_PATH=$libraries ldd "$libraries"/*.so 2>&1) == *"version \`"*"' not found"* ]]
}

# Adds Debian's current C and C++ libraries; KokkosTargets-meander.cmake makes programs use them.
add_runtime()
{
  local runtime=$1/runtime libc loader
  rm -rf -- "$work/unpacked"
  debian_unpack "$work/unpacked" libc6 libstdc++6 libgcc-s1 libgomp1
  libc=$(find "$work/unpacked/usr/lib" -name libc.so.6)
  mkdir -- "$runtime"
  mv -- "$(dirname -- "$libc")"/*.so* "$runtime/"
  loader=$(find "$runtime" -name 'ld-linux*.so.*' -type f)
  ln -s -- "$(basename -- "$loader")" "$runtime/ld.so"
}

# check_prefix PREFIX TARGET: compiles, links and runs a small program with it.
check_prefix()
{
  local build=$work/check
  rm -rf -- "$build"
  # Without the user's environment: it is this prefix that has to work.
  env -u Kokkos_ROOT -u Kokkos_DIR -u KokkosKernels_ROOT -u CMAKE_PREFIX_PATH \
    cmake -S "$root/scripts/dependencies/check" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS=-g0 \
    -DCMAKE_PREFIX_PATH="$1" &&
    cmake --build "$build" --target "$2" &&
    OMP_PROC_BIND=false "$build/$2"
}

# make_prefix openmp|serial: makes .deps/<name>, complete or not at all.
make_prefix()
{
  local name=$1 partial=$deps/.$1.partial.$$ package version
  local -a kokkos kernels
  debian_open
  case $name in
    openmp) package=libkokkos-dev version=$(debian_newest libkokkos-dev '5\..*') ;;
    serial) package=libtrilinos-kokkos-dev version=$(debian_newest libtrilinos-kokkos-dev '.*') ;;
  esac
  [[ -n $version ]] ||
    die "Debian has no $package with a Kokkos 5 any more. Point Kokkos_ROOT at an existing Kokkos (4.6 to 5.x)."
  say "making .deps/$name from Debian's $package $version (once; under a minute)"

  : >"$work/packages"
  mapfile -t kokkos < <(debian_with_library "$package" "$version")
  version=$(debian_newest libtrilinos-kokkos-kernels-dev '.*')
  mapfile -t kernels < <(debian_with_library libtrilinos-kokkos-kernels-dev "$version")
  # Header-only needs the headers alone.
  [[ $name == openmp ]] && kernels=("${kernels[0]}")

  rm -rf -- "$work/unpacked"
  debian_unpack "$work/unpacked" "${kokkos[@]}" "${kernels[@]}"
  mkdir -- "$partial"
  mv -- "$work/unpacked/usr/include" "$work/unpacked/usr/lib" "$work/unpacked/usr/share" "$partial/"

  fix_kokkos_config "$partial"
  [[ $name == openmp ]] && make_kernels_header_only "$partial"
  write_kernels_config "$partial"
  if needs_newer_runtime "$partial"; then
    add_runtime "$partial"
  fi

  log_or_die "$work/check.log" \
    "a program with Debian's $package does not work here (above). Point Kokkos_ROOT at an existing Kokkos." \
    check_prefix "$partial" kokkos_check
  if ! check_prefix "$partial" kernels_check >"$work/check.log" 2>&1; then
    # Only an option needs it, so its failure must not cost the user the rest.
    tail -n 25 -- "$work/check.log" >&2
    say "Kokkos Kernels does not work with this Kokkos (above) and is left out of .deps/$name"
    rm -rf -- "$(prefix_libraries "$partial")/cmake/KokkosKernels"
  fi

  { printf 'recipe %s\n' "$debian_recipe" && cat -- "$work/packages"; } >"$partial/meander-prefix.txt"
  [[ -e $deps/$name ]] && mv -- "$deps/$name" "$deps/.$name.old.$$"
  mv -- "$partial" "$deps/$name"
  rm -rf -- "$deps/.$name.old.$$"
}

# True for a prefix that this version of the script did not make.
prefix_outdated() { [[ $(head -n 1 "$deps/$1/meander-prefix.txt" 2>/dev/null) != "recipe $debian_recipe" ]]; }
