# SPDX-License-Identifier: BSD-3-Clause
# cmake -DDIRS=<include folders> -P hygiene.cmake: what no public header may contain.
cmake_minimum_required(VERSION 3.25)

# Lines that match, and why they must not be there.
set(rules
  "#[ \t]*include[ \t]*<iostream>|the library prints nothing, and <iostream> costs every user a static initializer"
  "#[ \t]*include[ \t]*[<\"]impl/Kokkos|Kokkos' own impl headers are not an interface"
  "#[ \t]*(define|undef)[ \t]+KOKKOS_|KOKKOS_ macros belong to Kokkos"
  "#[ \t]*define[ \t]+[^M]|macros of ours start with MEANDER_"
  "#[ \t]*ifn?def|write #if defined()"
  "namespace[ \t]+Kokkos|nothing is added to namespace Kokkos"
  "using[ \t]+namespace|a header must not open namespaces for its reader"
  "Kokkos::Impl|Kokkos::Impl is not an interface"
  "Kokkos::parallel_|kernels are compiled in src/, not by users"
  "KOKKOS_(CLASS_)?LAMBDA|kernels are compiled in src/, not by users"
  "Kokkos::(initialize|finalize|fence)|the library leaves that to its user"
)

set(headers "")
foreach(dir IN LISTS DIRS)
  file(GLOB_RECURSE found ${dir}/meander/*.hpp)
  list(APPEND headers ${found})
endforeach()
if(NOT headers)
  message(FATAL_ERROR "no headers in ${DIRS}")
endif()

# Where a kernel holds a function of the user's, only the user can compile it.
set(launchers "impl/reverse_kl.hpp")

set(complaints "")
foreach(header IN LISTS headers)
  file(STRINGS ${header} lines)
  list(GET lines 1 guard)
  if(NOT guard STREQUAL "#pragma once")
    string(APPEND complaints "${header}: line 2 is not #pragma once\n")
  endif()
  foreach(rule IN LISTS rules)
    string(REGEX MATCH "^(.*)\\|([^|]*)$" _ "${rule}")
    set(pattern "${CMAKE_MATCH_1}")
    set(reason "${CMAKE_MATCH_2}")
    file(STRINGS ${header} wrong REGEX "${pattern}")
    if(pattern STREQUAL "Kokkos::parallel_" AND header MATCHES "meander/${launchers}$")
      continue()
    endif()
    foreach(line IN LISTS wrong)
      # Comments may speak of them.
      if(NOT line MATCHES "^ *//")
        string(APPEND complaints "${header}: ${reason}:\n    ${line}\n")
      endif()
    endforeach()
  endforeach()
endforeach()
if(complaints)
  message(FATAL_ERROR "${complaints}")
endif()
list(LENGTH headers count)
message(STATUS "${count} headers, no complaints")
