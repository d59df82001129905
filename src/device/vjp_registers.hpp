// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include <Kokkos_Core.hpp>

#include <meander/impl/map_direction.hpp>
#include <meander/impl/planar_vjp.hpp>

#include "lanes.hpp"
#include "layer_scalars.hpp"
#include "vjp_tiles.hpp"

/// The gradients of a planar stack for rows of at most four coordinates on a device: a thread takes
/// two rows through the layers, and back, in registers. With so few coordinates the Gram form would
/// cost more than it saves.
namespace meander::impl::device {

template <class Storage, class T, MapDirection direction, int Dim>
struct VjpRegisters {
  static constexpr int threads    = 64;
  static constexpr int teams      = sizeof(T) == 4 ? 8 : 4;  ///< to share a multiprocessor
  static constexpr int per_thread = 2;
  static constexpr int rows       = threads * per_thread;  ///< of a tile
  static constexpr int warps      = threads / max_lanes;
  static constexpr int values     = Dim <= 3 ? 8 : 16;  ///< sums of a layer: da z, h g, da, by s
  /// Coefficients of a layer: w, u_hat, b, s, s - 1, and the scale of the gradient by s, which is
  /// positive: its sign says that a logarithm must be taken behind the layer.
  static constexpr int pitch       = 2 * Dim + 4;
  static constexpr bool is_forward = direction == MapDirection::forward;

  PlanarVjpCall<Storage, T> call;
  PlanarVjpChunks chunks;

  KOKKOS_INLINE_FUNCTION static std::size_t scratch_bytes(std::int32_t layers) {
    std::size_t const l = layers < 1 ? 1 : layers;
    return sizeof(double) * (warps * l * values + threads) + sizeof(T) * l * (rows + pitch) + 64;
  }

  /// A team's scratch.
  struct Scratch {
    double* sums;     ///< [warp][layer][value]
    double* losses;   ///< [thread]
    T* coefficients;  ///< [layer][pitch]
    T* a;             ///< [layer][row], of the forward map
  };

  /// The rows of a thread: themselves, the gradients by them and by log_det, and whether they
  /// exist.
  struct Rows {
    T z[per_thread][Dim], g[per_thread][Dim], grad_log[per_thread];
    bool exist[per_thread];
  };

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(Team const& team) const {
    auto const& c    = call.stack;
    int const t      = team.team_rank();
    int const layers = c.layers < 1 ? 1 : c.layers;
    Scratch s;
    s.sums = static_cast<double*>(
        team.team_scratch(0).get_shmem_aligned(scratch_bytes(c.layers) - 64, 32));
    s.losses       = s.sums + warps * layers * values;
    s.coefficients = reinterpret_cast<T*>(s.losses + threads);
    s.a            = s.coefficients + layers * pitch;
    stage(t, s);
    team.team_barrier();

    std::int64_t const chunk = team.league_rank();
    std::int64_t const first = chunk * chunks.rows;
    std::int64_t const end =
        first + chunks.rows < call.from.extent0 ? first + chunks.rows : call.from.extent0;
    double loss = 0;
    for (std::int64_t row = first; row < end; row += rows) loss += tile(t, s, row, end);
    if (call.with_parameters) store_sums(team, t, s, chunk, end - first, loss);
  }

 private:
  KOKKOS_INLINE_FUNCTION void stage(int t, Scratch const& s) const {
    auto const& c = call.stack;
    for (int l = t; l < c.layers; l += threads) {
      T* const to = s.coefficients + l * pitch;
      for (int d = 0; d < Dim; ++d) {
        to[d]       = d < c.dim ? c.w[c.index(l, d)] : T(0);
        to[Dim + d] = d < c.dim ? c.u_hat[c.index(l, d)] : T(0);
      }
      to[2 * Dim]     = c.b[l];
      to[2 * Dim + 1] = c.s[l];
      to[2 * Dim + 2] = c.s_minus_1[l];
      to[2 * Dim + 3] = c.take_log[l] != 0 ? -log_det_scale(c, l) : log_det_scale(c, l);
    }
    for (int i = t; i < warps * c.layers * values; i += threads) s.sums[i] = 0;
  }

