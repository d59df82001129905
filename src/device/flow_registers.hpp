// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include <Kokkos_Core.hpp>

#include <meander/impl/flow.hpp>

#include "access.hpp"
#include "flow_in_registers.hpp"
#include "lanes.hpp"
#include "layer_scalars.hpp"
#include "normal.hpp"
#include "planar_forward.hpp"
#include "registers.hpp"

namespace meander::impl::device {

/// What is done with the rows in registers besides mapping them.
enum class FlowTask {
  sample,   ///< rows are drawn, mapped, scored and stored
  log_prob  ///< rows are loaded, mapped and scored
};

/// A flow of one stack in one kernel, on the rows that PlanarRegisters holds in registers: a sample
/// reads no rows, a log-density writes none.
template <class Storage, class Compute, int DimPerLane, int Lanes, int Rows, bool ByRows,
          MapDirection direction, FlowTask task>
struct FlowRegisters {
  using Map   = PlanarRegisters<Storage, Compute, DimPerLane, Lanes, Rows, ByRows, direction>;
  using Place = typename Map::Place;
  using Sum   = typename Map::Sum;
  using Row   = Compute[Rows][DimPerLane];

  Map map;  ///< its log_det is not used
  NormalBase<Compute> base;
  Compute normalizer;  ///< the log-density of N(0, I) at zero
  std::uint64_t seed, first_row;
  StridedVector<Storage> log;

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(Team const& team) const {
    Compute* const scratch = static_cast<Compute*>(team.team_scratch(0).get_shmem_aligned(
        sizeof(Compute) * map.layers_per_chunk * Map::pitch, 32));
    Place place;
    map.locate(team, place);
    Row row;
    LogDeterminant<Compute> dets[Sum::owned_rows];
    Compute squares[Rows];
    if constexpr (task == FlowTask::sample) {
      draw(place, row);
      add_squares(place, row, squares);
      if (base.loc != nullptr) scale(place, row);
    } else {
      Storage arriving[Rows][DimPerLane];
      map.load(place, arriving);
      map.accept(arriving, row);
    }
    LayerRule<Compute> const rule{map.stack.activation, map.stack.negative_slope,
                                  map.stack.log_det_epsilon};
    for (std::int32_t done = 0; done < map.stack.layers; done += map.layers_per_chunk) {
      std::int32_t const left  = map.stack.layers - done;
      std::int32_t const count = left < map.layers_per_chunk ? left : map.layers_per_chunk;
      map.stage(team, scratch, Map::is_forward ? done : left - count, count);
      if (rule.usual())
        map.template layers<true>(rule, scratch, count, place, row, dets);
      else
        map.template layers<false>(rule, scratch, count, place, row, dets);
    }
    map.locate(team, place);  // again: it need not be kept in registers
    if constexpr (task == FlowTask::sample) {
      map.store(place, row, dets);
    } else {
      if (base.loc != nullptr) standardise(place, row);
      add_squares(place, row, squares);
    }
    if (log.data != nullptr) store_log(place, squares, dets);
  }

  KOKKOS_INLINE_FUNCTION int coordinate(Place const& place, int k) const {
    return place.coordinate(k / Map::pack) + k % Map::pack;
  }

  /// A pack of coordinates of one row at a time. They enter a row of registers at its end, which
  /// moves up: an array in registers cannot be indexed, and the code for all packs, one after
  /// another, would not fit the instruction cache.
  KOKKOS_INLINE_FUNCTION void draw(Place const& place, Row& row) const {
    constexpr int pack    = Map::pack;
    constexpr int all     = Rows * Map::packs;
    constexpr int at_once = sizeof(Compute) == 4 && all % 2 == 0 ? 2 : 1;
    constexpr int last    = Rows * DimPerLane - at_once * pack;
    static_assert(pack == 2 || pack == 4, "a pack is a block of normals, or half of one");
#pragma unroll 1
    for (int q = 0; q < all; q += at_once) {
#pragma unroll
      for (int n = 0; n < last; ++n) at(row, n) = at(row, n + at_once * pack);
#pragma unroll
      for (int part = 0; part < at_once; ++part) {
        int const i = (q + part) / Map::packs, k = (q + part) % Map::packs;
        std::uint64_t const number =
            first_row + std::uint64_t(place.first_row) + std::uint64_t(place.row(i));
        int const d       = place.coordinate(k);
        auto const values = draw_pack<pack, Compute>(seed, number, d);
#pragma unroll
        for (int c = 0; c < pack; ++c)
          at(row, last + part * pack + c) = d + c < map.stack.dim ? values.v[c] : Compute(0);
      }
    }
  }

  KOKKOS_INLINE_FUNCTION static Compute& at(Row& row, int n) {
    return row[n / DimPerLane][n % DimPerLane];
  }

  KOKKOS_INLINE_FUNCTION void scale(Place const& place, Row& row) const {
#pragma unroll
    for (int k = 0; k < DimPerLane; ++k) {
      int const d = coordinate(place, k);
      if (d >= map.stack.dim) continue;
      Compute const loc = base.loc[d], factor = base.scale[d];
#pragma unroll
      for (int i = 0; i < Rows; ++i) row[i][k] = Kokkos::fma(factor, row[i][k], loc);
    }
  }

  KOKKOS_INLINE_FUNCTION void standardise(Place const& place, Row& row) const {
#pragma unroll
    for (int k = 0; k < DimPerLane; ++k) {
      int const d = coordinate(place, k);
      if (d >= map.stack.dim) continue;
      Compute const loc = base.loc[d], factor = base.inverse_scale[d];
#pragma unroll
      for (int i = 0; i < Rows; ++i) row[i][k] = (row[i][k] - loc) * factor;
    }
  }

