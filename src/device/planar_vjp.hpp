// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <Kokkos_Core.hpp>

#include <meander/impl/planar_inverse.hpp>
#include <meander/impl/planar_vjp.hpp>

#include "layer_scalars.hpp"
#include "vjp_registers.hpp"
#include "vjp_tiles.hpp"

#include "../light_weight.hpp"

/// The gradients of a planar stack on a device, in Gram form (design fact 2), for any D and L: a
/// few matrix products, and between them triangular recurrences on scalars, one row per thread. A
/// stack of more layers than one block of Gram numbers works through copies of the rows and of
/// their gradients, block by block. Rounding is relative to the largest gradient that a block
/// starts from: where a block shrinks gradients by a factor of 1e9, as many leaky_relu layers can,
/// 9 digits of what it gives are lost.
namespace meander::impl::device {

inline constexpr int vjp_threads = 128;
inline constexpr int vjp_tile    = 32;  ///< rows, and coordinates, of a tile
inline constexpr int vjp_slots   = vjp_threads / vjp_tile;

/// What is kept per row, each as a matrix with the rows side by side.
template <class T>
struct VjpRows {
  T* a;    ///< (L) w.z + b until the gradient by s takes its place
  T* h;    ///< (L)
  T* da;   ///< (L)
  T* z;    ///< (D)
  T* g;    ///< (D)
  T* log;  ///< log|det| of the layers
  std::int64_t pitch;

  VjpRows(PlanarCoefficients<T> const& c, T* memory, std::int64_t batch) : pitch(batch) {
    a   = memory;
    h   = a + batch * c.layers;
    da  = h + batch * c.layers;
    z   = da + batch * c.layers;
    g   = z + batch * c.dim;
    log = g + batch * c.dim;
  }
};

/// Rows that pass through the launches together: what is kept of them stays in the cache, and takes
/// little memory. Whole chunks.
inline std::int64_t vjp_panel_rows(PlanarVjpChunks const& chunks) {
  constexpr std::int64_t wanted = 32768;
  return std::max<std::int64_t>(1, wanted / chunks.rows) * chunks.rows;
}

template <class T>
std::size_t vjp_rows_size(PlanarCoefficients<T> const& c, std::int64_t max_batch) {
  PlanarVjpChunks const chunks(max_batch, c.dim, c.layers);
  std::int64_t const rows = std::min(max_batch, vjp_panel_rows(chunks));
  return std::size_t(rows) * (3 * std::size_t(c.layers) + 2 * std::size_t(c.dim) + 1);
}

/// A tile of at most 32 rows and 32 coordinates, in scratch as [coordinate][row].
template <class T>
struct VjpTile {
  static constexpr int pitch = vjp_tile + 1;  ///< so that neither way meets one bank only
  static constexpr int size  = vjp_tile * pitch;

  T* data;

  /// Neighbouring threads take what lies side by side in memory. Outside the matrix: zero.
  template <class Matrix, class Team>
  KOKKOS_INLINE_FUNCTION void load(Team const& team, Matrix const& m, std::int64_t row,
                                   std::int64_t rows_end, std::int64_t column) const {
    int const lane = team.team_rank() % vjp_tile, slot = team.team_rank() / vjp_tile;
    bool const by_rows = m.stride1 == 1;
    for (int i = slot; i < vjp_tile; i += vjp_slots) {
      int const r = by_rows ? i : lane, d = by_rows ? lane : i;
      bool const inside = row + r < rows_end && column + d < m.extent1;
      data[d * pitch + r] =
          inside ? T(m.data[(row + r) * m.stride0 + (column + d) * m.stride1]) : T(0);
    }
  }

  template <class Matrix, class Team>
  KOKKOS_INLINE_FUNCTION void store(Team const& team, Matrix const& m, std::int64_t row,
                                    std::int64_t column) const {
    using Value    = std::remove_reference_t<decltype(*m.data)>;
    int const lane = team.team_rank() % vjp_tile, slot = team.team_rank() / vjp_tile;
    bool const by_rows = m.stride1 == 1;
    for (int i = slot; i < vjp_tile; i += vjp_slots) {
      int const r = by_rows ? i : lane, d = by_rows ? lane : i;
      if (row + r < m.extent0 && column + d < m.extent1)
        m.data[(row + r) * m.stride0 + (column + d) * m.stride1] = Value(data[d * pitch + r]);
    }
  }
};

template <class T, class Team>
KOKKOS_INLINE_FUNCTION T* vjp_scratch(Team const& team, int count) {
  return static_cast<T*>(team.team_scratch(0).get_shmem_aligned(sizeof(T) * count, 16));
}

/// x[l][row] = rows . coefficients_l for the layers of one block. A team takes 32 rows; a thread
/// one row and every fourth layer.
template <class Source, class T>
struct VjpProduct {
  static constexpr int most            = 64;  ///< layers in a block
  static constexpr int scratch_numbers = VjpTile<T>::size;
  using Number                         = T;

