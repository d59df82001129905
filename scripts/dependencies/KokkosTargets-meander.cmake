# SPDX-License-Identifier: BSD-3-Clause
# Written by Meander's scripts/dependencies.sh; KokkosTargets.cmake includes it when it makes its targets.
#
# Whatever links this Kokkos finds it again at run time, installed or not. It has to be RPATH rather than
# RUNPATH: only RPATH is also searched for what the libraries themselves need.
get_filename_component(_meander_libraries "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
set(_meander_runtime "${_IMPORT_PREFIX}/runtime")
set_property(
  TARGET Kokkos::kokkoscore
  APPEND
  PROPERTY INTERFACE_LINK_OPTIONS "LINKER:--disable-new-dtags" "LINKER:-rpath,${_meander_libraries}"
)

# The folder is there where this Kokkos was built for a newer C and C++ library than the machine's. Programs
# then take those libraries, and the dynamic linker that belongs to them, from it. The machine's own, which
# the program is linked with, do not have all that the Kokkos libraries ask for.
if(EXISTS "${_meander_runtime}")
  set_property(
    TARGET Kokkos::kokkoscore
    APPEND
    PROPERTY INTERFACE_LINK_OPTIONS "LINKER:--allow-shlib-undefined" "LINKER:-rpath,${_meander_runtime}"
             "LINKER:--dynamic-linker,${_meander_runtime}/ld.so"
  )
endif()
unset(_meander_libraries)
unset(_meander_runtime)
