// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <meander/impl/map_direction.hpp>
#include <meander/impl/planar_coefficients.hpp>
#include <meander/impl/strided.hpp>

/// The forward and the inverse map on the host: a tile of rows at a time, the whole stack on each
/// tile. Plain C++, compiled for the instruction set of the machine (MEANDER_NATIVE); Kokkos only
/// hands out tiles.
namespace meander::impl::host {

template <class Storage, class Compute, MapDirection direction>
struct PlanarMap {
  PlanarCoefficients<Compute> stack;
  StridedMatrix<Storage const> z;  ///< the rows that are read, whichever way they go
  StridedMatrix<Storage> y;        ///< the rows that are written
  StridedVector<Storage> log_det;  ///< of the map just applied; null data: not wanted

  std::int64_t rows() const { return z.extent0; }

  /// Rows a tile holds: as many as keep it in cache, fewer where the batch is too small to give
  /// every thread one. Results do not depend on it.
  int rows_per_tile(int threads) const;

  /// Computes the rows of [first, last) that exist, tile by tile.
  void run(std::int64_t first, std::int64_t last, int rows_per_tile) const;
};

template <class Storage, class Compute>
using PlanarForward = PlanarMap<Storage, Compute, MapDirection::forward>;
template <class Storage, class Compute>
using PlanarInverse = PlanarMap<Storage, Compute, MapDirection::inverse>;

/// The instruction set the host kernels were compiled for.
char const* instruction_set();

}  // namespace meander::impl::host