  StridedMatrix<Source const> rows;
  T const* coefficients;  ///< of the first layer, layers `coefficient_pitch` apart
  std::int64_t coefficient_pitch;
  int layers;
  T* x;
  std::int64_t pitch;

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(Team const& team) const {
    VjpTile<T> const tile{vjp_scratch<T>(team, scratch_numbers)};
    std::int64_t const first = std::int64_t(team.league_rank()) * vjp_tile;
    int const row = team.team_rank() % vjp_tile, slot = team.team_rank() / vjp_tile;
    T sum[most / vjp_slots] = {};
    for (std::int64_t d0 = 0; d0 < rows.extent1; d0 += vjp_tile) {
      team.team_barrier();
      tile.load(team, rows, first, rows.extent0, d0);
      team.team_barrier();
      int const dims = int(rows.extent1 - d0 < vjp_tile ? rows.extent1 - d0 : vjp_tile);
      for (int d = 0; d < dims; ++d) {
        T const value    = tile.data[d * VjpTile<T>::pitch + row];
        T const* const c = coefficients + slot * coefficient_pitch + d0 + d;
#pragma unroll
        for (int i = 0; i < most / vjp_slots; ++i)
          if (slot + i * vjp_slots < layers)
            sum[i] = Kokkos::fma(value, c[i * vjp_slots * coefficient_pitch], sum[i]);
      }
    }
    if (first + row >= rows.extent0) return;
#pragma unroll
    for (int i = 0; i < most / vjp_slots; ++i)
      if (slot + i * vjp_slots < layers) x[(slot + i * vjp_slots) * pitch + first + row] = sum[i];
  }
};

/// to = from + sign x coefficients, over the layers of one block; a copy if there are none. A team
/// takes a tile; `from` and `to` may be the same.
template <class Source, class Target, class T>
struct VjpUpdate {
  static constexpr int scratch_numbers = VjpTile<T>::size;
  using Number                         = T;

  StridedMatrix<Source const> from;
  StridedMatrix<Target> to;
  T sign;
  T const* x;
  std::int64_t pitch;
  T const* coefficients;
  std::int64_t coefficient_pitch;
  int layers;

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(Team const& team) const {
    VjpTile<T> const tile{vjp_scratch<T>(team, scratch_numbers)};
    std::int64_t const columns = (from.extent1 + vjp_tile - 1) / vjp_tile;
    std::int64_t const first   = team.league_rank() / columns * vjp_tile;
    std::int64_t const d0      = team.league_rank() % columns * vjp_tile;
    int const row = team.team_rank() % vjp_tile, slot = team.team_rank() / vjp_tile;
    tile.load(team, from, first, from.extent0, d0);
    team.team_barrier();
    if (first + row < from.extent0) {
      constexpr int mine = vjp_tile / vjp_slots;
      T sum[mine]        = {};
      for (int l = 0; l < layers; ++l) {
        T const value    = x[l * pitch + first + row];
        T const* const c = coefficients + l * coefficient_pitch + d0 + slot;
#pragma unroll
        for (int i = 0; i < mine; ++i)
          if (d0 + slot + i * vjp_slots < from.extent1)
            sum[i] = Kokkos::fma(value, c[i * vjp_slots], sum[i]);
      }
#pragma unroll
      for (int i = 0; i < mine; ++i) {
        T& value = tile.data[(slot + i * vjp_slots) * VjpTile<T>::pitch + row];
        value    = Kokkos::fma(sign, sum[i], value);
      }
    }
    team.team_barrier();
    tile.store(team, to, first, d0);
  }
};

/// sums[l * sums_pitch + d] = sum of x[l][row] rows[row][d] over the rows of a chunk, for 16 layers
/// and 32 coordinates a team. In T within a tile, in double from tile to tile.
template <class Source, class T>
struct VjpOuter {
  static constexpr int layers_per_team = 16;
  static constexpr int scratch_numbers = VjpTile<T>::size + layers_per_team * vjp_tile;
  using Number                         = T;

  StridedMatrix<Source const> rows;
  T const* x;
  std::int64_t pitch;
  int layers;
  std::int64_t rows_per_chunk;
  double* sums;  ///< of the first chunk
  std::int64_t chunk_pitch, sums_pitch;

