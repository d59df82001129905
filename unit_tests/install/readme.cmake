# SPDX-License-Identifier: BSD-3-Clause
# cmake -P readme.cmake: the C++ example of the README is the one that compiles, examples/forward.
cmake_minimum_required(VERSION 3.25)

set(root ${CMAKE_CURRENT_LIST_DIR}/../..)
file(READ ${root}/README.md readme)
file(READ ${root}/examples/forward/forward.cpp example)
string(REGEX REPLACE "^// SPDX[^\n]*\n" "" example "${example}")
string(FIND "${readme}" "```cpp\n${example}```" place)
if(place EQUAL -1)
  message(FATAL_ERROR "README.md does not hold, as its cpp block, what examples/forward/forward.cpp holds:\n${example}")
endif()
