// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <Kokkos_Core.hpp>

#include <meander/impl/map_direction.hpp>
#include <meander/impl/planar_coefficients.hpp>
#include <meander/impl/strided.hpp>

#include "access.hpp"
#include "lanes.hpp"
#include "layer_scalars.hpp"

namespace meander::impl::device {

/// The forward or the inverse map with the rows held in registers. `Lanes` neighbouring threads
/// share `Rows` rows, each thread holds `Rows` x `DimPerLane` numbers of them; a layer is a dot
/// product in every thread, a sum over the lanes, the scalar work shared out among them, and an
/// update. The coefficients come from level-0 scratch: each number loaded serves `Rows` rows.
///
/// One tile of rows per team; its scratch takes the coefficients in chunks of layers.
///
/// `ByRows` kernels move packs of coordinates of a row; the others packs of rows of a column, or
/// single numbers.
template <class Storage, class Compute, int DimPerLane, int Lanes, int Rows, bool ByRows,
          MapDirection direction>
struct PlanarRegisters {
  static constexpr bool is_forward = direction == MapDirection::forward;
  static constexpr int padded_dim  = DimPerLane * Lanes;
  static constexpr int pack = DimPerLane * sizeof(Storage) < 16 ? DimPerLane : 16 / sizeof(Storage);
  static constexpr int packs    = DimPerLane / pack;
  static constexpr int row_pack = Rows * sizeof(Storage) < 16 ? Rows : 16 / sizeof(Storage);
  static constexpr int pitch = 2 * padded_dim + 4;  ///< scratch per layer: w, u_hat, four scalars

  /// Rows are first touched when the coefficients are in scratch, so that a thread waits for both
  /// at once. Elsewhere the registers that this takes are worth more, and at D = 16 there are none.
  static constexpr bool patient = is_forward && ByRows && sizeof(Compute) == 4 && padded_dim != 16;

  using Sum = LaneSum<Lanes, Rows>;

  PlanarCoefficients<Compute> stack;
  StridedMatrix<Storage const> z;
  StridedMatrix<Storage> y;
  StridedVector<Storage> log_det;
  Access access;
  std::int32_t layers_per_chunk;

  static constexpr std::size_t scratch_bytes(int layers) {
    return sizeof(Compute) * std::size_t(layers) * pitch + 32;
  }
  static int rows_per_tile(int team_size) { return team_size / Lanes * Rows; }

  /// Where this thread stands: its rows and its coordinates.
  struct Place {
    int lane, group, groups;
    bool by_columns;
    std::int64_t first_row;  ///< of the tile
    std::int32_t rows;       ///< in the tile

    /// Neighbouring groups take neighbouring rows, or packs of rows, so that a warp's accesses are
    /// contiguous.
    KOKKOS_INLINE_FUNCTION int row(int i) const {
      return by_columns ? (i / row_pack * groups + group) * row_pack + i % row_pack
                        : i * groups + group;
    }
    KOKKOS_INLINE_FUNCTION int valid_row(int i) const { return row(i) < rows ? row(i) : rows - 1; }
    KOKKOS_INLINE_FUNCTION int coordinate(int k) const { return (k * Lanes + lane) * pack; }
  };

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(Team const& team) const {
    Compute* const scratch = static_cast<Compute*>(
        team.team_scratch(0).get_shmem_aligned(sizeof(Compute) * layers_per_chunk * pitch, 32));
    Place place;
    locate(team, place);
    LayerRule<Compute> const rule{stack.activation, stack.negative_slope, stack.log_det_epsilon};
    Storage arriving[Rows][DimPerLane];
    load(place, arriving);
    Compute row[Rows][DimPerLane];
    LogDeterminant<Compute> dets[Sum::owned_rows];
    if constexpr (patient)
      stage(team, scratch, 0, stack.layers < layers_per_chunk ? stack.layers : layers_per_chunk);
    accept(arriving, row);
    for (std::int32_t done = 0; done < stack.layers; done += layers_per_chunk) {
      std::int32_t const count =
          stack.layers - done < layers_per_chunk ? stack.layers - done : layers_per_chunk;
      if (!patient || done > 0)
        stage(team, scratch, is_forward ? done : stack.layers - done - count, count);
      if (rule.usual())
        layers<true>(rule, scratch, count, place, row, dets);
      else
        layers<false>(rule, scratch, count, place, row, dets);
    }
    if constexpr (patient) locate(team, place);  // again: it need not be kept in registers
    store(place, row, dets);
  }

