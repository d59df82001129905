# SPDX-License-Identifier: BSD-3-Clause
# cmake -DCOMMAND_FILE=<file> -DSOURCE=<file> -DCASE=<macro> -P compile.cmake: checks the source with the
# macro defined; shows what the compiler says and fails when it does.
cmake_minimum_required(VERSION 3.25)

file(STRINGS ${COMMAND_FILE} command)
execute_process(COMMAND ${command} -fsyntax-only -D${CASE} ${SOURCE} RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "the compiler refuses ${CASE}")
endif()
