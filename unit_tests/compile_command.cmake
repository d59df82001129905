# SPDX-License-Identifier: BSD-3-Clause
# MEANDER_COMPILE_COMMAND: a file with the compiler and the arguments that a source of a target which links
# meander::meander is compiled with, one a line, but for optimization, input and output.

set(MEANDER_COMPILE_COMMAND ${CMAKE_CURRENT_BINARY_DIR}/compile_command)

# Never built: it is there to be asked for what it inherits.
add_library(meander_user OBJECT EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/test_main.cpp)
target_link_libraries(meander_user PRIVATE meander::meander)

separate_arguments(meander_user_flags UNIX_COMMAND "${CMAKE_CXX_FLAGS}")
set(meander_user_lines ${CMAKE_CXX_COMPILER} ${meander_user_flags} ${CMAKE_CXX20_EXTENSION_COMPILE_OPTION})
foreach(property_and_flag COMPILE_OPTIONS, INCLUDE_DIRECTORIES,-I COMPILE_DEFINITIONS,-D)
  string(REGEX MATCH "(.*),(.*)" _ ${property_and_flag})
  set(meander_user_values "$<TARGET_PROPERTY:meander_user,${CMAKE_MATCH_1}>")
  list(APPEND meander_user_lines
       "$<$<BOOL:${meander_user_values}>:${CMAKE_MATCH_2}$<JOIN:${meander_user_values},\n${CMAKE_MATCH_2}>>")
endforeach()
string(JOIN "\n" meander_user_lines ${meander_user_lines} "")
# One file per language, since flags may depend on it; that of C++ has the plain name.
file(GENERATE OUTPUT ${MEANDER_COMPILE_COMMAND}$<$<NOT:$<COMPILE_LANGUAGE:CXX>>:_$<COMPILE_LANGUAGE>>
     CONTENT "${meander_user_lines}" TARGET meander_user)
