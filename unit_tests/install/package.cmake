# SPDX-License-Identifier: BSD-3-Clause

get_cmake_property(variables_before VARIABLES)
find_package(meander CONFIG REQUIRED)
expect_no_stray_variables("${variables_before}")
expect(DEFINED meander_VERSION)

get_directory_property(targets IMPORTED_TARGETS)

# Targets: ours is one; the others are those of Kokkos and of what Kokkos needs.
set(our_targets ${targets})
list(FILTER our_targets INCLUDE REGEX "[Mm][Ee][Aa][Nn][Dd][Ee][Rr]")
expect_list(our_targets meander::meander)
expect(TARGET Kokkos::kokkos)
set(other_targets ${targets})
list(REMOVE_ITEM other_targets meander::meander)
list(FILTER other_targets EXCLUDE REGEX "^(Kokkos|OpenMP|Threads|CUDA|hip|roc|HPX|oneDPL)")
expect_list(other_targets)
get_target_property(libraries meander::meander INTERFACE_LINK_LIBRARIES)
list(REMOVE_ITEM libraries "$<LINK_ONLY:>")
expect_list(libraries Kokkos::kokkos)
get_target_property(options meander::meander INTERFACE_COMPILE_OPTIONS)
expect(NOT options)

# Again, as a code made of several parts does.
find_package(meander CONFIG REQUIRED)
find_package(meander ${meander_VERSION} CONFIG REQUIRED)
expect(TARGET meander::meander)

# One that is too new is refused quietly, and the target found before stays.
function(expect_refused version)
  set(found_in ${meander_DIR})
  find_package(meander ${version} CONFIG QUIET)
  expect(NOT meander_FOUND)
  expect(TARGET meander::meander)
  set(meander_DIR ${found_in} CACHE PATH "" FORCE)
endfunction()
expect_refused(99)
string(REGEX MATCH "^([0-9]+)[.]([0-9]+)" _ ${meander_VERSION})
math(EXPR next_minor "${CMAKE_MATCH_2} + 1")
expect_refused(${CMAKE_MATCH_1}.${next_minor})
find_package(meander CONFIG REQUIRED)
