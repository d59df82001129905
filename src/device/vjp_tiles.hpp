// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <Kokkos_Core.hpp>

#include <meander/impl/map_direction.hpp>
#include <meander/impl/planar_vjp.hpp>

#include "lanes.hpp"
#include "layer_scalars.hpp"
#include "scratch_copy.hpp"
#include "scratch_size.hpp"

/// The gradients of a planar stack of up to 64 layers on a device, in one kernel: design fact 2 on
/// tiles of rows in scratch. A team takes a chunk of rows, tile by tile, and keeps the sums over
/// them in registers. Nothing is stored per row but what the caller asks for.
namespace meander::impl::device {

/// A team's rows and threads; units: 4 x 4 sums of the gradients by w and u_hat that a thread
/// keeps; slices: threads that share the sum over coordinates of a w.z. `Panels`: rows may be
/// longer than what scratch holds, and pass through it three times. `Teams` are to share a
/// multiprocessor.
template <int Rows, int Threads, int Units, int Slices, bool Panels, int Teams>
struct VjpShape {
  static constexpr int rows    = Rows;
  static constexpr int threads = Threads;
  static constexpr int units   = Units;
  static constexpr int slices  = Slices;
  static constexpr bool panels = Panels;
  static constexpr int teams   = Teams;
};

/// How the work on one tile is dealt out, for given D and L.
struct VjpPlan {
  int panel           = 0;  ///< coordinates that are in scratch at a time, a multiple of 4
  int layers          = 0;  ///< L rounded up to a multiple of 4
  int units           = 0;  ///< of a panel
  std::size_t scratch = 0;  ///< bytes

  bool exists() const { return panel > 0; }
};

/// Minus the log-density of the base at its mean.
template <class T>
KOKKOS_INLINE_FUNCTION double log_normalizer(NormalBase<T> const& base, int dim) {
  return half_log_two_pi * dim + (base.log_volume == nullptr ? 0.0 : double(*base.log_volume));
}

/// The plan of a shape, if it can do with its registers and scratch.
template <class T, class Shape>
VjpPlan vjp_plan(std::int32_t dim, std::int32_t layers) {
  constexpr int row_groups = Shape::rows / 4;
  constexpr int longest    = 64;
  VjpPlan plan;
  int const padded = (dim + 3) / 4 * 4;
  plan.layers      = std::max(4, (layers + 3) / 4 * 4);
  int const groups = plan.layers / 4;
  if (layers > longest || row_groups * groups * Shape::slices > Shape::threads) return {};
  auto const bytes = [&](int panel) {
    return 64 + sizeof(double) * 2 * Shape::threads +
           sizeof(T) * std::size_t(Shape::rows + 4) *
               (2 * std::size_t(panel) + std::size_t(2 + Shape::slices) * plan.layers);
  };
  plan.panel = std::min(longest, padded);
  while (bytes(plan.panel) > scratch_per_team(Shape::teams)) {
    if (plan.panel <= 16) return {};
    plan.panel -= 16;
  }
  int const panels = (padded + plan.panel - 1) / plan.panel;
  plan.units       = 2 * groups * (plan.panel / 4);
  if (panels > 1 && !Shape::panels) return {};
  if (panels * plan.units > Shape::threads * Shape::units) return {};
  plan.scratch = bytes(plan.panel);
  return plan;
}

template <class Storage, class T, MapDirection direction, class Shape>
struct VjpTiles {
  static constexpr int rows       = Shape::rows;
  static constexpr int threads    = Shape::threads;
  static constexpr int units      = Shape::units;
  static constexpr int slices     = Shape::slices;
  static constexpr int pitch      = rows + 4;  ///< so that neighbours are in different banks
  static constexpr int row_groups = rows / 4;
  static_assert(slices * row_groups >= 8,
                "a thread sums over da, or the gradients by s, of one layer");
  static constexpr int block       = 8;  ///< layers whose scalars are in registers together
  static constexpr bool is_forward = direction == MapDirection::forward;

  PlanarVjpCall<Storage, T> call;
  PlanarVjpChunks chunks;
  VjpPlan plan;