  /// Sums over the coordinates, of the rows whose scalars this thread owns.
  KOKKOS_INLINE_FUNCTION void add_squares(Place const& place, Row const& row,
                                          Compute (&squares)[Rows]) const {
#pragma unroll
    for (int i = 0; i < Rows; ++i) squares[i] = 0;
#pragma unroll
    for (int k = 0; k < DimPerLane; ++k) {
      // What stands past the last coordinate is anything.
      bool const inside = coordinate(place, k) < map.stack.dim;
#pragma unroll
      for (int i = 0; i < Rows; ++i) {
        Compute const n = inside ? row[i][k] : Compute(0);
        squares[i]      = Kokkos::fma(n, n, squares[i]);
      }
    }
    Sum::reduce(squares, place.lane);
  }

  KOKKOS_INLINE_FUNCTION void store_log(
      Place const& place, Compute const (&squares)[Rows],
      LogDeterminant<Compute> const (&dets)[Sum::owned_rows]) const {
    Compute const at_loc = base.loc == nullptr ? normalizer : normalizer - *base.log_volume;
    // The determinants are those of the layers as they were fitted; log q takes those of the map
    // to the latent rows.
    constexpr bool to_latent = (task == FlowTask::log_prob) == (direction == MapDirection::forward);
#pragma unroll
    for (int i = 0; i < Sum::owned_rows; ++i) {
      int const r            = place.row(Sum::first_owned_row(place.lane) + i);
      Compute const log_base = Kokkos::fma(Compute(-0.5), squares[i], at_loc);
      Compute const log_q    = to_latent ? log_base + dets[i].sum : log_base - dets[i].sum;
      if (r < place.rows) log.data[(place.first_row + r) * log.stride0] = Storage(log_q);
    }
  }
};

template <FlowTask task, MapDirection direction, class Shape, bool ByRows, class ExecutionSpace,
          class Storage, class Compute>
void launch_flow(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& stack,
                 FlowCall<Storage, Compute> const& call, Access access) {
  using Kernel = FlowRegisters<Storage, Compute, Shape::dim_per_lane, Shape::lanes, Shape::rows,
                               ByRows, direction, task>;
  using Map    = typename Kernel::Map;
  static std::string const label = std::string("meander::flow::") +
                                   (task == FlowTask::sample ? "sample" : "log_prob") +
                                   "[registers,D=" + std::to_string(Map::padded_dim) + "]";
  constexpr std::size_t fitting =
      (scratch_per_team(Shape::teams) - Map::scratch_bytes(0)) / (Map::pitch * sizeof(Compute));
  int const chunk = static_cast<int>(std::min<std::size_t>(std::max(stack.layers, 1), fitting));
  int const tile  = Map::rows_per_tile(Shape::threads);
  int const tiles = static_cast<int>((call.rows + tile - 1) / tile);
  auto const from = task == FlowTask::sample ? as_const(call.to) : call.from;
  Map const map{stack, from, call.to, {}, access, chunk};
  Kokkos::parallel_for(
      label,
      Policy<ExecutionSpace, Shape::threads, Shape::teams>(exec, tiles, Shape::threads)
          .set_scratch_size(0, Kokkos::PerTeam(Map::scratch_bytes(chunk))),
      Kernel{map, call.flow.base, Compute(-half_log_two_pi * stack.dim), call.seed, call.first_row,
             call.log});
}

/// Shapes as in launch_bucket; where drawing, scoring or undoing a layer needs more registers than
/// the four teams of 128 threads leave, three.
template <FlowTask task, MapDirection direction, int PaddedDim, class ExecutionSpace, class Storage,
          class Compute>
void launch_flow_bucket(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& stack,
                        FlowCall<Storage, Compute> const& call) {
  constexpr bool single      = sizeof(Compute) == 4;
  constexpr bool wide        = single && PaddedDim >= 128;
  constexpr int lanes        = PaddedDim <= 4     ? 1
                               : PaddedDim == 8   ? 2
                               : PaddedDim == 512 ? 32
                               : wide             ? PaddedDim / 16
                                                  : PaddedDim / 8;
  constexpr int dim_per_lane = PaddedDim / lanes;
  constexpr int most         = single ? 64 : 32;  // numbers of rows in a thread
  constexpr int rows         = std::min(single ? 8 : 4, most / dim_per_lane);
  constexpr int threads      = PaddedDim >= 128 ? 256 : 128;
  // The rows that are read or, of a sample, written.
  StridedMatrix<Storage const> const m = task == FlowTask::sample ? as_const(call.to) : call.from;
  Access const access =
      access_to(m, StridedMatrix<Storage>{nullptr, m.extent0, m.extent1, m.stride0, m.stride1});
  using Rows =
      RegisterShape<dim_per_lane, lanes, rows, single ? threads : 128, single ? 512 / threads : 3>;
  constexpr bool crowded = single ? dim_per_lane == 8 : dim_per_lane == 4;
  using Others           = RegisterShape<dim_per_lane, lanes, crowded ? rows / 2 : rows, 128, 3>;
  if (access == Access::rows)
    launch_flow<task, direction, Rows, true>(exec, stack, call, access);
  else
    launch_flow<task, direction, Others, false>(exec, stack, call, access);
}

template <FlowTask task, MapDirection direction, class ExecutionSpace, class Storage, class Compute>
void run_flow_in_registers(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& stack,
                           FlowCall<Storage, Compute> const& call) {
  in_bucket<max_flow_registers_dim>(stack.dim, [&]<int PaddedDim>() {
    launch_flow_bucket<task, direction, PaddedDim>(exec, stack, call);
  });
}

}  // namespace meander::impl::device
