// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>

#include <Kokkos_Core.hpp>

namespace meander::impl {

/// A run of whole tiles per index.
template <class Map>
struct MapTiles {
  Map map;
  int rows_per_tile;
  std::int64_t rows;

  void operator()(std::int64_t i) const { map.run(i * rows, (i + 1) * rows, rows_per_tile); }
};

/// Runs a kernel of src/host on all of its rows.
template <class ExecutionSpace, class Map>
void map_on_host(ExecutionSpace const& exec, char const* label, Map const& map) {
  int const threads        = exec.concurrency();
  int const rows_per_tile  = map.rows_per_tile(threads);
  std::int64_t const tiles = (map.rows() + rows_per_tile - 1) / rows_per_tile;
  // Enough pieces to share them evenly, few enough that handing them out costs nothing.
  constexpr int pieces_per_thread = 32;
  std::int64_t const tiles_a_piece =
      std::max<std::int64_t>(1, tiles / (std::int64_t{pieces_per_thread} * threads));
  std::int64_t const pieces = (tiles + tiles_a_piece - 1) / tiles_a_piece;
  Kokkos::parallel_for(
      label, Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(exec, 0, pieces),
      MapTiles<Map>{map, rows_per_tile, tiles_a_piece * rows_per_tile});
}

}  // namespace meander::impl
