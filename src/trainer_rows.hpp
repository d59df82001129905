// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <meander/impl/permutation.hpp>
#include <meander/impl/strided.hpp>

namespace meander::impl {

/// Where the rows of a batch come from: position p of the stream of rows is row order(p mod N) of
/// epoch p / N. A batch is no longer than an epoch, so that two orders do.
struct RowStream {
  Permutation order, next_order;
  std::uint64_t first = 0;  ///< position of the first row, within its epoch

  /// \param[in] position of the first row in the stream
  /// \param[in] rows N >= 1
  RowStream(std::uint64_t seed, std::uint64_t position, std::uint64_t rows)
      : order(permutation(seed, position / rows, rows)),
        next_order(permutation(seed, position / rows + 1, rows)),
        first(position % rows) {}

  MEANDER_FUNCTION std::uint64_t row(std::uint64_t i) const {
    std::uint64_t const p = first + i;
    return p < order.size ? order(p) : next_order(p - order.size);
  }
};

/// Copies rows of the stream: row i of `to` is row stream.row(i) of `from`. Instantiated in src/
/// for every enabled execution space, float and double. Asynchronous.
template <class ExecutionSpace, class Storage>
void gather_rows(ExecutionSpace const& exec, RowStream const& stream,
                 StridedMatrix<Storage const> from, StridedMatrix<Storage> to);

/// Copies a matrix, row by row, to a vector of doubles. Asynchronous.
template <class ExecutionSpace, class T>
void flatten(ExecutionSpace const& exec, StridedMatrix<T const> from, StridedVector<double> to);

}  // namespace meander::impl