  int layer_blocks() const { return (layers + layers_per_team - 1) / layers_per_team; }
  int column_blocks() const { return int((rows.extent1 + vjp_tile - 1) / vjp_tile); }

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(Team const& team) const {
    constexpr int mine = layers_per_team / vjp_slots;
    T* const scratch   = vjp_scratch<T>(team, scratch_numbers);
    VjpTile<T> const tile{scratch};
    T* const xs               = scratch + VjpTile<T>::size;  // [layer][row]
    std::int64_t const across = (rows.extent1 + vjp_tile - 1) / vjp_tile;
    std::int64_t const down   = (layers + layers_per_team - 1) / layers_per_team;
    std::int64_t const rank   = team.league_rank();
    std::int64_t const d0     = rank % across * vjp_tile;
    int const l0              = int(rank / across % down) * layers_per_team;
    std::int64_t const chunk  = rank / across / down;
    std::int64_t const first  = chunk * rows_per_chunk;
    std::int64_t const end =
        first + rows_per_chunk < rows.extent0 ? first + rows_per_chunk : rows.extent0;
    int const lane = team.team_rank() % vjp_tile, slot = team.team_rank() / vjp_tile;
    double sum[mine] = {};
    for (std::int64_t row = first; row < end; row += vjp_tile) {
      team.team_barrier();
      tile.load(team, rows, row, end, d0);
      for (int l = slot; l < layers_per_team; l += vjp_slots)
        xs[l * vjp_tile + lane] =
            l0 + l < layers && row + lane < end ? x[(l0 + l) * pitch + row + lane] : T(0);
      team.team_barrier();
      T part[mine] = {};
      for (int r = 0; r < vjp_tile; ++r) {
        T const value = tile.data[lane * VjpTile<T>::pitch + r];
#pragma unroll
        for (int i = 0; i < mine; ++i)
          part[i] = Kokkos::fma(value, xs[(slot + i * vjp_slots) * vjp_tile + r], part[i]);
      }
#pragma unroll
      for (int i = 0; i < mine; ++i) sum[i] += double(part[i]);
    }
    if (d0 + lane >= rows.extent1) return;
#pragma unroll
    for (int i = 0; i < mine; ++i) {
      int const l = l0 + slot + i * vjp_slots;
      if (l < layers) sums[chunk * chunk_pitch + l * sums_pitch + d0 + lane] = sum[i];
    }
  }
};

/// The sums over a chunk of da and of the gradients by s, one layer a team.
template <class T>
struct VjpRowSums {
  static constexpr int scratch_numbers = 2 * vjp_threads;
  using Number                         = double;

  T const* da;
  T const* ds;
  std::int64_t pitch, batch, rows_per_chunk;
  int layers;
  double* b;
  double* s;
  std::int64_t chunk_pitch;

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(Team const& team) const {
    double* const scratch    = vjp_scratch<double>(team, scratch_numbers);
    int const l              = team.league_rank() % layers;
    std::int64_t const chunk = team.league_rank() / layers;
    std::int64_t const first = chunk * rows_per_chunk;
    std::int64_t const end   = first + rows_per_chunk < batch ? first + rows_per_chunk : batch;
    int const t              = team.team_rank();
    double sum_b = 0, sum_s = 0;
    for (std::int64_t row = first + t; row < end; row += vjp_threads) {
      sum_b += double(da[l * pitch + row]);
      sum_s += double(ds[l * pitch + row]);
    }
    scratch[t]               = sum_b;
    scratch[vjp_threads + t] = sum_s;
    for (int half = vjp_threads / 2; half > 0; half /= 2) {
      team.team_barrier();
      if (t >= half) continue;
      scratch[t] += scratch[t + half];
      scratch[vjp_threads + t] += scratch[vjp_threads + t + half];
    }
    if (t == 0) {
      b[chunk * chunk_pitch + l] = scratch[0];
      s[chunk * chunk_pitch + l] = scratch[vjp_threads];
    }
  }
};

enum class VjpStep { activate, backward, transposed_solve };

/// The scalars of one block of layers, one row per thread.
template <class T, VjpStep step>
struct VjpRecurrence {
  PlanarCoefficients<T> c;
  int first, layers;
  T *a, *h, *da;  ///< of the first layer of the block
  T* log;         ///< of all blocks so far
  std::int64_t pitch;

  KOKKOS_INLINE_FUNCTION T gram(int i, int j) const {
    return c.gram[std::int64_t(first + i) * c.gram_group + j];
  }

  KOKKOS_INLINE_FUNCTION LayerRule<T> rule() const {
    return {c.activation, c.negative_slope, c.log_det_epsilon};
  }

