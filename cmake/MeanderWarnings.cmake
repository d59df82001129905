# SPDX-License-Identifier: BSD-3-Clause
# MEANDER_WARNINGS: what every source of the project is compiled with. CI makes them errors with
# CMAKE_COMPILE_WARNING_AS_ERROR.

set(MEANDER_WARNINGS -Wall -Wextra -Wshadow -Wnon-virtual-dtor)
# nvcc hands its own pragmas and extensions on to the host compiler.
if(CMAKE_CXX_COMPILER MATCHES "nvcc")
  list(APPEND MEANDER_WARNINGS -Wno-unknown-pragmas)
else()
  list(APPEND MEANDER_WARNINGS -Wpedantic)
endif()
# GCC 12 sees overlapping copies inside std::string (its bug 105651) and uses after free inside Kokkos'
# reference counting that are not there.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND MEANDER_WARNINGS -Wno-restrict -Wno-use-after-free)
endif()