  KOKKOS_INLINE_FUNCTION static void fetch(Scratch const& s, int l, T (&c)[pitch]) {
#pragma unroll
    for (int i = 0; i < pitch; i += 4) {
      auto const pack = load_pack<4>(s.coefficients + l * pitch + i);
#pragma unroll
      for (int k = 0; k < 4; ++k) c[i + k] = pack.v[k];
    }
  }

  KOKKOS_INLINE_FUNCTION LayerRule<T> rule() const {
    return {call.stack.activation, call.stack.negative_slope, call.stack.log_det_epsilon};
  }

  template <class Matrix>
  KOKKOS_INLINE_FUNCTION void load(Matrix const& m, std::int64_t first, int t,
                                   bool const (&exist)[per_thread], T (&x)[per_thread][Dim]) const {
#pragma unroll
    for (int r = 0; r < per_thread; ++r)
#pragma unroll
      for (int d = 0; d < Dim; ++d)
        x[r][d] = exist[r] && d < m.extent1
                      ? T(m.data[(first + r * threads + t) * m.stride0 + d * m.stride1])
                      : T(0);
  }

  KOKKOS_INLINE_FUNCTION T pre_activation(T const* c, int l, T const (&z)[Dim]) const {
    T a = c[2 * Dim];
#pragma unroll
    for (int d = 0; d < Dim; ++d) a = Kokkos::fma(c[d], z[d], a);
    // tanh of an infinite row is finite, and would hide it.
    return l == 0 ? a + (a - a) : a;
  }

  KOKKOS_INLINE_FUNCTION static void add(T factor, T const* x, T (&to)[Dim]) {
#pragma unroll
    for (int d = 0; d < Dim; ++d) to[d] = Kokkos::fma(factor, x[d], to[d]);
  }

  /// \return this thread's share of the log-densities, but for the base's constant
  KOKKOS_INLINE_FUNCTION double tile(int t, Scratch const& s, std::int64_t first,
                                     std::int64_t end) const {
    Rows x;
#pragma unroll
    for (int r = 0; r < per_thread; ++r) x.exist[r] = first + r * threads + t < end;
    load(call.from, first, t, x.exist, x.z);
    double loss = 0;
    if constexpr (is_forward) {
      loss = forward_layers(t, s, x);
      loss += seed(t, first, x);
      backward_layers(t, s, x);
    } else {
      if (!call.undone) undo_layers(s, x);
      loss = seed(t, first, x);
      loss -= solve_layers(t, s, x);
    }
    if (call.grad_from.data == nullptr) return loss;
    auto const& m = call.grad_from;
#pragma unroll
    for (int r = 0; r < per_thread; ++r)
#pragma unroll
      for (int d = 0; d < Dim; ++d)
        if (x.exist[r] && d < m.extent1)
          m.data[(first + r * threads + t) * m.stride0 + d * m.stride1] = Storage(x.g[r][d]);
    return loss;
  }

  KOKKOS_INLINE_FUNCTION double forward_layers(int t, Scratch const& s, Rows& x) const {
    LogDeterminant<T> log_det[per_thread];
    for (int l = 0; l < call.stack.layers; ++l) {
      T c[pitch];
      fetch(s, l, c);
#pragma unroll
      for (int r = 0; r < per_thread; ++r) {
        T const a                       = pre_activation(c, l, x.z[r]);
        s.a[l * rows + r * threads + t] = a;
        auto const v                    = rule().activate(a);
        add(v.h, c + Dim, x.z[r]);
        rule().count(v, c[2 * Dim + 1], c[2 * Dim + 2], log_det[r]);
      }
      if (Kokkos::copysign(T(1), c[2 * Dim + 3]) < 0)
#pragma unroll
        for (int r = 0; r < per_thread; ++r) log_det[r].take_log();
    }
    return sum_of_logs(x, log_det);
  }

