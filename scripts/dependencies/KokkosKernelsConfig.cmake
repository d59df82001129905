# SPDX-License-Identifier: BSD-3-Clause
# Written by Meander's scripts/dependencies.sh: Debian's package is part of Trilinos, and its CMake files
# refer to parts of Trilinos that are not needed here. The target's name is the one of a stand-alone
# Kokkos Kernels.
include(CMakeFindDependencyMacro)
get_filename_component(_meander_cmake_dir "${CMAKE_CURRENT_LIST_DIR}/.." REALPATH)
find_dependency(Kokkos CONFIG HINTS "${_meander_cmake_dir}/Kokkos")

get_filename_component(_meander_kokkos_dir "${Kokkos_DIR}/.." REALPATH)
if(NOT _meander_kokkos_dir STREQUAL _meander_cmake_dir)
  set(KokkosKernels_FOUND FALSE)
  set(KokkosKernels_NOT_FOUND_MESSAGE
      "${CMAKE_CURRENT_LIST_DIR} belongs to the Kokkos beside it, but Kokkos was found in ${Kokkos_DIR}; set KokkosKernels_ROOT"
  )
elseif(NOT TARGET Kokkos::kokkoskernels)
  get_filename_component(_meander_libraries "${_meander_cmake_dir}/.." ABSOLUTE)
  get_filename_component(_meander_prefix "${_meander_libraries}/../.." ABSOLUTE)
  # Compiled where the library is shipped along, header-only otherwise.
  set(_meander_compiled "${_meander_libraries}/libtrilinos_kokkoskernels.so")
  if(EXISTS "${_meander_compiled}")
    add_library(Kokkos::kokkoskernels SHARED IMPORTED)
    set_property(TARGET Kokkos::kokkoskernels PROPERTY IMPORTED_LOCATION "${_meander_compiled}")
  else()
    add_library(Kokkos::kokkoskernels INTERFACE IMPORTED)
  endif()
  set_target_properties(
    Kokkos::kokkoskernels PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_meander_prefix}/include/trilinos"
                                     INTERFACE_LINK_LIBRARIES Kokkos::kokkos
  )
  add_library(KokkosKernels::all_libs ALIAS Kokkos::kokkoskernels)
  unset(_meander_libraries)
  unset(_meander_prefix)
  unset(_meander_compiled)
endif()
unset(_meander_cmake_dir)
unset(_meander_kokkos_dir)