  /// A team's scratch, each part as [coordinate or layer][row].
  struct Scratch {
    T* memory;
    VjpPlan const& plan;

    /// Of each thread: the log-densities, and da of a layer or the gradients by s of one.
    KOKKOS_INLINE_FUNCTION double* losses() const {
      return reinterpret_cast<double*>(memory) - 2 * threads;
    }
    KOKKOS_INLINE_FUNCTION double* scalars() const {
      return reinterpret_cast<double*>(memory) - threads;
    }
    /// The rows' panel.
    KOKKOS_INLINE_FUNCTION T* z() const { return memory; }
    /// The gradients'.
    KOKKOS_INLINE_FUNCTION T* g() const { return memory + plan.panel * pitch; }
    /// h(a) of every layer.
    KOKKOS_INLINE_FUNCTION T* h() const { return memory + 2 * plan.panel * pitch; }
    /// h'(a) until the gradient by a takes its place.
    KOKKOS_INLINE_FUNCTION T* da() const { return memory + (2 * plan.panel + plan.layers) * pitch; }
    /// Products, in slices; then the gradients by s.
    KOKKOS_INLINE_FUNCTION T* x() const { return memory + 2 * (plan.panel + plan.layers) * pitch; }
  };

  /// What a thread carries from tile to tile in registers.
  struct Sums {
    T unit[units][4][4] = {};
  };

  /// Rows that units are summed over in T, before they are added to the chunk's in double.
  static constexpr int run = 512;

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(Team const& team) const {
    auto* const all =
        static_cast<double*>(team.team_scratch(0).get_shmem_aligned(plan.scratch - 64, 32));
    Scratch const scratch{reinterpret_cast<T*>(all + 2 * threads), plan};
    int const t     = team.team_rank();
    int const chunk = team.league_rank();
    int const count = rows_of(chunk);
    Sums sums;
    scratch.losses()[t] = scratch.scalars()[t] = 0;
    for (int done = 0; done < count; done += rows) {
      tile(team, t, scratch, {chunk, done}, sums);
      if (call.with_parameters && ((done + rows) % run == 0 || done + rows >= count))
        store_units(opaque(t), chunk, done < run, sums);
    }
    if (call.with_parameters) store_scalars(team, t, scratch, chunk, count);
  }

 private:
  KOKKOS_INLINE_FUNCTION int panels() const {
    return Shape::panels ? (call.stack.padded_dim + plan.panel - 1) / plan.panel : 1;
  }
  /// Groups of four coordinates of panel p.
  KOKKOS_INLINE_FUNCTION int groups(int p) const {
    if (!Shape::panels) return plan.panel / 4;
    int const left = call.stack.padded_dim - p * plan.panel;
    return (left < plan.panel ? left : plan.panel) / 4;
  }
  /// Whether the rows that are given are those before the layers.
  KOKKOS_INLINE_FUNCTION bool runs_forward() const { return is_forward || call.undone; }
  KOKKOS_INLINE_FUNCTION int last_layer(int l) const {
    return l < call.stack.layers ? l : call.stack.layers - 1;
  }
  KOKKOS_INLINE_FUNCTION double* sums_of(int chunk) const {
    return call.memory.sums + (chunk + 1) * std::int64_t(PlanarVjpSums(call.stack).size);
  }
  KOKKOS_INLINE_FUNCTION int rows_of(int chunk) const {
    std::int64_t const left = call.from.extent0 - chunk * chunks.rows;
    return static_cast<int>(left < chunks.rows ? left : chunks.rows);
  }

  /// A tile begins at row `done` of its chunk.
  struct Place {
    int chunk, done;
  };
  KOKKOS_INLINE_FUNCTION std::int64_t first_row(Place const& at) const {
    return at.chunk * chunks.rows + at.done;
  }
  /// Rows of the tile that exist.
  KOKKOS_INLINE_FUNCTION int count(Place const& at) const {
    int const left = rows_of(at.chunk) - at.done;
    return left < rows ? left : rows;
  }