  KOKKOS_INLINE_FUNCTION void activate(std::int64_t row) const {
    LogDeterminant<T> log_det;
    for (int i = 0; i < layers; ++i) {
      T x = a[i * pitch + row] + c.b[first + i];
      // tanh of an infinite row is finite, and would hide it.
      if (first + i == 0) x += x - x;
      for (int j = 0; j < i; ++j) x = Kokkos::fma(gram(i, j), h[j * pitch + row], x);
      auto const v       = rule().activate(x);
      a[i * pitch + row] = x;
      h[i * pitch + row] = v.h;
      int const l        = first + i;
      rule().count(v, c.s[l], c.s_minus_1[l], log_det);
      if (i == layers - 1 || c.take_log[l] != 0) log_det.take_log();
    }
    log[row] = first == 0 ? log_det.sum : log[row] + log_det.sum;
  }

  /// Leaves the gradient by a in da, that by s in a. See src/host/planar_vjp.cpp.
  KOKKOS_INLINE_FUNCTION void gradient(std::int64_t row, T by_log_det) const {
    constexpr bool back = step == VjpStep::backward;
    for (int n = 0; n < layers; ++n) {
      int const i = back ? layers - 1 - n : n;
      T along     = da[i * pitch + row];
      if constexpr (back)
        for (int j = i + 1; j < layers; ++j)
          along = Kokkos::fma(gram(j, i), da[j * pitch + row], along);
      else
        for (int j = 0; j < i; ++j) along = Kokkos::fma(-gram(j, i), da[j * pitch + row], along);

      int const l = first + i;
      auto const layer =
          rule().template gradient < back
              ? MapDirection::forward
              : MapDirection::inverse > (rule().activate(a[i * pitch + row]), c.s[l],
                                         c.s_minus_1[l], log_det_scale(c, l), along, by_log_det);
      da[i * pitch + row] = layer.da;
      a[i * pitch + row]  = layer.by_s;
    }
  }
};

template <class Storage, class T, VjpStep step>
struct VjpRecurrenceRows {
  VjpRecurrence<T, step> work;
  StridedVector<Storage const> grad_log_det;  ///< null: one

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row) const {
    if constexpr (step == VjpStep::activate)
      work.activate(row);
    else
      work.gradient(row, grad_log_det.data == nullptr
                             ? T(1)
                             : T(grad_log_det.data[row * grad_log_det.stride0]));
  }
};

/// The gradient of the log-density of the base by its rows; both matrices of VjpRows.
template <class T>
struct VjpBase {
  NormalBase<T> base;
  T const* z;
  T* g;
  std::int64_t pitch;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    std::int64_t const d = i / pitch;
    T const loc          = base.loc == nullptr ? T(0) : base.loc[d];
    T const inverse      = base.inverse_scale == nullptr ? T(1) : base.inverse_scale[d];
    g[i]                 = (loc - z[i]) * inverse * inverse;
  }
};

/// The sum of the log-densities of a chunk: the base's at what the map gives, and log|det|.
template <class T>
struct VjpLoss {
  static constexpr int scratch_numbers = vjp_threads;
  using Number                         = double;

  NormalBase<T> base;
  T const* z;
  T const* log;  ///< null: zero
  std::int64_t pitch, batch, rows_per_chunk;
  int dim;
  double* sums;  ///< where the first chunk's goes
  std::int64_t chunk_pitch;

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(Team const& team) const {
    double* const scratch    = vjp_scratch<double>(team, scratch_numbers);
    int const t              = team.team_rank();
    std::int64_t const first = team.league_rank() * rows_per_chunk;
    std::int64_t const end   = first + rows_per_chunk < batch ? first + rows_per_chunk : batch;
    double sum               = 0;
    for (std::int64_t row = first + t; row < end; row += vjp_threads) {
      T squares = 0;
      for (int d = 0; d < dim; ++d) {
        T const loc = base.loc == nullptr ? T(0) : base.loc[d];
        T const inv = base.inverse_scale == nullptr ? T(1) : base.inverse_scale[d];
        T const x   = (z[d * pitch + row] - loc) * inv;
        squares     = Kokkos::fma(x, x, squares);
      }
      sum -= 0.5 * double(squares);
      if (log != nullptr) sum += double(log[row]);
    }
    scratch[t] = sum;
    for (int half = vjp_threads / 2; half > 0; half /= 2) {
      team.team_barrier();
      if (t < half) scratch[t] += scratch[t + half];
    }
    if (t != 0) return;
    sums[team.league_rank() * chunk_pitch] =
        scratch[0] - double(end - first) * log_normalizer(base, dim);
  }
};

template <class ExecutionSpace, class Work>
void vjp_teams(ExecutionSpace const& exec, char const* label, std::int64_t teams,
               Work const& work) {
  Kokkos::parallel_for(
      label,
      Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<vjp_threads, 1>>(
          exec, static_cast<int>(teams), vjp_threads)
          .set_scratch_size(
              0, Kokkos::PerTeam(sizeof(typename Work::Number) * Work::scratch_numbers + 32)),
      work);
}

