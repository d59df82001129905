// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "../tanh_root.hpp"
#include "log_det.hpp"
#include "math.hpp"
#include "planar_map.hpp"
#include "simd.hpp"
#include "tile.hpp"

/// What the forward and the inverse map have in common: all but the scalar work of a layer and the
/// order of the layers. Each is compiled in a source of its own, which instantiates PlanarMap.
namespace meander::impl::host {

namespace {

/// Layers handled together (Gram form, design fact 2): their pre-activations are dot products with
/// the rows as they stood before the group, corrected by scalars, so that a coordinate loaded once
/// serves all of them.
constexpr int group = 4;

/// Vectors of rows side by side: with 4 layers that is as many sums as the registers hold.
constexpr int max_vectors = vector_registers >= 32 ? 4 : 2;

/// Bytes of a tile at most: it should stay in a core's second-level cache, and must fit on the
/// stack of a thread (max_dim in planar_prepare.hpp follows from this).
constexpr std::int64_t tile_bytes = std::int64_t{512} * 1024;

/// The scalar work of a layer, forward: a becomes h(a).
template <class T, Activation activation, MapDirection direction, int Vectors>
struct LayerScalars {
  MEANDER_INLINE static void apply(PlanarCoefficients<T> const& stack, int, vec<T> (&a)[Vectors],
                                   vec<T> (&quarter_slope)[Vectors]) {
#pragma GCC unroll 4
    for (int r = 0; r < Vectors; ++r) {
      ActivationValues<T> const v = activation == Activation::tanh
                                        ? tanh_values<T>(a[r])
                                        : leaky_relu_values<T>(a[r], stack.negative_slope);
      a[r]                        = v.h;
      quarter_slope[r]            = v.quarter_slope;
    }
  }
};

/// Inverse: w.y + b becomes -h(a), what the row is to be moved by.
template <class T, Activation activation, int Vectors>
struct LayerScalars<T, activation, MapDirection::inverse, Vectors> {
  /// Out of line: sixteen copies of it would not fit into the instruction cache.
  [[gnu::noinline]] static void apply(PlanarCoefficients<T> const& stack, int l,
                                      vec<T> (&a)[Vectors], vec<T> (&quarter_slope)[Vectors]) {
    TanhRoot<VectorMath<T>> const root(stack.s[l], stack.s_minus_1[l]);
#pragma GCC unroll 1
    for (int r = 0; r < Vectors; ++r) {
      if constexpr (activation == Activation::tanh) {
        TanhAtRoot<vec<T>> const v = root(a[r]);
        a[r]                       = -v.h;
        quarter_slope[r]           = v.slope;
      } else {
        // Both sides' determinants are positive: a and w.y + b have the same sign.
        ActivationValues<T> const v = leaky_relu_values<T>(a[r], stack.negative_slope);
        vec<T> const det =
            fma(v.quarter_slope, splat<T>(4 * stack.s[l]), one_minus_slope<T, activation>(v));
        a[r]             = -v.h / det;
        quarter_slope[r] = v.quarter_slope;
      }
    }
  }
};

/// Layers [first, first + Layers) of one group on one tile.
template <class T, Activation activation, MapDirection direction, bool with_log_det, int Vectors,
          int Layers>
MEANDER_INLINE void apply_group(PlanarCoefficients<T> const& stack, int first, T* __restrict tile,
                                LogDet<T> (&log_det)[Vectors], LinesAhead& ahead) {
  constexpr bool forward = direction == MapDirection::forward;
  constexpr int n        = width<T>;
  constexpr int rows     = Vectors * n;
  T const* const w       = stack.w + stack.index(first, 0);
  T const* const u_hat   = stack.u_hat + stack.index(first, 0);
  int const dim          = stack.dim;
  // The k-th layer to be applied, or undone.
  constexpr auto in_turn = [](int k) { return forward ? k : Layers - 1 - k; };

  vec<T> h[Layers][Vectors];  // the sums w.z + b first, then activations; minus these in inverse
#pragma GCC unroll 4
  for (int l = 0; l < Layers; ++l)
#pragma GCC unroll 4
    for (int r = 0; r < Vectors; ++r) h[l][r] = splat<T>(stack.b[first + l]);
  for (int d = 0; d < dim; ++d) {
    vec<T> z[Vectors];
#pragma GCC unroll 4
    for (int r = 0; r < Vectors; ++r) {
      z[r] = load<T>(tile + d * rows + r * n);
      hold_in_register(z[r]);
    }
#pragma GCC unroll 4
    for (int l = 0; l < Layers; ++l) {
      vec<T> const wd = splat<T>(w[d * group + l]);
#pragma GCC unroll 4
      for (int r = 0; r < Vectors; ++r) h[l][r] = fma(wd, z[r], h[l][r]);
    }
    ahead.ask_for_one();
  }
  // A row that holds a NaN or an infinity shows in the very first sum; x - x makes both NaN.
  if (forward ? first == 0 : first + Layers == stack.layers) {
    constexpr int l = in_turn(0);
#pragma GCC unroll 4
    for (int r = 0; r < Vectors; ++r) h[l][r] = h[l][r] + (h[l][r] - h[l][r]);
  }

  vec<T> quarter_slope[Layers][Vectors];
#pragma GCC unroll 4
  for (int k = 0; k < Layers; ++k) {
    int const l = in_turn(k);
#pragma GCC unroll 4
    for (int r = 0; r < Vectors; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < k; ++i) {
        int const j = in_turn(i);
        h[l][r] = fma(splat<T>(stack.gram[std::size_t(first + l) * group + j]), h[j][r], h[l][r]);
      }
    }
    LayerScalars<T, activation, direction, Vectors>::apply(stack, first + l, h[l],
                                                           quarter_slope[l]);
  }

