# SPDX-License-Identifier: BSD-3-Clause
# Finds Kokkos, and says what to do where it cannot. Kokkos' own version file accepts anything newer than
# what is asked for, so the upper bound is looked at here.

if(NOT TARGET Kokkos::kokkos)
  find_package(Kokkos 4.6 CONFIG)
  if(NOT Kokkos_FOUND)
    message(
      FATAL_ERROR
        "Kokkos 4.6 or newer was not found. Point CMake at one with -DKokkos_ROOT=<prefix> (or the "
        "environment variable Kokkos_ROOT), or let scripts/dependencies.sh fetch Debian's packages."
    )
  endif()
  if(Kokkos_VERSION VERSION_GREATER_EQUAL 6)
    message(WARNING "Kokkos ${Kokkos_VERSION} is newer than what Meander is tested with (4.6 to 5.x).")
  endif()
endif()
if(MEANDER_ENABLE_KOKKOS_KERNELS AND NOT TARGET Kokkos::kokkoskernels)
  # Without a version: its version file accepts its own major only, which must be that of the Kokkos found.
  find_package(KokkosKernels CONFIG REQUIRED)
endif()

# A Kokkos built with Kokkos_ENABLE_COMPILE_AS_CMAKE_LANGUAGE wants its users' sources in that language.
if(Kokkos_COMPILE_LANGUAGE AND NOT Kokkos_COMPILE_LANGUAGE STREQUAL "CXX")
  enable_language(${Kokkos_COMPILE_LANGUAGE})
endif()
function(meander_kokkos_sources)
  if(Kokkos_COMPILE_LANGUAGE AND NOT Kokkos_COMPILE_LANGUAGE STREQUAL "CXX")
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE ${Kokkos_COMPILE_LANGUAGE})
  endif()
endfunction()