  template <class Team>
  KOKKOS_INLINE_FUNCTION void tile(Team const& team, int t, Scratch const& s, Place const& at,
                                   Sums& sums) const {
    // Rows that do not fit pass through scratch three times. A panel is asked for as soon as there
    // is room, and waited for when it is needed.
    int const last       = panels() - 1;
    bool const one_panel = last == 0;
    // A = rows W^T, and the scalars of each row. The gradients' panel is still free.
    {
      T a[4][4] = {};
      team.team_barrier();
      load(opaque(t), call.from, at, 0, s.z());
#pragma unroll 1
      for (int p = 0; p <= last; ++p) {
        end_group_of_copies();
        if (Shape::panels && p < last)
          load(opaque(t), call.from, at, p + 1, p % 2 == 0 ? s.g() : s.z());
        end_group_of_copies();
        wait_for_copies<1>();
        team.team_barrier();
        project(opaque(t), call.stack.w, p % 2 == 0 ? s.z() : s.g(), p, a);
        if (Shape::panels) team.team_barrier();
      }
      keep(opaque(t), s, a);
    }
    if (!one_panel) load(opaque(t), call.from, at, 0, s.z());
    team.team_barrier();
    if (t < rows) {
      bool const is_row = t < count(at);
      T const log_det   = runs_forward() ? forward_chain(s, opaque(t), is_row)
                                         : inverse_chain(s, opaque(t), is_row);
      if (is_row) s.losses()[t] += is_forward ? double(log_det) : -double(log_det);
    }
    // The gradient behind the map, and its products with u_hat.
    {
      T along[4][4] = {};
#pragma unroll 1
      for (int p = 0; p <= last; ++p) {
        wait_for_all_copies();
        team.team_barrier();
        s.losses()[t] += seed(opaque(t), s, at, p);
        team.team_barrier();
        if (Shape::panels && p < last) load(opaque(t), call.from, at, p + 1, s.z());
        project(opaque(t), call.stack.u_hat, s.g(), p, along);
      }
      keep(opaque(t), s, along);
    }
    team.team_barrier();
    if (!one_panel) load(opaque(t), call.from, at, 0, s.z());
    if (t < rows) gradient_chain(s, opaque(t), t < count(at), grad_log_det(at, t));
      // What is summed over the rows, and the gradient before the map.
#pragma unroll 1
    for (int p = 0; p <= last; ++p) {
      wait_for_all_copies();
      team.team_barrier();
      if (!one_panel) {
        seed(opaque(t), s, at, p);
        team.team_barrier();
      }
      if (!is_forward) {
        add_da(opaque(t), s, p, T(-1));
        team.team_barrier();
      }
      if (call.with_parameters) {
        add_units(opaque(t), s, p, sums);
        if (p == 0) {
          add_scalars(opaque(t), s);
          add_gram(opaque(t), s, at.done == 0, sums_of(at.chunk));
        }
      }
      if (call.grad_from.data != nullptr) {
        team.team_barrier();
        if (is_forward) {
          add_da(opaque(t), s, p, T(1));
          team.team_barrier();
        }
        store(opaque(t), s.g(), at, p);
      }
      if (!Shape::panels || p == last) continue;
      team.team_barrier();
      load(opaque(t), call.from, at, p + 1, s.z());
    }
  }

  KOKKOS_INLINE_FUNCTION T grad_log_det(Place const& at, int row) const {
    if (call.scored || row >= count(at)) return T(1);
    return T(call.grad_log_det.data[(first_row(at) + row) * call.grad_log_det.stride0]);
  }