/// The launches of one call.
template <class ExecutionSpace, class Storage, class T>
struct VjpLaunches {
  ExecutionSpace const& exec;
  PlanarVjpCall<Storage, T> const& call;
  PlanarVjpChunks const& chunks;
  VjpRows<T> rows;
  PlanarCoefficients<T> const& c;

  VjpLaunches(ExecutionSpace const& space, PlanarVjpCall<Storage, T> const& what,
              PlanarVjpChunks const& parts)
      : exec(space),
        call(what),
        chunks(parts),
        rows(what.stack, what.memory.rows, what.from.extent0),
        c(what.stack) {}

  std::int64_t batch() const { return call.from.extent0; }
  int in_block(int first) const { return std::min(c.gram_group, c.layers - first); }
  bool is_last(int first) const { return first + c.gram_group >= c.layers; }
  StridedMatrix<T> z() const { return {rows.z, batch(), c.dim, 1, rows.pitch}; }
  StridedMatrix<T> g() const { return {rows.g, batch(), c.dim, 1, rows.pitch}; }

  template <class Source>
  void product(StridedMatrix<Source const> const& from, T const* coefficients, int first,
               T* x) const {
    vjp_teams(exec, "meander::planar::vjp[product]", (batch() + vjp_tile - 1) / vjp_tile,
              VjpProduct<Source, T>{from, coefficients + c.index(first, 0), c.padded_dim,
                                    in_block(first), x + first * rows.pitch, rows.pitch});
  }

  template <class Source, class Target>
  void update(StridedMatrix<Source const> const& from, StridedMatrix<Target> const& to, T sign,
              T const* x, T const* coefficients, int first) const {
    std::int64_t const tiles = (batch() + vjp_tile - 1) / vjp_tile;
    vjp_teams(exec, "meander::planar::vjp[update]", tiles * ((c.dim + vjp_tile - 1) / vjp_tile),
              VjpUpdate<Source, Target, T>{from, to, sign, x + first * rows.pitch, rows.pitch,
                                           coefficients + c.index(first, 0), c.padded_dim,
                                           in_block(first)});
  }

  template <class Source, class Target>
  void copy(StridedMatrix<Source const> const& from, StridedMatrix<Target> const& to) const {
    std::int64_t const tiles = (batch() + vjp_tile - 1) / vjp_tile;
    vjp_teams(exec, "meander::planar::vjp[copy]", tiles * ((c.dim + vjp_tile - 1) / vjp_tile),
              VjpUpdate<Source, Target, T>{from, to, T(0), nullptr, 0, nullptr, 0, 0});
  }

  template <class Source>
  void outer(T const* x, StridedMatrix<Source const> const& from, int first, std::size_t at,
             std::int64_t sums_pitch) const {
    if (!call.with_parameters) return;
    std::size_t const size = PlanarVjpSums(c).size;
    VjpOuter<Source, T> const work{from,
                                   x + first * rows.pitch,
                                   rows.pitch,
                                   in_block(first),
                                   chunks.rows,
                                   call.memory.sums + size + at + first * sums_pitch,
                                   std::int64_t(size),
                                   sums_pitch};
    vjp_teams(exec, "meander::planar::vjp[sums]",
              chunks.count * work.layer_blocks() * work.column_blocks(), work);
  }

  /// The sums that do not depend on the rows.
  void scalar_sums(int first) const {
    if (!call.with_parameters) return;
    PlanarVjpSums const at(c);
    StridedMatrix<T const> const h{rows.h + first * rows.pitch, batch(), in_block(first), 1,
                                   rows.pitch};
    outer(rows.da, h, first, at.m, at.m_pitch);
    double* const sums = call.memory.sums + at.size + first;
    vjp_teams(exec, "meander::planar::vjp[scalar sums]", chunks.count * in_block(first),
              VjpRowSums<T>{rows.da + first * rows.pitch, rows.a + first * rows.pitch, rows.pitch,
                            batch(), chunks.rows, in_block(first), sums + at.b, sums + at.s,
                            std::int64_t(at.size)});
  }

  template <VjpStep step>
  void recurrence(char const* label, int first) const {
    std::int64_t const at = first * rows.pitch;
    Kokkos::parallel_for(
        label,
        Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(exec, 0, batch()),
        VjpRecurrenceRows<Storage, T, step>{{c, first, in_block(first), rows.a + at, rows.h + at,
                                             rows.da + at, rows.log, rows.pitch},
                                            call.grad_log_det});
  }

