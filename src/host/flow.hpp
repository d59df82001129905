// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <meander/impl/flow.hpp>

/// A flow on the host: a tile of rows is loaded or drawn, passes through all layers, is scored and
/// stored while it is in cache. Plain C++, compiled for the instruction set of the machine.
namespace meander::impl::host {

template <class Storage, class Compute>
struct FlowTiles {
  FlowCall<Storage, Compute> call;

  std::int64_t rows() const { return call.rows; }

  /// Rows a tile holds: as many as keep it in cache, fewer where the batch is too small to give
  /// every thread one. Results do not depend on it.
  int rows_per_tile(int threads) const;

  /// Computes the rows of [first, last) that exist, tile by tile.
  void run(std::int64_t first, std::int64_t last, int rows_per_tile) const;
};

}  // namespace meander::impl::host