  /// Calls f(element of m, element of the tile, whether it is inside m) for those of panel p.
  /// Neighbouring threads take what lies side by side in memory, and different banks of scratch.
  template <class Matrix, class F>
  KOKKOS_INLINE_FUNCTION void each_element(int t, Matrix const& m, Place const& at, int p, T* tile,
                                           F const& f) const {
    int const count    = this->count(at);
    int const columns  = 4 * groups(p);
    int const d0       = p * plan.panel;
    int const d_end    = int(m.extent1) - d0;
    bool const by_rows = m.stride0 != 1;
    // 4 rows by 8 coordinates a warp, or all rows of some coordinates.
    int const d_first = by_rows ? t % 8 : t / rows,
              d_step  = by_rows ? 8 : (threads + rows - 1) / rows;
    int const r_first = by_rows ? t / 8 : t % rows, r_step = by_rows ? threads / 8 : rows;
    auto* const start = m.data + first_row(at) * m.stride0 + d0 * m.stride1;
#pragma unroll 1
    for (int row = r_first; row < rows; row += r_step) {
      auto* from = start + row * m.stride0 + d_first * m.stride1;
      T* to      = tile + d_first * pitch + row;
#pragma unroll 4
      for (int d = d_first; d < columns; d += d_step) {
        f(from, to, row < count && d < d_end);
        from += d_step * m.stride1;
        to += d_step * pitch;
      }
    }
  }

  /// Outside the matrix: zero.
  KOKKOS_INLINE_FUNCTION void load(int t, StridedMatrix<Storage const> const& m, Place const& at,
                                   int p, T* tile) const {
    each_element(t, m, at, p, tile, [](Storage const* from, T* to, bool inside) {
      if (!inside)
        *to = 0;
      else if constexpr (std::is_same_v<Storage, float> && std::is_same_v<T, float>)
        copy_later<1>(to, from);
      else
        *to = T(*from);
    });
  }

  KOKKOS_INLINE_FUNCTION void store(int t, T* tile, Place const& at, int p) const {
    each_element(t, call.grad_from, at, p, tile, [](Storage* to, T* from, bool inside) {
      if (inside) *to = Storage(*from);
    });
  }

  /// sum[i][r] += of four layers i and four rows r, over this thread's share of the coordinates of
  /// panel p: coefficients . tile.
  KOKKOS_INLINE_FUNCTION void project(int t, T const* coefficients, T const* tile, int p,
                                      T (&sum)[4][4]) const {
    int const row   = t % row_groups * 4;
    int const q     = t / row_groups;
    int const layer = q % (plan.layers / 4) * 4, slice = q / (plan.layers / 4);
    if (slice >= slices || call.stack.layers == 0) return;
    T const* c[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      c[i] = coefficients + last_layer(layer + i) * std::int64_t(call.stack.padded_dim) +
             p * plan.panel;
    int const n = groups(p);
#pragma unroll 1
    for (int g = slice; g < n; g += slices) {
      Pack<T, 4> z[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) z[k] = load_pack<4>(tile + (4 * g + k) * pitch + row);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        auto const w = load_pack<4>(c[i] + 4 * g);
#pragma unroll
        for (int k = 0; k < 4; ++k)
#pragma unroll
          for (int r = 0; r < 4; ++r) sum[i][r] = Kokkos::fma(w.v[k], z[k].v[r], sum[i][r]);
      }
    }
  }

  KOKKOS_INLINE_FUNCTION void keep(int t, Scratch const& s, T const (&sum)[4][4]) const {
    int const row   = t % row_groups * 4;
    int const q     = t / row_groups;
    int const layer = q % (plan.layers / 4) * 4, slice = q / (plan.layers / 4);
    if (slice >= slices) return;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      store_pack(s.x() + (slice * plan.layers + layer + i) * pitch + row,
                 Pack<T, 4>{{sum[i][0], sum[i][1], sum[i][2], sum[i][3]}});
  }

  KOKKOS_INLINE_FUNCTION T product(Scratch const& s, int l, int row) const {
    T sum = s.x()[l * pitch + row];
#pragma unroll
    for (int i = 1; i < slices; ++i) sum += s.x()[(i * plan.layers + l) * pitch + row];
    return sum;
  }

  KOKKOS_INLINE_FUNCTION T const* gram(int i) const {
    return call.stack.gram + std::int64_t(last_layer(i)) * call.stack.gram_group;
  }

  KOKKOS_INLINE_FUNCTION LayerRule<T> rule() const {
    return {call.stack.activation, call.stack.negative_slope, call.stack.log_det_epsilon};
  }

  KOKKOS_INLINE_FUNCTION void count_log_det(Activated<T> const& v, int l,
                                            LogDeterminant<T>& log_det) const {
    rule().count(v, call.stack.s[l], call.stack.s_minus_1[l], log_det);
    if (call.stack.take_log[l] != 0) log_det.take_log();
  }