  template <class Source>
  void activate(StridedMatrix<Source const> const& from, int first) const {
    product(from, c.w, first, rows.a);
    recurrence<VjpStep::activate>("meander::planar::vjp[activate]", first);
  }

  /// The gradients by what the map gives, into g; where they are those of the log-density, z holds
  /// what the map gives.
  void seed() const {
    if (!call.scored) return copy(call.grad_to, g());
    if (call.with_parameters) {
      PlanarVjpSums const at(c);
      vjp_teams(exec, "meander::planar::vjp[loss]", chunks.count,
                VjpLoss<T>{call.base, rows.z, c.layers > 0 ? rows.log : nullptr, rows.pitch,
                           batch(), chunks.rows, c.dim, call.memory.sums + at.size + at.loss,
                           std::int64_t(at.size)});
    }
    Kokkos::parallel_for("meander::planar::vjp[base]",
                         Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(
                             exec, 0, batch() * c.dim),
                         VjpBase<T>{call.base, rows.z, rows.g, rows.pitch});
  }

  void forward_vjp() const {
    PlanarVjpSums const at(c);
    // Rows behind the last block are needed by the base only.
    auto const passes = [&](int first) { return call.scored || !is_last(first); };
    if (c.layers <= c.gram_group && !call.scored) {
      activate(call.from, 0);
      product(call.grad_to, c.u_hat, 0, rows.da);
      recurrence<VjpStep::backward>("meander::planar::vjp[backward]", 0);
      outer(rows.da, call.from, 0, at.w, c.padded_dim);
      outer(rows.h, call.grad_to, 0, at.u, c.padded_dim);
      scalar_sums(0);
      if (call.grad_from.data != nullptr)
        update(call.grad_to, call.grad_from, T(1), rows.da, c.w, 0);
      return;
    }
    auto const z = this->z(), g = this->g();
    copy(call.from, z);
    for (int first = 0; first < c.layers; first += c.gram_group) {
      activate(as_const(z), first);
      if (passes(first)) update(as_const(z), z, T(1), rows.h, c.u_hat, first);
    }
    seed();
    for (int first = (c.layers + c.gram_group - 1) / c.gram_group * c.gram_group - c.gram_group;
         first >= 0; first -= c.gram_group) {
      product(as_const(g), c.u_hat, first, rows.da);
      recurrence<VjpStep::backward>("meander::planar::vjp[backward]", first);
      if (passes(first)) update(as_const(z), z, T(-1), rows.h, c.u_hat, first);
      outer(rows.da, as_const(z), first, at.w, c.padded_dim);
      outer(rows.h, as_const(g), first, at.u, c.padded_dim);
      scalar_sums(first);
      update(as_const(g), g, T(1), rows.da, c.w, first);
    }
    if (call.grad_from.data != nullptr) copy(as_const(g), call.grad_from);
  }

  void inverse_vjp() const {
    PlanarVjpSums const at(c);
    auto const z = this->z(), g = this->g();
    copy(call.from, z);
    if (!call.undone)
      impl::planar_inverse(exec, c, as_const(z), z,
                           StridedVector<T>{call.scored ? rows.log : nullptr, batch(), 1});
    seed();
    for (int first = 0; first < c.layers; first += c.gram_group) {
      activate(as_const(z), first);
      product(as_const(g), c.u_hat, first, rows.da);
      recurrence<VjpStep::transposed_solve>("meander::planar::vjp[solve]", first);
      outer(rows.da, as_const(z), first, at.w, c.padded_dim);
      update(as_const(g), g, T(-1), rows.da, c.w, first);
      outer(rows.h, as_const(g), first, at.u, c.padded_dim);
      scalar_sums(first);
      if (!is_last(first)) update(as_const(z), z, T(1), rows.h, c.u_hat, first);
    }
    if (call.grad_from.data != nullptr) copy(as_const(g), call.grad_from);
  }
};

/// Adds up the chunks: 32 threads take every 32nd of them, for 16 sums a team.
struct VjpAddChunks {
  static constexpr int lanes           = 16;
  static constexpr int most_threads    = 512;
  static constexpr int scratch_numbers = most_threads;
  using Number                         = double;

  double* sums;
  std::int64_t size, chunks;

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(Team const& team) const {
    double* const parts   = vjp_scratch<double>(team, scratch_numbers);
    int const t           = team.team_rank();
    int const n           = team.team_size() / lanes;
    std::int64_t const at = std::int64_t(team.league_rank()) * lanes + t % lanes;
    double sum            = 0;
    if (at < size) {
#pragma unroll 8
      for (std::int64_t c = t / lanes; c < chunks; c += n) sum += sums[(c + 1) * size + at];
    }
    parts[t] = sum;
    team.team_barrier();
    if (t >= lanes || at >= size) return;
    for (int i = 1; i < n; ++i) sum += parts[i * lanes + t];
    sums[at] = sum;
  }
};