  template <class Team>
  KOKKOS_INLINE_FUNCTION void locate(Team const& team, Place& place) const {
    int const rank              = static_cast<int>(opaque(team.team_rank()));
    place.lane                  = rank % Lanes;
    place.group                 = rank / Lanes;
    place.groups                = team.team_size() / Lanes;
    place.by_columns            = !ByRows && access == Access::columns;
    std::int32_t const per_tile = place.groups * Rows;
    place.first_row             = std::int64_t(team.league_rank()) * per_tile;
    place.rows                  = static_cast<std::int32_t>(
        z.extent0 - place.first_row < per_tile ? z.extent0 - place.first_row : per_tile);
  }

  /// A row that holds an infinity comes out NaN; the activation would hide it.
  KOKKOS_INLINE_FUNCTION void accept(Storage const (&arriving)[Rows][DimPerLane],
                                     Compute (&row)[Rows][DimPerLane]) const {
#pragma unroll
    for (int i = 0; i < Rows; ++i)
#pragma unroll
      for (int k = 0; k < DimPerLane; ++k) {
        Compute const value = arriving[i][k];
        row[i][k]           = stack.layers > 0 ? Kokkos::fma(value, Compute(0), value) : value;
      }
  }

  /// Copies the coefficients of `count` layers to scratch; coordinates past the stack's are zero.
  template <class Team>
  KOKKOS_INLINE_FUNCTION void stage(Team const& team, Compute* scratch, std::int32_t first,
                                    std::int32_t count) const {
    constexpr int step  = padded_dim * sizeof(Compute) < 16 ? padded_dim : 16 / sizeof(Compute);
    constexpr int steps = padded_dim / step;
    team.team_barrier();  // the chunk before may still be read
    for (int n = team.team_rank(); n < count * steps; n += team.team_size()) {
      int const l = n / steps;
      int const d = n % steps * step;
      Pack<Compute, step> w{}, u{};
      if (d < stack.padded_dim) {
        std::size_t const from = std::size_t(first + l) * stack.padded_dim + d;
        w                      = load_pack<step>(stack.w + from);
        u                      = load_pack<step>(stack.u_hat + from);
      }
      store_pack(scratch + l * pitch + d, w);
      store_pack(scratch + l * pitch + padded_dim + d, u);
    }
    for (int l = team.team_rank(); l < count; l += team.team_size()) {
      Compute* const scalars = scratch + l * pitch + 2 * padded_dim;
      scalars[0]             = stack.b[first + l];
      scalars[1]             = stack.s[first + l];
      scalars[2]             = stack.s_minus_1[first + l];
      scalars[3]             = log_is_due_after(first + l);
    }
    team.team_barrier();
  }

  /// take_log closes a run of layers after its last one: backwards, before its first.
  KOKKOS_INLINE_FUNCTION Compute log_is_due_after(std::int32_t l) const {
    if constexpr (is_forward) return stack.take_log[l];
    return l > 0 ? stack.take_log[l - 1] : Compute(1);
  }