  KOKKOS_INLINE_FUNCTION void keep(Scratch const& s, int l, int row, bool is_row, T h,
                                   T slope) const {
    s.h()[l * pitch + row]  = is_row ? h : T(0);
    s.da()[l * pitch + row] = slope;
  }

  /// h and h' of one row from its products with w. \return the log-determinant
  KOKKOS_INLINE_FUNCTION T forward_chain(Scratch const& s, int row, bool is_row) const {
    auto const& c = call.stack;
    LogDeterminant<T> log_det;
#pragma unroll 1
    for (int first = 0; first < c.layers; first += block) {
      T a[block], h[block];
#pragma unroll
      for (int k = 0; k < block; ++k) {
        int const l = last_layer(first + k);
        a[k]        = product(s, l, row) + c.b[l];
      }
      // tanh of an infinite row is finite, and would hide it.
      if (first == 0) a[0] += a[0] - a[0];
#pragma unroll 1
      for (int j = 0; j < first; j += 4) subtract<-1>(s, row, first, j, a);
#pragma unroll
      for (int k = 0; k < block; ++k) {
        if (first + k >= c.layers) break;
        if (k % 2 == 0) hold_loads();
        add_block<0>(gram(first + k) + first, k, h, T(1), a[k]);
        auto const v = rule().activate(a[k]);
        h[k]         = v.h;
        keep(s, first + k, row, is_row, v.h, v.slope);
        count_log_det(v, first + k, log_det);
      }
    }
    return log_det.sum;
  }

  /// a += sign * sum of g_j h_j over the layers j of a block before k, or (`behind`) behind it.
  template <int behind>
  KOKKOS_INLINE_FUNCTION static void add_block(T const* g, int k, T const (&h)[block], T sign,
                                               T& a) {
#pragma unroll
    for (int j = 0; j < block; j += 4) {
      auto const pack = load_pack<4>(g + j);
#pragma unroll
      for (int q = 0; q < 4; ++q)
        if (behind ? j + q > k : j + q < k) a = Kokkos::fma(sign * pack.v[q], h[j + q], a);
    }
  }

  /// a_k -= sign * the share of layers j to j + 3 in w_k . rows, of a block of layers.
  template <int sign>
  KOKKOS_INLINE_FUNCTION void subtract(Scratch const& s, int row, int first, int j,
                                       T (&a)[block]) const {
    T h[4];
#pragma unroll
    for (int q = 0; q < 4; ++q)
      h[q] = j + q < call.stack.layers ? T(-sign) * s.h()[(j + q) * pitch + row] : T(0);
#pragma unroll
    for (int k = 0; k < block; ++k) {
      if (k == block / 2) hold_loads();
      auto const g = load_pack<4>(gram(first + k) + j);
#pragma unroll
      for (int q = 0; q < 4; ++q) a[k] = Kokkos::fma(g.v[q], h[q], a[k]);
    }
  }

  /// The same from the products of what the layers gave, last layer first.
  KOKKOS_INLINE_FUNCTION T inverse_chain(Scratch const& s, int row, bool is_row) const {
    auto const& c = call.stack;
    LogDeterminant<T> log_det;
#pragma unroll 1
    for (int first = (c.layers + block - 1) / block * block - block; first >= 0; first -= block) {
      T a[block], h[block] = {};
#pragma unroll
      for (int k = 0; k < block; ++k) {
        int const l = last_layer(first + k);
        a[k]        = product(s, l, row) + c.b[l];
      }
#pragma unroll 1
      for (int j = first + block; j < c.layers; j += 4) subtract<1>(s, row, first, j, a);
#pragma unroll
      for (int k = block - 1; k >= 0; --k) {
        int const l = first + k;
        if (l >= c.layers) continue;
        if (k % 2 == 1) hold_loads();
        if (l == c.layers - 1) a[k] += a[k] - a[k];
        add_block<1>(gram(l) + first, k, h, T(-1), a[k]);
        auto const v = rule().root(a[k], c.s[l], c.s_minus_1[l]);
        h[k]         = v.h;
        keep(s, l, row, is_row, v.h, v.slope);
        rule().count(v, c.s[l], c.s_minus_1[l], log_det);
        // The flags say where the product, taken in the order of the layers, leaves its range.
        if (l == 0 || c.take_log[l - 1] != 0) log_det.take_log();
      }
    }
    return log_det.sum;
  }