/// Shapes of the fused kernel, in the order in which they are tried: rows, threads, units, slices,
/// panels, teams.
template <class... Shapes>
struct VjpShapes {};

template <class T>
using VjpShapesOf = std::conditional_t<
    sizeof(T) == 4,
    VjpShapes<VjpShape<32, 32, 1, 2, false, 12>, VjpShape<32, 64, 2, 2, false, 6>,
              VjpShape<32, 64, 4, 1, false, 6>, VjpShape<64, 128, 4, 2, true, 3>,
              VjpShape<32, 128, 4, 1, true, 3>>,
    VjpShapes<VjpShape<32, 32, 1, 2, false, 6>, VjpShape<32, 256, 2, 8, true, 1>,
              VjpShape<32, 256, 2, 2, true, 1>>>;

/// Calls launch.operator()<Shape>(plan) with the first shape that there is a plan for.
/// \return whether there is one
template <class T, class Launch, class... Shapes>
bool with_vjp_plan(VjpShapes<Shapes...>, PlanarCoefficients<T> const& c, Launch const& launch) {
  auto const attempt = [&]<class Shape>() {
    auto const plan = vjp_plan<T, Shape>(c.dim, c.layers);
    if (plan.exists()) launch.template operator()<Shape>(plan);
    return plan.exists();
  };
  return (attempt.template operator()<Shapes>() || ...);
}
template <class T, class Launch>
bool with_vjp_plan(PlanarCoefficients<T> const& c, Launch const& launch) {
  return with_vjp_plan(VjpShapesOf<T>(), c, launch);
}

/// Chunks of a fused kernel: as many as the teams that a large device runs at once, whole tiles,
/// and no more sums than 1.4 times what the rows and their pre-activations and activations take.
struct VjpChunking {
  std::int64_t least_rows, most;

  template <class T>
  VjpChunking(PlanarCoefficients<T> const& c, int tile, int teams) : most(132 * teams) {
    double const sums    = double(PlanarVjpSums(c).size * sizeof(double));
    double const per_row = 1.4 * double(c.dim + 2 * std::int64_t(c.layers)) * sizeof(T);
    least_rows           = (static_cast<std::int64_t>(sums / per_row / tile) + 1) * tile;
  }

  PlanarVjpChunks chunks(std::int64_t batch) const {
    return PlanarVjpChunks::of(batch, least_rows, most);
  }
  /// Fewer rows never make more chunks than this.
  std::int64_t bound(std::int64_t max_batch) const {
    return std::min(most, (max_batch + least_rows - 1) / least_rows);
  }
};

/// Whether a stack has so few coordinates, and layers, that its rows and scalars stay with threads.
template <class T>
bool fits_vjp_registers(PlanarCoefficients<T> const& c) {
  using Kernel = VjpRegisters<T, T, MapDirection::forward, 4>;
  return c.dim <= 4 && Kernel::scratch_bytes(c.layers) <= scratch_per_team(Kernel::teams);
}

/// Calls launch.operator()<Dim>() for such a stack.
template <class Launch>
void with_vjp_dim(std::int32_t dim, Launch const& launch) {
  if (dim <= 2) return launch.template operator()<2>();
  launch.template operator()<4>();
}

template <class T>
PlanarVjpSizes vjp_sizes(PlanarCoefficients<T> const& c, std::int64_t max_batch) {
  std::size_t const size = PlanarVjpSums(c).size;
  std::int64_t chunks    = 0;
  if (fits_vjp_registers(c)) {
    using Kernel = VjpRegisters<T, T, MapDirection::forward, 4>;
    chunks       = VjpChunking(c, Kernel::rows, Kernel::teams).bound(max_batch);
    return {0, std::size_t(chunks + 1) * size};
  }
  if (with_vjp_plan(c, [&]<class Shape>(VjpPlan const&) {
        chunks = VjpChunking(c, Shape::rows, Shape::teams).bound(max_batch);
      }))
    return {0, std::size_t(chunks + 1) * size};
  chunks = PlanarVjpChunks::bound(max_batch, c.dim, c.layers);
  return {vjp_rows_size(c, max_batch), std::size_t(chunks + 1) * size};
}