  template <bool Usual>
  KOKKOS_INLINE_FUNCTION void layers(LayerRule<Compute> const& rule, Compute const* scratch,
                                     std::int32_t count, Place const& place,
                                     Compute (&row)[Rows][DimPerLane],
                                     LogDeterminant<Compute> (&dets)[Sum::owned_rows]) const {
#pragma unroll 1
    for (std::int32_t n = 0; n < count; ++n) {
      std::int32_t const l         = is_forward ? n : count - 1 - n;
      Compute const* const w       = scratch + l * pitch;
      Compute const* const u_hat   = w + padded_dim;
      Compute const* const scalars = u_hat + padded_dim;

      constexpr bool from_b = Lanes == 1 && DimPerLane <= 4;  // one addition less
      Compute const b = scalars[0], s = scalars[1], s_minus_1 = scalars[2];
      bool const log_is_due = scalars[3] != 0;
      Compute dot[Rows];
#pragma unroll
      for (int i = 0; i < Rows; ++i) dot[i] = from_b ? b : Compute(0);
#pragma unroll
      for (int k = packs - 1; k >= 0; --k) {
        auto const wk = load_pack<pack>(w + place.coordinate(k));
#pragma unroll
        for (int c = pack - 1; c >= 0; --c)
#pragma unroll
          for (int i = 0; i < Rows; ++i)
            dot[i] = Kokkos::fma(row[i][k * pack + c], wk.v[c], dot[i]);
      }
      Sum::reduce(dot, place.lane);

      Compute h[Sum::owned_rows];
#pragma unroll
      for (int i = 0; i < Sum::owned_rows; ++i) {
        Compute const a = from_b ? dot[i] : dot[i] + b;
        if constexpr (is_forward)
          h[i] = rule.template apply<Usual>(a, s, s_minus_1, dets[i]);
        else
          h[i] = -rule.template undo<Usual>(a, s, s_minus_1, dets[i]);
      }
      if (log_is_due)
#pragma unroll
        for (int i = 0; i < Sum::owned_rows; ++i) dets[i].take_log();

      Compute all_h[Rows];
#pragma unroll
      for (int i = 0; i < Rows; ++i) all_h[i] = Sum::gather(h, i);
#pragma unroll
      for (int k = 0; k < packs; ++k) {
        auto const uk = load_pack<pack>(u_hat + place.coordinate(k));
#pragma unroll
        for (int c = 0; c < pack; ++c)
#pragma unroll
          for (int i = 0; i < Rows; ++i)
            row[i][k * pack + c] = Kokkos::fma(all_h[i], uk.v[c], row[i][k * pack + c]);
      }
    }
  }

  /// Calls visit(i, k, offset, inside) for every number this thread holds. The offsets are stepped
  /// from opaque strides: as closed expressions the compiler would keep all of them in registers.
  template <class Visit>
  KOKKOS_INLINE_FUNCTION void for_each_element(Place const& place, std::int64_t stride0,
                                               std::int64_t stride1, Visit const& visit) const {
    stride0            = opaque(stride0);
    stride1            = opaque(stride1);
    std::int64_t start = place.row(0) * stride0 + place.coordinate(0) * stride1;
#pragma unroll
    for (int i = 0; i < Rows; ++i) {
      std::int64_t offset = start;
#pragma unroll
      for (int k = 0; k < DimPerLane; ++k) {
        visit(i, k, offset,
              place.row(i) < place.rows && place.coordinate(k / pack) + k % pack < stack.dim);
        offset += ((k + 1) % pack == 0 ? (Lanes - 1) * pack + 1 : 1) * stride1;
      }
      start += (place.row(i + 1) - place.row(i)) * stride0;
    }
  }

  /// The same for packs of coordinates of a row. The offset of a pack past the last row or
  /// coordinate is that of another pack of the matrix: loads then need no condition, which would
  /// make each wait for the one before it; what they load meets zero coefficients or is not stored.
  template <class Visit>
  KOKKOS_INLINE_FUNCTION void for_each_row_pack(Place const& place, std::int64_t stride0,
                                                Visit const& visit) const {
#pragma unroll
    for (int i = 0; i < Rows; ++i) {
      std::int64_t const start = place.valid_row(i) * stride0;
#pragma unroll
      for (int k = 0; k < packs; ++k) {
        int const d       = place.coordinate(k);
        bool const inside = d < stack.dim;
        visit(i, k * pack, start + (inside ? d : 0), inside && place.row(i) < place.rows);
      }
    }
  }

