#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# From a fresh clone to the whole test suite: gets the dependencies, builds, tests. The last line says how many
# checks passed and failed; the exit status is 1 if any failed.
set -euo pipefail
# shellcheck source=scripts/common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

all_stages=(openmp serial asan install format tidy scripts cuda)

usage()
{
  cat <<'EOF'
usage: scripts/test.sh [stage...]

Stages (all of them without arguments, in this order):
  openmp   the suite, preset openmp
  serial   the suite, preset serial
  asan     the suite, preset asan (address and undefined behaviour sanitizers)
  install  programs of their own against the installed package and against the source as a subdirectory
  format   clang-format
  tidy     clang-tidy
  scripts  shellcheck
  cuda     every kernel compiles for CUDA and does not spill (skipped without nvcc)
EOF
}

passed=0
failed=0
skipped=0
jobs=$(nproc)

# --- counting -------------------------------------------------------------------------------------------------

pass()
{
  printf '  passed   %s\n' "$1"
  passed=$((passed + 1))
}
fail()
{
  printf '  FAILED   %s\n' "$1"
  failed=$((failed + 1))
}
skip()
{
  printf '  skipped  %s\n' "$1"
  skipped=$((skipped + 1))
}

# check NAME COMMAND...: one check. Its output is shown if it fails; exit status 77 means that it cannot tell.
check()
{
  local name=$1 status=0 log
  shift
  log=$logs/${name//[^a-z0-9]/_}.log
  "$@" >"$log" 2>&1 || status=$?
  case $status in
    0) pass "$name" ;;
    77) skip "$name: $(tail -n 1 -- "$log")" ;;
    *)
      tail -n 60 -- "$log"
      fail "$name"
      ;;
  esac
}

# --- the suite ------------------------------------------------------------------------------------------------

suite_value() { sed -n "s/.*<testsuite.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p; /<testcase/q" "$2" | sed -n 1p; }

# Runs the tests of a preset and counts each of them.
run_suite()
{
  local preset=$1 report=$logs/$1.xml status=0 tests failures not_run
  # The build folder holds CTest's own log; what fails is printed.
  rm -f -- "$report"
  OMP_PROC_BIND=${OMP_PROC_BIND:-false} OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive} \
    UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1} \
    ctest --test-dir "$root/build/$preset" --output-on-failure --no-tests=error --parallel "$jobs" \
    --output-junit "$report" --progress || status=$?
  if [[ ! -s $report ]]; then
    fail "$preset: ctest made no report"
    return
  fi
  # CTest writes the attributes on lines of their own. (Not head: it would end the pipe early, an error here.)
  tr '\n' ' ' <"$report" | sed 's/<testcase/\n&/' | sed -n 1p >"$report.head"
  tests=$(suite_value tests "$report.head")
  failures=$(suite_value failures "$report.head")
  not_run=$(($(suite_value disabled "$report.head") + $(suite_value skipped "$report.head")))
  printf '  %s: %d tests, %d failed, %d not run\n' "$preset" "$tests" "$failures" "$not_run"
  passed=$((passed + tests - failures - not_run))
  failed=$((failed + failures))
  skipped=$((skipped + not_run))
  ((status == 0 || failures > 0)) || fail "$preset: ctest ended with status $status"
}

test_preset()
{
  configure_preset "$1" -DCMAKE_COMPILE_WARNING_AS_ERROR=ON
  build_preset "$1"
  run_suite "$1"
}

stage_openmp() { test_preset openmp; }

stage_serial()
{
  if [[ $(probed serial kokkos_dir) == "$(probed openmp kokkos_dir)" ]]; then
    skip "serial: the Kokkos in use, $(probed openmp kokkos_dir), is the one of the preset openmp"
  else
    test_preset serial
  fi
}

stage_asan() { test_preset asan; }

# --- the installed package ------------------------------------------------------------------------------------

# project_works FOLDER SOURCE [CMAKE ARGUMENT...]: configures, builds and tests a project outside the source tree.
project_works()
{
  local build=$1 source=$2
  shift 2
  rm -rf -- "$build"
  cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release "$@" &&
    cmake --build "$build" --parallel "$jobs" &&
    ctest --test-dir "$build" --output-on-failure --no-tests=error
}