  /// The gradient by a of one row, in da, and that by s, in x. See src/host/planar_vjp.cpp.
  KOKKOS_INLINE_FUNCTION void gradient_chain(Scratch const& s, int row, bool is_row,
                                             T by_log_det) const {
    auto const& c    = call.stack;
    int const blocks = (c.layers + block - 1) / block;
#pragma unroll 1
    for (int n = 0; n < blocks; ++n) {
      int const first = (is_forward ? blocks - 1 - n : n) * block;
      T along[block];
#pragma unroll
      for (int k = 0; k < block; ++k) along[k] = product(s, last_layer(first + k), row);
      int const from = is_forward ? first + block : 0, to = is_forward ? c.layers : first;
#pragma unroll 2
      for (int j = from; j < to; ++j) add_gram_row(first, j, s.da()[j * pitch + row], along);
#pragma unroll
      for (int i = 0; i < block; ++i) {
        int const k = is_forward ? block - 1 - i : i;
        int const l = first + k;
        if (l >= c.layers) continue;
        if (i % 2 == 0) hold_loads();
        Activated<T> const v{s.h()[l * pitch + row], s.da()[l * pitch + row]};
        auto const layer = rule().template gradient<direction>(
            v, c.s[l], c.s_minus_1[l], log_det_scale(c, l), along[k], by_log_det);
        T const da              = is_row ? layer.da : T(0);
        s.da()[l * pitch + row] = da;
        s.x()[l * pitch + row]  = is_row ? layer.by_s : T(0);
        add_gram_row(first, l, da, along);
      }
    }
  }

  /// What layer j's da adds to g . u_hat of a block of layers.
  KOKKOS_INLINE_FUNCTION void add_gram_row(int first, int j, T da, T (&along)[block]) const {
    T const factor   = is_forward ? da : -da;
    T const* const g = gram(j) + first;
#pragma unroll
    for (int k = 0; k < block; k += 4) {
      auto const pack = load_pack<4>(g + k);
#pragma unroll
      for (int q = 0; q < 4; ++q) along[k + q] = Kokkos::fma(pack.v[q], factor, along[k + q]);
    }
  }

