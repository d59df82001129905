# SPDX-License-Identifier: BSD-3-Clause
# cmake -DBUILD=<build folder of the consumer> -P only_consumer.cmake
cmake_minimum_required(VERSION 3.25)

set(prefix ${BUILD}/only_consumer)
file(REMOVE_RECURSE ${prefix})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix} COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE installed RELATIVE ${prefix} ${prefix}/*)
if(NOT installed STREQUAL "bin/consumer")
  message(FATAL_ERROR "expected bin/consumer to be installed, and nothing else; there are ${installed}")
endif()
