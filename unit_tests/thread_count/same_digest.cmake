# SPDX-License-Identifier: BSD-3-Clause
# cmake -DDIGEST=<planar_digest> -P same_digest.cmake: fails unless 1, 2 and 3 threads compute the same bits.
cmake_minimum_required(VERSION 3.25)

set(threads_seen "")
foreach(threads 1 2 3)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env OMP_NUM_THREADS=${threads} ${DIGEST} --kokkos-num-threads=${threads}
    OUTPUT_VARIABLE output
    RESULT_VARIABLE result
  )
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${DIGEST} with ${threads} threads ended with ${result}\n${output}")
  endif()
  if(NOT output MATCHES "^threads ([0-9]+)\n(.*)$")
    message(FATAL_ERROR "${DIGEST} with ${threads} threads printed\n${output}")
  endif()
  list(APPEND threads_seen ${CMAKE_MATCH_1})
  set(digests_${threads} "${CMAKE_MATCH_2}")
  if(NOT digests_${threads} STREQUAL digests_1)
    message(FATAL_ERROR "With 1 thread:\n${digests_1}\nwith ${threads}:\n${digests_${threads}}")
  endif()
endforeach()

# Serial takes the option and ignores it; a back end with threads must not.
list(REMOVE_DUPLICATES threads_seen)
message(STATUS "Concurrency ${threads_seen}: the same bits\n${digests_1}")
if(EXPECT_THREADS AND NOT threads_seen STREQUAL "1;2;3")
  message(FATAL_ERROR "asked for 1, 2 and 3 threads, got ${threads_seen}")
endif()