  /// Fills the gradients' panel with the loss by what the map gives. For the inverse, z becomes
  /// that. \return this thread's share of the logarithm of the base's density, but for its constant
  KOKKOS_INLINE_FUNCTION double seed(int t, Scratch const& s, Place const& at, int p) const {
    if (!call.scored) {
      load(t, call.grad_to, at, p, s.g());
      if (!is_forward) {
        each_block(t, p, [&](int row, int d) {
          T y[4][4];
          moved(s, p, row, d, y);
#pragma unroll
          for (int k = 0; k < 4; ++k) put(s.z() + (d + k) * pitch + row, y[k]);
        });
      }
      wait_for_all_copies();
      return 0;
    }
    // Rows and coordinates that do not exist are zero here and behind the map.
    bool const standard = call.base.loc == nullptr;
    int const count     = this->count(at);
    T squares           = 0;
    each_block(t, p, [&](int row, int d) {
      T y[4][4];
      moved(s, p, row, d, y);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if (!is_forward) put(s.z() + (d + k) * pitch + row, y[k]);
        int const i     = p * plan.panel + d + k;
        bool const is_d = !standard && i < call.stack.dim;
        T const loc     = is_d ? call.base.loc[i] : T(0);
        T const inverse = is_d ? call.base.inverse_scale[i] : T(1);
        T g[4];
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          T x = (loc - y[k][r]) * inverse;
          if (!standard && row + r >= count) x = 0;
          squares = Kokkos::fma(x, x, squares);
          g[r]    = x * inverse;
        }
        put(s.g() + (d + k) * pitch + row, g);
      }
    });
    return -0.5 * double(squares);
  }

  KOKKOS_INLINE_FUNCTION static void put(T* to, T const (&x)[4]) {
    store_pack(to, Pack<T, 4>{{x[0], x[1], x[2], x[3]}});
  }

  /// Calls f(row, d) for blocks of four rows and four coordinates of panel p.
  template <class F>
  KOKKOS_INLINE_FUNCTION void each_block(int t, int p, F const& f) const {
    int const row = t % row_groups * 4;
    int const n   = groups(p);
#pragma unroll 1
    for (int g = t / row_groups; g < n; g += threads / row_groups) f(row, 4 * g);
  }

  /// Four coordinates of four rows behind the map: z + H U_hat, or z - H U_hat.
  KOKKOS_INLINE_FUNCTION void moved(Scratch const& s, int p, int row, int d, T (&y)[4][4]) const {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      auto const z = load_pack<4>(s.z() + (d + k) * pitch + row);
#pragma unroll
      for (int r = 0; r < 4; ++r) y[k][r] = z.v[r];
    }
    if (is_forward || !call.undone)
      add_layers(s.h(), call.stack.u_hat, p, row, d, is_forward ? T(1) : T(-1), y);
  }

  /// y[k][r] += sign * sum over the layers of x[l][row + r] coefficients[l][d + k].
  KOKKOS_INLINE_FUNCTION void add_layers(T const* x, T const* coefficients, int p, int row, int d,
                                         T sign, T (&y)[4][4]) const {
    T const* const c = coefficients + p * plan.panel + d;
#pragma unroll 4
    for (int l = 0; l < call.stack.layers; ++l) {
      auto const xs = load_pack<4>(x + l * pitch + row);
      auto const cs = load_pack<4>(c + std::int64_t(l) * call.stack.padded_dim);
#pragma unroll
      for (int k = 0; k < 4; ++k)
#pragma unroll
        for (int r = 0; r < 4; ++r) y[k][r] = Kokkos::fma(sign * cs.v[k], xs.v[r], y[k][r]);
    }
  }

  /// g += sign dA W
  KOKKOS_INLINE_FUNCTION void add_da(int t, Scratch const& s, int p, T sign) const {
    each_block(t, p, [&](int row, int d) {
      T g[4][4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        auto const old = load_pack<4>(s.g() + (d + k) * pitch + row);
#pragma unroll
        for (int r = 0; r < 4; ++r) g[k][r] = old.v[r];
      }
      add_layers(s.da(), call.stack.w, p, row, d, sign, g);
#pragma unroll
      for (int k = 0; k < 4; ++k) put(s.g() + (d + k) * pitch + row, g[k]);
    });
  }

  /// One unit: four layers and four coordinates, of the gradient by w or of that by u_hat.
  struct Unit {
    bool by_u, exists;
    int layer, group;

    /// Neighbouring layers or coordinates of a unit are this far apart, so that neighbouring
    /// threads read neighbouring ones.
    int layer_step, group_step;
  };

  /// The unit number k of thread t in panel p.
  KOKKOS_INLINE_FUNCTION Unit unit(int t, int k, int p) const {
    int const i      = k * threads + t - p * plan.units;
    int const across = plan.panel / 4, down = plan.layers / 4;
    Unit u;
    u.group      = i % across;
    u.layer      = i / across % down;
    u.by_u       = i / across / down == 1;
    u.exists     = i >= 0 && i < plan.units && u.group < groups(p);
    u.layer_step = down;
    u.group_step = groups(p);
    return u;
  }

  KOKKOS_INLINE_FUNCTION void add_units(int t, Scratch const& s, int p, Sums& sums) const {
#pragma unroll
    for (int k = 0; k < units; ++k) {
      Unit const u = unit(t, k, p);
      if (!u.exists) continue;
      T const* const left  = (u.by_u ? s.h() : s.da()) + u.layer * pitch;
      T const* const right = (u.by_u ? s.g() : s.z()) + u.group * pitch;
#pragma unroll 1
      for (int row = 0; row < rows; row += 4) {
        Pack<T, 4> x[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i] = load_pack<4>(left + i * u.layer_step * pitch + row);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          auto const y = load_pack<4>(right + j * u.group_step * pitch + row);
#pragma unroll
          for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int r = 0; r < 4; ++r)
              sums.unit[k][i][j] = Kokkos::fma(x[i].v[r], y.v[r], sums.unit[k][i][j]);
        }
      }
    }
  }

  KOKKOS_INLINE_FUNCTION void add_scalars(int t, Scratch const& s) const {
    int const layers = call.stack.layers;
    if (t >= 2 * layers) return;
    T const* const x = t < layers ? s.da() + t * pitch : s.x() + (t - layers) * pitch;
    T part           = 0;
#pragma unroll 4
    for (int row = 0; row < rows; row += 4) {
      auto const pack = load_pack<4>(x + row);
      part += (pack.v[0] + pack.v[1]) + (pack.v[2] + pack.v[3]);
    }
    s.scalars()[t] += double(part);
  }

  /// da_i h_j of two by two layers a thread. These sums live in memory: they are few.
  KOKKOS_INLINE_FUNCTION void add_gram(int t, Scratch const& s, bool is_first, double* sums) const {
    int const half = plan.layers / 2;
    PlanarVjpSums const at(call.stack);
#pragma unroll 1
    for (int pair = t; pair < half * half; pair += threads) {
      int const i0 = pair / half * 2, j0 = pair % half * 2;
      T part[2][2] = {};
      if (j0 <= i0) {
#pragma unroll 1
        for (int row = 0; row < rows; row += 4) {
          Pack<T, 4> x[2], y[2];
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            x[i] = load_pack<4>(s.da() + (i0 + i) * pitch + row);
            y[i] = load_pack<4>(s.h() + (j0 + i) * pitch + row);
          }
#pragma unroll
          for (int i = 0; i < 2; ++i)
#pragma unroll
            for (int j = 0; j < 2; ++j)
#pragma unroll
              for (int r = 0; r < 4; ++r)
                part[i][j] = Kokkos::fma(x[i].v[r], y[j].v[r], part[i][j]);
        }
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          if (i0 + i >= call.stack.layers || j0 + j >= at.m_pitch) continue;
          double& sum = sums[at.m + std::size_t(i0 + i) * at.m_pitch + j0 + j];
          sum         = (is_first ? 0.0 : sum) + double(part[i][j]);
        }
    }
  }

  /// Adds the units to the sums of the chunk, and begins anew.
  KOKKOS_INLINE_FUNCTION void store_units(int t, int chunk, bool is_first, Sums& sums) const {
    auto const& c = call.stack;
    PlanarVjpSums const at(c);
    double* const to = sums_of(chunk);
#pragma unroll 1
    for (int p = 0; p < panels(); ++p)
#pragma unroll
      for (int k = 0; k < units; ++k) {
        Unit const u = unit(t, k, p);
        if (!u.exists) continue;
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            int const l = u.layer + i * u.layer_step;
            int const d = p * plan.panel + u.group + j * u.group_step;
            if (l >= c.layers) continue;
            double& sum        = to[(u.by_u ? at.u : at.w) + c.index(l, d)];
            sum                = (is_first ? 0.0 : sum) + double(sums.unit[k][i][j]);
            sums.unit[k][i][j] = 0;
          }
      }
  }

  template <class Team>
  KOKKOS_INLINE_FUNCTION void store_scalars(Team const& team, int t, Scratch const& s, int chunk,
                                            int count) const {
    auto const& c = call.stack;
    PlanarVjpSums const at(c);
    double* const to = sums_of(chunk);
    if (t < 2 * c.layers) to[t < c.layers ? at.b + t : at.s + t - c.layers] = s.scalars()[t];
    double* const losses = s.losses();
    for (int half = threads / 2; half > 0; half /= 2) {
      team.team_barrier();
      if (t < half) losses[t] += losses[t + half];
    }
    if (t == 0) to[at.loss] = losses[0] - double(count) * log_normalizer(call.base, c.dim);
  }
};

}  // namespace meander::impl::device