  KOKKOS_INLINE_FUNCTION static double sum_of_logs(Rows const& x,
                                                   LogDeterminant<T> const (&log_det)[per_thread]) {
    double sum = 0;
#pragma unroll
    for (int r = 0; r < per_thread; ++r)
      if (x.exist[r]) sum += double(log_det[r].sum);
    return sum;
  }

  /// The loss by what the map gives. \return the base's share of the log-densities
  KOKKOS_INLINE_FUNCTION double seed(int t, std::int64_t first, Rows& x) const {
    if (!call.scored) {
      load(call.grad_to, first, t, x.exist, x.g);
#pragma unroll
      for (int r = 0; r < per_thread; ++r)
        x.grad_log[r] =
            x.exist[r]
                ? T(call.grad_log_det.data[(first + r * threads + t) * call.grad_log_det.stride0])
                : T(0);
      return 0;
    }
    T squares = 0;
#pragma unroll
    for (int r = 0; r < per_thread; ++r) {
      x.grad_log[r] = T(x.exist[r]);
#pragma unroll
      for (int d = 0; d < Dim; ++d) {
        bool const has_base = call.base.loc != nullptr && d < call.stack.dim;
        T const loc         = has_base ? call.base.loc[d] : T(0);
        T const inverse     = has_base ? call.base.inverse_scale[d] : T(1);
        T const y           = x.exist[r] ? (loc - x.z[r][d]) * inverse : T(0);
        squares             = Kokkos::fma(y, y, squares);
        x.g[r][d]           = y * inverse;
      }
    }
    return -0.5 * double(squares);
  }

  KOKKOS_INLINE_FUNCTION LayerGradient<T> gradient(T const* c, Activated<T> const& v, T along,
                                                   T by_log_det) const {
    return rule().template gradient<direction>(v, c[2 * Dim + 1], c[2 * Dim + 2],
                                               Kokkos::abs(c[2 * Dim + 3]), along, by_log_det);
  }

  KOKKOS_INLINE_FUNCTION static T dot(T const* x, T const (&y)[Dim]) {
    T sum = 0;
#pragma unroll
    for (int d = 0; d < Dim; ++d) sum = Kokkos::fma(x[d], y[d], sum);
    return sum;
  }

  /// z is before the layer, g behind it.
  KOKKOS_INLINE_FUNCTION static void add_values(LayerGradient<T> const& layer, T h,
                                                T const (&z)[Dim], T const (&g)[Dim],
                                                T (&sum)[values]) {
#pragma unroll
    for (int d = 0; d < Dim; ++d) {
      sum[d]       = Kokkos::fma(layer.da, z[d], sum[d]);
      sum[Dim + d] = Kokkos::fma(h, g[d], sum[Dim + d]);
    }
    sum[2 * Dim] += layer.da;
    sum[2 * Dim + 1] += layer.by_s;
  }

  /// Adds up the values of the rows of a warp, in an order of its own.
  KOKKOS_INLINE_FUNCTION void keep(int t, Scratch const& s, int l, T (&sum)[values]) const {
    if (!call.with_parameters) return;
    using Sum      = LaneSum<max_lanes, values>;
    int const lane = t % max_lanes;
    Sum::reduce(sum, lane);
    if (lane % (max_lanes / values) != 0) return;
    s.sums[(t / max_lanes * call.stack.layers + l) * values + Sum::first_owned_row(lane)] +=
        double(sum[0]);
  }

  KOKKOS_INLINE_FUNCTION void backward_layers(int t, Scratch const& s, Rows& x) const {
    for (int l = call.stack.layers - 1; l >= 0; --l) {
      T c[pitch];
      fetch(s, l, c);
      T sum[values] = {};
#pragma unroll
      for (int r = 0; r < per_thread; ++r) {
        auto const v  = rule().activate(s.a[l * rows + r * threads + t]);
        auto const by = gradient(c, v, dot(c + Dim, x.g[r]), x.grad_log[r]);
        add(-v.h, c + Dim, x.z[r]);
        // Rows that do not exist have no gradients.
        add_values(by, v.h, x.z[r], x.g[r], sum);
        add(by.da, c, x.g[r]);
      }
      keep(t, s, l, sum);
    }
  }