install_package()
{
  local folder=$1
  rm -rf -- "$folder"
  cmake --preset openmp -B "$folder/build" -DCMAKE_INSTALL_PREFIX="$folder/prefix" -DMEANDER_ENABLE_TESTS=OFF &&
    cmake --build "$folder/build" --parallel "$jobs" &&
    cmake --install "$folder/build" &&
    # What is installed must not need it.
    rm -rf -- "$folder/build"
}

stage_install()
{
  local folder=$root/build/install_test
  local -a package=(-Dmeander_ROOT="$folder/prefix")
  check "install" install_package "$folder"
  # The presets' search path, for projects that have no presets.
  export CMAKE_PREFIX_PATH=${CMAKE_PREFIX_PATH:+$CMAKE_PREFIX_PATH:}$deps/openmp
  check "installed tool" "$folder/prefix/bin/meander" --version
  check "consumer of the package" project_works "$folder/consumer" "$root/unit_tests/install" "${package[@]}"
  check "consumer of the source" project_works "$folder/subdirectory" "$root/unit_tests/install" \
    -DMEANDER_SOURCE_DIR="$root"
  check "unit_tests alone" cmake -S "$root/unit_tests" -B "$folder/unit_tests" -G Ninja "${package[@]}"
  check "perf_tests alone" cmake -S "$root/perf_tests" -B "$folder/perf_tests" -G Ninja "${package[@]}"
}

# --- the sources ----------------------------------------------------------------------------------------------

# sources SUFFIX...: the project's own files with these suffixes, separated by zero bytes.
sources()
{
  local suffix
  local -a names=()
  for suffix in "$@"; do
    names+=(-o -name "*.$suffix")
  done
  find "$root/include" "$root/src" "$root/unit_tests" "$root/perf_tests" "$root/examples" "$root/scripts" \
    -type f \( "${names[@]:1}" \) -print0
}

check_format() { sources hpp cpp | xargs -0 clang-format --dry-run -Werror; }

# The files that the openmp preset compiles, as its compilation database lists them.
compiled_sources()
{
  sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' "$root/build/openmp/compile_commands.json" | sort -u | tr '\n' '\0'
}

check_tidy()
{
  # The compilation database is GCC's: clang does not know all of its warnings by name.
  compiled_sources | xargs -0 -n 1 -P "$jobs" clang-tidy -p "$root/build/openmp" --quiet --warnings-as-errors='*' \
    --extra-arg=-Wno-unknown-warning-option
}

check_scripts() { (cd -- "$root" && sources sh | xargs -0 shellcheck -x -P "$root" "$root/.ci/run"); }

stage_format() { check "clang-format" check_format; }

stage_tidy()
{
  # For the compilation database.
  configure_preset openmp -DCMAKE_COMPILE_WARNING_AS_ERROR=ON
  check "clang-tidy" check_tidy
}

stage_scripts() { check "shellcheck" check_scripts; }

stage_cuda()
{
  check "cuda gate" "$root/scripts/cuda_gate.sh"
  # Registers per kernel are wanted when all is well, too.
  cat -- "$logs/cuda_gate.log"
}

# --- all of it ------------------------------------------------------------------------------------------------

get_dependencies()
{
  local stage
  local -A needed=()
  for stage in "$@"; do
    case $stage in
      serial) needed[serial]=1 needed[openmp]=1 ;;
      format | scripts) needed[checks]=1 ;;
      tidy) needed[checks]=1 needed[openmp]=1 ;;
      *) needed[openmp]=1 ;;
    esac
  done
  "$root/scripts/dependencies.sh" "${!needed[@]}"
}

main()
{
  local stage started total
  local -a stages=("$@")
  (($# > 0)) || stages=("${all_stages[@]}")
  for stage in "${stages[@]}"; do
    [[ $stage != -h && $stage != --help ]] || { usage && exit; }
    [[ " ${all_stages[*]} " == *" $stage "* ]] || { usage >&2 && exit 2; }
  done

  logs=$root/build/test_logs
  mkdir -p -- "$logs"
  cd -- "$root"
  get_dependencies "${stages[@]}"
  for stage in "${stages[@]}"; do
    started=$SECONDS
    say "stage $stage"
    "stage_$stage"
    say "stage $stage took $((SECONDS - started)) s"
  done

  total="$passed passed, $failed failed"
  ((skipped == 0)) || total+=", $skipped skipped"
  printf '%s\n' "$total"
  ((failed == 0))
}

main "$@"
