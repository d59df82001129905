// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>

#include <Kokkos_Core.hpp>

namespace meander::impl {

/// Numbers shared out among parts that are summed one after another each: the same parts for any
/// number of threads. One part is a run of neighbours where a thread has a cache of its own, else
/// neighbours belong to neighbouring parts.
struct SumOrder {
  std::int64_t size, parts;
  std::int64_t length = 0;
  bool runs;

  SumOrder(std::int64_t numbers, std::int64_t most_parts, bool in_runs)
      : size(numbers), parts(std::min(numbers, most_parts)), runs(in_runs) {
    length = (size + parts - 1) / parts;
    if (runs) parts = (size + length - 1) / length;
  }

  KOKKOS_FUNCTION std::int64_t count(std::int64_t part) const {
    if (!runs) return (size - part + parts - 1) / parts;
    std::int64_t const left = size - part * length;
    return left < length ? left : length;
  }
  KOKKOS_FUNCTION std::int64_t at(std::int64_t part, std::int64_t k) const {
    return runs ? part * length + k : k * parts + part;
  }
};

}  // namespace meander::impl