  /// The same for packs of rows of a column; only for tiles that are full.
  template <class Visit>
  KOKKOS_INLINE_FUNCTION void for_each_column_pack(Place const& place, std::int64_t stride1,
                                                   Visit const& visit) const {
#pragma unroll
    for (int k = 0; k < DimPerLane; ++k) {
      int const d              = place.coordinate(k / pack) + k % pack;
      bool const inside        = d < stack.dim;
      std::int64_t const start = place.row(0) + (inside ? d : 0) * stride1;
#pragma unroll
      for (int i = 0; i < Rows; i += row_pack) visit(i, k, start + i * place.groups, inside);
    }
  }

  KOKKOS_INLINE_FUNCTION bool is_full(Place const& place) const {
    return place.rows == place.groups * Rows;
  }

  KOKKOS_INLINE_FUNCTION void load(Place const& place, Storage (&row)[Rows][DimPerLane]) const {
    Storage const* const tile = z.data + place.first_row * z.stride0;
    if constexpr (ByRows)
      for_each_row_pack(place, z.stride0, [&](int i, int k, std::int64_t offset, bool) {
        auto const p = load_pack<pack>(tile + offset);
#pragma unroll
        for (int c = 0; c < pack; ++c) row[i][k + c] = p.v[c];
      });
    else if (access == Access::columns && is_full(place))
      for_each_column_pack(place, z.stride1, [&](int i, int k, std::int64_t offset, bool) {
        auto const p = load_pack<row_pack>(tile + offset);
#pragma unroll
        for (int r = 0; r < row_pack; ++r) row[i + r][k] = p.v[r];
      });
    else
      for_each_element(place, z.stride0, z.stride1,
                       [&](int i, int k, std::int64_t offset, bool inside) {
                         row[i][k] = inside ? tile[offset] : Storage(0);
                       });
  }

  KOKKOS_INLINE_FUNCTION void store(Place const& place, Compute const (&row)[Rows][DimPerLane],
                                    LogDeterminant<Compute> const (&dets)[Sum::owned_rows]) const {
    Storage* const tile = y.data + place.first_row * y.stride0;
    if constexpr (ByRows)
      for_each_row_pack(place, y.stride0, [&](int i, int k, std::int64_t offset, bool inside) {
        Pack<Storage, pack> p;
#pragma unroll
        for (int c = 0; c < pack; ++c) p.v[c] = Storage(row[i][k + c]);
        if (inside) store_pack(tile + offset, p);
      });
    else if (access == Access::columns && is_full(place))
      for_each_column_pack(place, y.stride1, [&](int i, int k, std::int64_t offset, bool inside) {
        Pack<Storage, row_pack> p;
#pragma unroll
        for (int r = 0; r < row_pack; ++r) p.v[r] = Storage(row[i + r][k]);
        if (inside) store_pack(tile + offset, p);
      });
    else
      for_each_element(place, y.stride0, y.stride1,
                       [&](int i, int k, std::int64_t offset, bool inside) {
                         if (inside) tile[offset] = Storage(row[i][k]);
                       });
    if (log_det.data == nullptr) return;
#pragma unroll
    for (int i = 0; i < Sum::owned_rows; ++i) {
      int const r = place.row(Sum::first_owned_row(place.lane) + i);
      if (r < place.rows)
        log_det.data[(place.first_row + r) * log_det.stride0] =
            Storage(is_forward ? dets[i].sum : 0 - dets[i].sum);
    }
  }
};

}  // namespace meander::impl::device