  KOKKOS_INLINE_FUNCTION void undo_layers(Scratch const& s, Rows& x) const {
    for (int l = call.stack.layers - 1; l >= 0; --l) {
      T c[pitch];
      fetch(s, l, c);
#pragma unroll
      for (int r = 0; r < per_thread; ++r) {
        T a = pre_activation(c, 1, x.z[r]);
        if (l == call.stack.layers - 1) a += a - a;
        add(-rule().root(a, c[2 * Dim + 1], c[2 * Dim + 2]).h, c + Dim, x.z[r]);
      }
    }
  }

  /// The transposed Jacobian's system, layer by layer. \return the sum of the layers' log-dets
  KOKKOS_INLINE_FUNCTION double solve_layers(int t, Scratch const& s, Rows& x) const {
    LogDeterminant<T> log_det[per_thread];
    for (int l = 0; l < call.stack.layers; ++l) {
      T c[pitch];
      fetch(s, l, c);
      T sum[values] = {};
#pragma unroll
      for (int r = 0; r < per_thread; ++r) {
        auto const v  = rule().activate(pre_activation(c, l, x.z[r]));
        auto const by = gradient(c, v, dot(c + Dim, x.g[r]), x.grad_log[r]);
        rule().count(v, c[2 * Dim + 1], c[2 * Dim + 2], log_det[r]);
        add(-by.da, c, x.g[r]);
        add_values(by, v.h, x.z[r], x.g[r], sum);
        add(v.h, c + Dim, x.z[r]);
      }
      keep(t, s, l, sum);
      if (Kokkos::copysign(T(1), c[2 * Dim + 3]) < 0)
#pragma unroll
        for (int r = 0; r < per_thread; ++r) log_det[r].take_log();
    }
    return sum_of_logs(x, log_det);
  }

  template <class Team>
  KOKKOS_INLINE_FUNCTION void store_sums(Team const& team, int t, Scratch const& s,
                                         std::int64_t chunk, std::int64_t count,
                                         double loss) const {
    auto const& c = call.stack;
    PlanarVjpSums const at(c);
    double* const to = call.memory.sums + (chunk + 1) * std::int64_t(at.size);
    s.losses[t]      = loss;
    team.team_barrier();
    for (int i = t; i < c.layers * values; i += threads) {
      int const l = i / values, v = i % values;
      double sum = s.sums[i];
      for (int w = 1; w < warps; ++w) sum += s.sums[w * c.layers * values + i];
      if (v < Dim && v < c.padded_dim) to[at.w + c.index(l, v)] = sum;
      if (v >= Dim && v < 2 * Dim) to[at.u + c.index(l, v - Dim)] = sum;
      if (v == 2 * Dim) to[at.b + l] = sum;
      if (v == 2 * Dim + 1) to[at.s + l] = sum;
    }
    // The layers' own rows and gradients went into the sums: nothing is missing between them.
    for (int i = t; i < c.layers * at.m_pitch; i += threads) to[at.m + i] = 0;
    for (int i = t; i < c.layers * (c.padded_dim - Dim); i += threads) {
      int const l = i / (c.padded_dim - Dim), d = Dim + i % (c.padded_dim - Dim);
      to[at.w + c.index(l, d)] = to[at.u + c.index(l, d)] = 0;
    }
    for (int half = threads / 2; half > 0; half /= 2) {
      if (t < half) s.losses[t] += s.losses[t + half];
      team.team_barrier();
    }
    if (t == 0) to[at.loss] = s.losses[0] - double(count) * log_normalizer(call.base, c.dim);
  }
};

}  // namespace meander::impl::device
