# SPDX-License-Identifier: BSD-3-Clause

set(build_type "${CMAKE_BUILD_TYPE}")
set(flags "${CMAKE_CXX_FLAGS}")
get_cmake_property(variables_before VARIABLES)
add_subdirectory(${MEANDER_SOURCE_DIR} meander)
expect_no_stray_variables("${variables_before}")

expect(TARGET meander::meander)

# Tests, tools and installation belong to Meander's own builds.
foreach(option MEANDER_ENABLE_TESTS MEANDER_ENABLE_PERF_TESTS MEANDER_ENABLE_TOOLS MEANDER_INSTALL MEANDER_NATIVE)
  expect(NOT ${option})
endforeach()

# All that it builds.
function(targets_below folder result)
  get_directory_property(targets DIRECTORY ${folder} BUILDSYSTEM_TARGETS)
  get_directory_property(folders DIRECTORY ${folder} SUBDIRECTORIES)
  foreach(below IN LISTS folders)
    targets_below(${below} more)
    list(APPEND targets ${more})
  endforeach()
  set(${result} ${targets} PARENT_SCOPE)
endfunction()
targets_below(${MEANDER_SOURCE_DIR} meander_targets)
expect_list(meander_targets meander meander_host)

# The consumer's own settings stay.
expect("type ${CMAKE_BUILD_TYPE}" STREQUAL "type ${build_type}")
expect("flags ${CMAKE_CXX_FLAGS}" STREQUAL "flags ${flags}")
expect(NOT CMAKE_RUNTIME_OUTPUT_DIRECTORY)
