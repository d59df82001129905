// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <meander/impl/strided.hpp>

namespace meander::impl {

/// Standard normals for checked arguments. Instantiated in src/ for every enabled execution space
/// and the supported pairs of storage and compute type. Asynchronous.
template <class Compute, class ExecutionSpace, class Storage>
void fill_normal(ExecutionSpace const& exec, std::uint64_t seed, std::uint64_t first_row,
                 StridedMatrix<Storage> x);

/// Throws std::invalid_argument if the numbers of `rows` rows from first_row on do not fit 64 bits.
void check_first_row(char const* function, std::uint64_t first_row, std::int64_t rows);

}  // namespace meander::impl
