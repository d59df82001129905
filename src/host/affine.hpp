// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <meander/impl/affine.hpp>
#include <meander/impl/strided.hpp>

/// An affine layer on the host, in plain C++.
namespace meander::impl::host {

/// The rows of `to`, each from the row of the same number of `from`; of any layouts and types.
template <class From, class To>
void affine_rows(AffineCoefficients const& layer, MapDirection direction,
                 StridedMatrix<From const> const& from, StridedMatrix<To> const& to) {
  std::int64_t const rows = to.extent0, dim = to.extent1;
  bool const forward = direction == MapDirection::forward;
  auto const map     = [&](std::int64_t i, std::int64_t d, double factor, double shift) {
    auto const x = static_cast<double>(from.data[i * from.stride0 + d * from.stride1]);
    // Two roundings, on every machine: contraction is off for these sources.
    double const y                           = forward ? factor * x + shift : (x - shift) * factor;
    to.data[i * to.stride0 + d * to.stride1] = static_cast<To>(y);
  };
  auto const* const factors = forward ? layer.scale : layer.inverse_scale;
  if (to.stride0 <= to.stride1) {
    for (std::int64_t d = 0; d < dim; ++d)
      for (std::int64_t i = 0; i < rows; ++i) map(i, d, factors[d], layer.shift[d]);
  } else {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t d = 0; d < dim; ++d) map(i, d, factors[d], layer.shift[d]);
  }
}

/// A batch on its own, for map_on_host.
template <class Storage>
struct AffineTiles {
  AffineCoefficients layer;
  MapDirection direction;
  StridedMatrix<Storage const> from;
  StridedMatrix<Storage> to;
  StridedVector<Storage> log_det;  ///< null: not wanted

  std::int64_t rows() const { return to.extent0; }
  /// Few enough to stay in cache while they are read one way and written the other.
  int rows_per_tile(int threads) const;
  /// Computes the rows of [first, last) that exist.
  void run(std::int64_t first, std::int64_t last, int rows_per_tile) const;
};

}  // namespace meander::impl::host