  // Apart from the chain, whose registers are all taken.
  if constexpr (with_log_det)
#pragma GCC unroll 4
    for (int r = 0; r < Vectors; ++r) {
      LogDet<T> sum = log_det[r];
#pragma GCC unroll 4
      for (int k = 0; k < Layers; ++k) {
        int const l = in_turn(k);
        // take_log closes a run of layers after its last one; backwards, that is where it begins.
        if (!forward && stack.take_log[first + l] != 0 && first + l + 1 < stack.layers) [[unlikely]]
          sum.take_logarithm();
        ActivationValues<T> const v{h[l][r], quarter_slope[l][r]};
        sum.multiply(v.quarter_slope, one_minus_slope<T, activation>(v), stack.s[first + l],
                     stack.s_minus_1[first + l], stack.log_det_epsilon);
        if (forward ? stack.take_log[first + l] != 0 : first + l == 0) [[unlikely]]
          sum.take_logarithm();
      }
      log_det[r] = sum;
    }

  for (int d = 0; d < dim; ++d) {
    vec<T> z[Vectors];
#pragma GCC unroll 4
    for (int r = 0; r < Vectors; ++r) z[r] = load<T>(tile + d * rows + r * n);
#pragma GCC unroll 4
    for (int l = 0; l < Layers; ++l) {
      vec<T> const ud = splat<T>(u_hat[d * group + l]);
#pragma GCC unroll 4
      for (int r = 0; r < Vectors; ++r) z[r] = fma(ud, h[l][r], z[r]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < Vectors; ++r) store<T>(tile + d * rows + r * n, z[r]);
    ahead.ask_for_one();
  }
}

/// The layers past the last whole group.
template <class T, Activation activation, MapDirection direction, bool with_log_det, int Vectors>
MEANDER_INLINE void apply_rest(PlanarCoefficients<T> const& stack, T* tile,
                               LogDet<T> (&log_det)[Vectors], LinesAhead& ahead) {
  int const l = stack.layers / group * group;
  switch (stack.layers - l) {  // NOLINT(bugprone-branch-clone): the last argument differs
    case 3:
      apply_group<T, activation, direction, with_log_det, Vectors, 3>(stack, l, tile, log_det,
                                                                      ahead);
      break;
    case 2:
      apply_group<T, activation, direction, with_log_det, Vectors, 2>(stack, l, tile, log_det,
                                                                      ahead);
      break;
    case 1:
      apply_group<T, activation, direction, with_log_det, Vectors, 1>(stack, l, tile, log_det,
                                                                      ahead);
      break;
    default: break;
  }
}

template <class T, Activation activation, MapDirection direction, bool with_log_det, int Vectors>
void apply_stack(PlanarCoefficients<T> const& stack, T* tile, LogDet<T> (&log_det)[Vectors],
                 LinesAhead ahead) {
  constexpr bool forward = direction == MapDirection::forward;
  int const groups       = stack.layers / group;
  if (!forward) apply_rest<T, activation, direction, with_log_det>(stack, tile, log_det, ahead);
  for (int i = 0; i < groups; ++i)
    apply_group<T, activation, direction, with_log_det, Vectors, group>(
        stack, (forward ? i : groups - 1 - i) * group, tile, log_det, ahead);
  if (forward) apply_rest<T, activation, direction, with_log_det>(stack, tile, log_det, ahead);
}

template <class Storage, class T, Activation activation, MapDirection direction, int Vectors,
          bool Stream>
void run_tile(PlanarMap<Storage, T, direction> const& f, std::int64_t first, T* tile) {
  constexpr int rows = tile_rows<T, Vectors>;
  int const count    = static_cast<int>(std::min<std::int64_t>(rows, f.z.extent0 - first));
  LinesAhead const ahead(f.z, first + rows, rows);
  LogDet<T> log_det[Vectors];
  load_tile<Vectors>(f.z, first, count, tile);
  if (f.log_det.data == nullptr) {
    apply_stack<T, activation, direction, false, Vectors>(f.stack, tile, log_det, ahead);
  } else {
    apply_stack<T, activation, direction, true, Vectors>(f.stack, tile, log_det, ahead);
    for (int i = 0; i < count; ++i) {
      T const sum = log_det[i / width<T>].sum[i % width<T>];
      f.log_det.data[(first + i) * f.log_det.stride0] =
          static_cast<Storage>(direction == MapDirection::forward ? sum : 0 - sum);
    }
  }
  store_tile<Vectors, Stream>(tile, f.y, first, count);
}

template <class Storage, class T, Activation activation, MapDirection direction, int Vectors>
void run_tiles(PlanarMap<Storage, T, direction> const& f, std::int64_t first, std::int64_t last) {
  constexpr int rows = tile_rows<T, Vectors>;
  // On the stack of the thread, so that calls can overlap freely and none allocates.
  constexpr std::size_t alignment_in_bits = std::size_t{8} * vector_bytes;
  std::size_t const bytes                 = std::size_t(rows) * f.stack.dim * sizeof(T);
  T* const tile = static_cast<T*>(__builtin_alloca_with_align(bytes, alignment_in_bits));
  if (should_stream<T>(f.z, f.y)) {
    if constexpr (std::is_same_v<Storage, T>)
      for (; first < last; first += rows)
        run_tile<Storage, T, activation, direction, Vectors, true>(f, first, tile);
    stream_fence();
  } else {
    for (; first < last; first += rows)
      run_tile<Storage, T, activation, direction, Vectors, false>(f, first, tile);
  }
}

template <class Storage, class T, Activation activation, MapDirection direction>
void run_rows(PlanarMap<Storage, T, direction> const& f, std::int64_t first, std::int64_t last,
              int rows_per_tile) {
  if constexpr (max_vectors == 4)
    if (rows_per_tile == tile_rows<T, 4>)
      return run_tiles<Storage, T, activation, direction, 4>(f, first, last);
  if (rows_per_tile == tile_rows<T, 2>)
    return run_tiles<Storage, T, activation, direction, 2>(f, first, last);
  run_tiles<Storage, T, activation, direction, 1>(f, first, last);
}

}  // namespace

template <class Storage, class Compute, MapDirection direction>
int PlanarMap<Storage, Compute, direction>::rows_per_tile(int threads) const {
  int vectors        = max_vectors;
  auto const rows    = [&] { return vectors * width<Compute>; };
  auto const too_big = [&] {
    return std::int64_t(rows()) * stack.dim * std::int64_t(sizeof(Compute)) > tile_bytes;
  };
  auto const too_few = [&] { return z.extent0 <= std::int64_t(rows() / 2) * threads; };
  while (vectors > 1 && (too_big() || too_few())) vectors /= 2;
  return rows();
}

template <class Storage, class Compute, MapDirection direction>
void PlanarMap<Storage, Compute, direction>::run(std::int64_t first, std::int64_t last,
                                                 int rows_per_tile) const {
  last = std::min(last, z.extent0);
  if (stack.activation == Activation::tanh)
    run_rows<Storage, Compute, Activation::tanh>(*this, first, last, rows_per_tile);
  else
    run_rows<Storage, Compute, Activation::leaky_relu>(*this, first, last, rows_per_tile);
}

}  // namespace meander::impl::host