template <MapDirection direction, int Dim, class ExecutionSpace, class Storage, class T>
void launch_vjp_registers(ExecutionSpace const& exec, PlanarVjpCall<Storage, T> const& call,
                          PlanarVjpChunks const& chunks) {
  using Kernel = VjpRegisters<Storage, T, direction, Dim>;
  Kokkos::parallel_for(
      "meander::planar::vjp[registers]",
      light_weight(
          Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<Kernel::threads, Kernel::teams>>(
              exec, static_cast<int>(chunks.count), Kernel::threads)
              .set_scratch_size(0, Kokkos::PerTeam(Kernel::scratch_bytes(call.stack.layers)))),
      Kernel{call, chunks});
}

template <MapDirection direction, class Shape, class ExecutionSpace, class Storage, class T>
void launch_vjp_tiles(ExecutionSpace const& exec, PlanarVjpCall<Storage, T> const& call,
                      PlanarVjpChunks const& chunks, VjpPlan const& plan) {
  Kokkos::parallel_for(
      "meander::planar::vjp[tiles]",
      light_weight(
          Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<Shape::threads, Shape::teams>>(
              exec, static_cast<int>(chunks.count), Shape::threads)
              .set_scratch_size(0, Kokkos::PerTeam(plan.scratch))),
      VjpTiles<Storage, T, direction, Shape>{call, chunks, plan});
}

/// The rows [first, first + count) of a call, which begin with a chunk.
template <class ExecutionSpace, class Storage, class T>
void run_vjp_panel(ExecutionSpace const& exec, PlanarVjpCall<Storage, T> call,
                   PlanarVjpChunks chunks, std::int64_t first, std::int64_t count) {
  auto const narrow = [&](auto& rows) {
    if (rows.data == nullptr) return;
    rows.data += first * rows.stride0;
    rows.extent0 = count;
  };
  narrow(call.from);
  narrow(call.grad_to);
  narrow(call.grad_log_det);
  narrow(call.grad_from);
  call.memory.sums += first / chunks.rows * std::int64_t(PlanarVjpSums(call.stack).size);
  chunks.count = (count + chunks.rows - 1) / chunks.rows;
  VjpLaunches<ExecutionSpace, Storage, T> const launches(exec, call, chunks);
  if (call.stack.layers == 0 && !call.scored) {
    if (call.grad_from.data != nullptr) launches.copy(call.grad_to, call.grad_from);
  } else if (call.direction == MapDirection::forward)
    launches.forward_vjp();
  else
    launches.inverse_vjp();
}

template <class ExecutionSpace, class Storage, class T>
void planar_vjp(ExecutionSpace const& exec, PlanarVjpCall<Storage, T> const& call) {
  std::int64_t const batch = call.from.extent0;
  PlanarVjpChunks chunks(batch, call.stack.dim, call.stack.layers);
  bool const forward = call.direction == MapDirection::forward;
  bool fused         = fits_vjp_registers(call.stack);
  if (fused) {
    using Kernel = VjpRegisters<Storage, T, MapDirection::forward, 4>;
    chunks       = VjpChunking(call.stack, Kernel::rows, Kernel::teams).chunks(batch);
    if (batch > 0)
      with_vjp_dim(call.stack.dim, [&]<int Dim>() {
        if (forward)
          launch_vjp_registers<MapDirection::forward, Dim>(exec, call, chunks);
        else
          launch_vjp_registers<MapDirection::inverse, Dim>(exec, call, chunks);
      });
  } else {
    fused = with_vjp_plan(call.stack, [&]<class Shape>(VjpPlan const& plan) {
      chunks = VjpChunking(call.stack, Shape::rows, Shape::teams).chunks(batch);
      if (batch == 0) return;
      if (forward)
        launch_vjp_tiles<MapDirection::forward, Shape>(exec, call, chunks, plan);
      else
        launch_vjp_tiles<MapDirection::inverse, Shape>(exec, call, chunks, plan);
    });
  }
  std::int64_t const panel = vjp_panel_rows(chunks);
  for (std::int64_t first = 0; !fused && first < batch; first += panel)
    run_vjp_panel(exec, call, chunks, first, std::min(panel, batch - first));
  if (!call.with_parameters) return;
  auto const size = static_cast<std::int64_t>(PlanarVjpSums(call.stack).size);
  int const teams = int((size + VjpAddChunks::lanes - 1) / VjpAddChunks::lanes);
  int const threads =
      VjpAddChunks::lanes * int(std::clamp<std::int64_t>(chunks.count, 2, 32) / 2 * 2);
  Kokkos::parallel_for(
      "meander::planar::vjp[add chunks]",
      Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<VjpAddChunks::most_threads, 1>>(
          exec, teams, threads)
          .set_scratch_size(0,
                            Kokkos::PerTeam(sizeof(double) * VjpAddChunks::scratch_numbers + 32)),
      VjpAddChunks{call.memory.sums, size, chunks.count});
}

}  // namespace meander::impl::device
