// SPDX-License-Identifier: BSD-3-Clause
#include "planar_vjp.hpp"

#include <algorithm>
#include <type_traits>

#include "log_det.hpp"
#include "math.hpp"
#include "normal.hpp"
#include "planar_map.hpp"
#include "simd.hpp"
#include "tile.hpp"

namespace meander::impl::host {

namespace {

/// Layers handled together, as the coefficients of the host stand together.
constexpr int group = 4;

/// Vectors of rows side by side: with four layers, as many sums as the registers hold.
constexpr int vectors = vector_registers >= 32 ? 4 : 2;

/// A tile is a number of blocks, each of which is laid out as in tile.hpp.
template <class T>
constexpr int block_rows = tile_rows<T, vectors>;

/// A tile's rows and all that is kept per row should stay in a core's second-level cache. At least
/// 64 rows: a block, whatever the type.
template <class T>
int rows_of_tile(PlanarCoefficients<T> const& c) {
  constexpr std::int64_t bytes = std::int64_t{512} * 1024;
  std::int64_t const per_row   = (2 * std::int64_t(c.padded_dim) + 2 * c.layers) * sizeof(T);
  int rows                     = int(PlanarVjpChunks::unit);
  while (rows > 64 && rows * per_row > bytes) rows /= 2;
  return rows;
}

template <class T>
int padded_layers(PlanarCoefficients<T> const& c) {
  return (c.layers + group - 1) / group * group;
}

/// Four layers of one block: numbers of one row vector and layer.
template <class T>
using Scalars = vec<T>[group][vectors];

/// x = tile . coefficients, of the layers of one group.
template <class T, int Layers>
MEANDER_INLINE void product(T const* coefficients, T const* tile, int dim, Scalars<T>& x) {
  constexpr int rows = block_rows<T>;
  vec<T> sum[Layers][vectors]{};
  for (int d = 0; d < dim; ++d) {
    vec<T> t[vectors];
#pragma GCC unroll 4
    for (int r = 0; r < vectors; ++r) {
      t[r] = load<T>(tile + std::ptrdiff_t(d) * rows + r * width<T>);
      hold_in_register(t[r]);
    }
#pragma GCC unroll 4
    for (int k = 0; k < Layers; ++k) {
      vec<T> const c = splat<T>(coefficients[std::ptrdiff_t(d) * group + k]);
#pragma GCC unroll 4
      for (int r = 0; r < vectors; ++r) sum[k][r] = fma(c, t[r], sum[k][r]);
    }
  }
#pragma GCC unroll 4
  for (int k = 0; k < Layers; ++k)
#pragma GCC unroll 4
    for (int r = 0; r < vectors; ++r) x[k][r] = sum[k][r];
}

/// tile += x coefficients; minus with `negative`.
template <class T, int Layers, bool negative>
MEANDER_INLINE void update(T const* coefficients, T* tile, int dim, T const* x) {
  constexpr int rows = block_rows<T>;
  vec<T> factor[Layers][vectors];
#pragma GCC unroll 4
  for (int k = 0; k < Layers; ++k)
#pragma GCC unroll 4
    for (int r = 0; r < vectors; ++r) {
      factor[k][r] = load<T>(x + k * rows + r * width<T>);
      if (negative) factor[k][r] = -factor[k][r];
    }
  for (int d = 0; d < dim; ++d) {
    vec<T> t[vectors];
#pragma GCC unroll 4
    for (int r = 0; r < vectors; ++r)
      t[r] = load<T>(tile + std::ptrdiff_t(d) * rows + r * width<T>);
#pragma GCC unroll 4
    for (int k = 0; k < Layers; ++k) {
      vec<T> const c = splat<T>(coefficients[std::ptrdiff_t(d) * group + k]);
#pragma GCC unroll 4
      for (int r = 0; r < vectors; ++r) t[r] = fma(c, factor[k][r], t[r]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < vectors; ++r)
      store<T>(tile + std::ptrdiff_t(d) * rows + r * width<T>, t[r]);
  }
}

/// The sums over the lanes of width<T> vectors, one in each lane; always the same tree.
template <class T>
MEANDER_INLINE vec<T> lane_sums(vec<T> (&m)[width<T>]) {
  transpose<T>(m);
#pragma GCC unroll 8
  for (int half = width<T> / 2; half > 0; half /= 2)
#pragma GCC unroll 8
    for (int i = 0; i < half; ++i) m[i] = m[i] + m[i + half];
  return m[0];
}

template <class T>
double lane_sum(vec<T> x) {
  double sum = 0;
  for (int i = 0; i < width<T>; ++i) sum += double(x[i]);
  return sum;
}

/// One slot's memory, cut up. Layer l of block k of h is at h + (k * layers + l) * block_rows.
template <class T>
struct Slot {
  T* z;         ///< the rows on their way
  T* g;         ///< the gradient by them
  T* h;         ///< h(a) of every layer
  T* da;        ///< h'(a) / 4 until the gradient by a takes its place
  T* grad_log;  ///< the gradient by log_det
  int rows, dim, layers;

  Slot(PlanarCoefficients<T> const& c, T* memory)
      : rows(rows_of_tile(c)), dim(c.padded_dim), layers(padded_layers(c)) {
    z        = memory;
    g        = z + std::ptrdiff_t(rows) * dim;
    h        = g + std::ptrdiff_t(rows) * dim;
    da       = h + std::ptrdiff_t(rows) * layers;
    grad_log = da + std::ptrdiff_t(rows) * layers;
  }

  static std::size_t size(PlanarCoefficients<T> const& c) {
    return std::size_t(rows_of_tile(c)) *
           (2 * std::size_t(c.padded_dim) + 2 * std::size_t(padded_layers(c)) + 1);
  }

  std::ptrdiff_t at_rows(int block) const { return std::ptrdiff_t(block) * dim * block_rows<T>; }
  std::ptrdiff_t at_layer(int block, int l) const {
    return (std::ptrdiff_t(block) * layers + l) * block_rows<T>;
  }
};

/// What a layer's determinant contributes: the gradients of log|det| by det, times that by log_det.
template <class T, Activation activation>
struct LayerGradient {
  T s, s_minus_1, scale, epsilon;

  LayerGradient(PlanarCoefficients<T> const& c, int l)
      : s(c.s[l]),
        s_minus_1(c.s_minus_1[l]),
        scale(log_det_scale(c, l)),
        epsilon(c.log_det_epsilon) {}

  MEANDER_INLINE vec<T> det(ActivationValues<T> const& v) const {
    return fma(v.quarter_slope, splat<T>(4 * s), one_minus_slope<T, activation>(v));
  }

  /// Where no gradient by log_det comes in, none goes out, be the determinant zero.
  MEANDER_INLINE vec<T> by_det(vec<T> det, vec<T> grad_log) const {
    vec<T> divisor = det;
    if (epsilon != 0) divisor = det < T(0) ? det - epsilon : det + epsilon;
    return grad_log != T(0) ? grad_log / divisor : vec<T>{};
  }

  MEANDER_INLINE vec<T> by_s(ActivationValues<T> const& v, vec<T> by_det) const {
    return v.quarter_slope * (by_det * (4 * scale));
  }

  /// The part of da that comes from log_det by way of h'(a), over h'(a): tanh'' = -2 tanh tanh'.
  MEANDER_INLINE vec<T> from_slope(ActivationValues<T> const& v, vec<T> by_det) const {
    if constexpr (activation == Activation::tanh)
      return v.h * (by_det * (-2 * s_minus_1));
    else
      return vec<T>{} * v.h;
  }
};

/// The sums of one group that are not matrices, over the rows of a tile.
template <class T>
struct GroupSums {
  vec<T> b[group]{}, s[group]{}, m[group][group]{};
  vec<T> log_det{};

  template <int Layers>
  MEANDER_INLINE void add_products(Scalars<T> const& da, Scalars<T> const& h) {
#pragma GCC unroll 4
    for (int r = 0; r < vectors; ++r)
#pragma GCC unroll 4
      for (int i = 0; i < Layers; ++i) {
        b[i] = b[i] + da[i][r];
#pragma GCC unroll 4
        for (int j = 0; j < i; ++j) m[i][j] = fma(da[i][r], h[j][r], m[i][j]);
      }
  }

  void add_to(PlanarVjpSums const& at, int first, double* sums) const {
    for (int i = 0; i < group; ++i) {
      sums[at.b + first + i] += lane_sum<T>(b[i]);
      sums[at.s + first + i] += lane_sum<T>(s[i]);
      for (int j = 0; j < i; ++j)
        sums[at.m + std::size_t(first + i) * group + j] += lane_sum<T>(m[i][j]);
    }
  }
};

template <class T, Activation activation>
struct Chain {
  PlanarCoefficients<T> const& c;
  Slot<T> const& slot;
  double* sums;    ///< of the chunk; null: not wanted
  bool with_loss;  ///< the sum of the log-determinants is wanted
  bool with_rows;  ///< the gradient by the rows is wanted
  int blocks;      ///< of the tile that have rows

  static constexpr int rows = block_rows<T>;

  T const* w(int first) const { return c.w + c.index(first, 0); }
  T const* u_hat(int first) const { return c.u_hat + c.index(first, 0); }
  T gram(int i, int j) const { return c.gram[std::ptrdiff_t(i) * group + j % group]; }

  MEANDER_INLINE ActivationValues<T> activate(vec<T> a) const {
    return activation == Activation::tanh ? tanh_values<T>(a)
                                          : leaky_relu_values<T>(a, c.negative_slope);
  }

  /// h and h' of a group from the rows before it; `move` takes the rows past it.
  template <int Layers>
  void forward(int first, bool move) const {
    for (int block = 0; block < blocks; ++block) {
      T* const z = slot.z + slot.at_rows(block);
      T* const h = slot.h + slot.at_layer(block, first);
      T* const q = slot.da + slot.at_layer(block, first);
      Scalars<T> a;
      product<T, Layers>(w(first), z, c.dim, a);
#pragma GCC unroll 4
      for (int k = 0; k < Layers; ++k)
#pragma GCC unroll 4
        for (int r = 0; r < vectors; ++r) {
          vec<T> x = a[k][r] + c.b[first + k];
          // tanh of an infinite row is finite, and would hide it.
          if (first == 0 && k == 0) x = x + (x - x);
          for (int j = 0; j < k; ++j) x = fma(splat<T>(gram(first + k, first + j)), a[j][r], x);
          ActivationValues<T> const v = activate(x);
          a[k][r]                     = v.h;
          store<T>(h + k * rows + r * width<T>, v.h);
          store<T>(q + k * rows + r * width<T>, v.quarter_slope);
        }
      if (move) update<T, Layers, false>(u_hat(first), z, c.dim, h);
    }
  }

  /// The log-determinants of a group, of the rows that count, from what `forward` has left.
  template <int Layers>
  vec<T> log_det_sum(int first, int block) const {
    T const* const hs = slot.h + slot.at_layer(block, first);
    T const* const qs = slot.da + slot.at_layer(block, first);
    T const* const gl = slot.grad_log + block * rows;
    vec<T> sum{};
    for (int r = 0; r < vectors; ++r) {
      LogDet<T> log_det;
      for (int k = 0; k < Layers; ++k) {
        ActivationValues<T> const v{load<T>(hs + k * rows + r * width<T>),
                                    load<T>(qs + k * rows + r * width<T>)};
        log_det.multiply(v.quarter_slope, one_minus_slope<T, activation>(v), c.s[first + k],
                         c.s_minus_1[first + k], c.log_det_epsilon);
        // A part of a run of layers keeps the product in range as the whole of it does.
        if (k + 1 == Layers || c.take_log[first + k] != 0) log_det.take_logarithm();
      }
      sum = sum + (load<T>(gl + r * width<T>) != T(0) ? log_det.sum : vec<T>{});
    }
    return sum;
  }

  /// The gradient from behind a group to before it; `move` takes the rows there as well, else they
  /// never left.
  template <int Layers>
  void backward(int first, bool move) const {
    GroupSums<T> group_sums;
    for (int block = 0; block < blocks; ++block) {
      T* const g        = slot.g + slot.at_rows(block);
      T const* const hs = slot.h + slot.at_layer(block, first);
      T* const das      = slot.da + slot.at_layer(block, first);
      T const* const gl = slot.grad_log + block * rows;
      Scalars<T> h, da;
      if (with_loss) group_sums.log_det = group_sums.log_det + log_det_sum<Layers>(first, block);
      product<T, Layers>(u_hat(first), g, c.dim, da);
      for (int k = Layers; k-- > 0;) {
        LayerGradient<T, activation> const layer(c, first + k);
        for (int r = 0; r < vectors; ++r) {
          ActivationValues<T> const v{load<T>(hs + k * rows + r * width<T>),
                                      load<T>(das + k * rows + r * width<T>)};
          vec<T> const by_det = layer.by_det(layer.det(v), load<T>(gl + r * width<T>));
          vec<T> along        = da[k][r];  // the gradient behind the layer, times u_hat
          for (int j = k + 1; j < Layers; ++j)
            along = fma(splat<T>(gram(first + j, first + k)), da[j][r], along);
          h[k][r]         = v.h;
          da[k][r]        = T(4) * v.quarter_slope * (along + layer.from_slope(v, by_det));
          group_sums.s[k] = group_sums.s[k] + layer.by_s(v, by_det);
          store<T>(das + k * rows + r * width<T>, da[k][r]);
        }
      }
      if (sums != nullptr) group_sums.template add_products<Layers>(da, h);
      if (move) update<T, Layers, true>(u_hat(first), slot.z + slot.at_rows(block), c.dim, hs);
    }
    if (sums != nullptr) {
      PlanarVjpSums const at(c);
      group_sums.add_to(at, first, sums);
      if (with_loss) sums[at.loss] += lane_sum<T>(group_sums.log_det);
      add_outer(slot.da, first, slot.z, sums + at.w + c.index(first, 0));
      add_outer(slot.h, first, slot.g, sums + at.u + c.index(first, 0));
    }
    if (first == 0 && !with_rows) return;
    for (int block = 0; block < blocks; ++block)
      update<T, Layers, false>(w(first), slot.g + slot.at_rows(block), c.dim,
                               slot.da + slot.at_layer(block, first));
  }

  /// For the inverse map: rows and gradient from before a group (in the forward order) to behind
  /// it, where the gradient before it is known. With det q = g.u_hat - (s - 1) p, the gradient
  /// behind the layer has g'.u_hat = q, da = h' q + p, and p is what comes from log_det.
  template <int Layers>
  void transposed_solve(int first, bool move) const {
    forward<Layers>(first, false);
    GroupSums<T> group_sums;
    for (int block = 0; block < blocks; ++block) {
      T* const g        = slot.g + slot.at_rows(block);
      T const* const hs = slot.h + slot.at_layer(block, first);
      T* const das      = slot.da + slot.at_layer(block, first);
      T const* const gl = slot.grad_log + block * rows;
      Scalars<T> h, da;
      if (with_loss) group_sums.log_det = group_sums.log_det + log_det_sum<Layers>(first, block);
      product<T, Layers>(u_hat(first), g, c.dim, da);
      for (int k = 0; k < Layers; ++k) {
        LayerGradient<T, activation> const layer(c, first + k);
        for (int r = 0; r < vectors; ++r) {
          ActivationValues<T> const v{load<T>(hs + k * rows + r * width<T>),
                                      load<T>(das + k * rows + r * width<T>)};
          vec<T> const det    = layer.det(v);
          vec<T> const by_det = layer.by_det(det, load<T>(gl + r * width<T>));
          vec<T> along        = da[k][r];
          for (int j = 0; j < k; ++j)
            along = fma(splat<T>(-gram(first + j, first + k)), da[j][r], along);
          vec<T> const slope = T(4) * v.quarter_slope;
          vec<T> const p     = slope * layer.from_slope(v, by_det);
          h[k][r]            = v.h;
          vec<T> const rest  = along - p * layer.s_minus_1;
          // Rows past the last one have no gradient, and any determinant.
          vec<T> const q  = rest != T(0) ? rest / det : vec<T>{};
          da[k][r]        = fma(slope, q, p);
          group_sums.s[k] = group_sums.s[k] + layer.by_s(v, by_det);
          store<T>(das + k * rows + r * width<T>, da[k][r]);
        }
      }
      if (sums != nullptr) group_sums.template add_products<Layers>(da, h);
      update<T, Layers, true>(w(first), g, c.dim, das);
    }
    if (sums != nullptr) {
      PlanarVjpSums const at(c);
      group_sums.add_to(at, first, sums);
      if (with_loss) sums[at.loss] -= lane_sum<T>(group_sums.log_det);
      add_outer(slot.da, first, slot.z, sums + at.w + c.index(first, 0));
      add_outer(slot.h, first, slot.g, sums + at.u + c.index(first, 0));
    }
    if (move)
      for (int block = 0; block < blocks; ++block)
        update<T, Layers, false>(u_hat(first), slot.z + slot.at_rows(block), c.dim,
                                 slot.h + slot.at_layer(block, first));
  }

  /// sums[d][k] += sum over the rows of the tile of x_k rows_d, x of the group's layers. Within the
  /// tile in T, from tile to tile in double.
  void add_outer(T const* x, int first, T const* tile, double* sums_at) const {
    constexpr int coordinates = vector_registers >= 32 ? 4 : 2;
    constexpr int n           = width<T>;
    static_assert(coordinates * group % n == 0);
    for (int d = 0; d < c.padded_dim; d += coordinates) {
      vec<T> sum[coordinates * group]{};
      for (int block = 0; block < blocks; ++block) {
        T const* const xs = x + slot.at_layer(block, first);
        T const* const ts = tile + slot.at_rows(block) + std::ptrdiff_t(d) * rows;
#pragma GCC unroll 1
        for (int r = 0; r < rows; r += n) {
          vec<T> xk[group];
#pragma GCC unroll 4
          for (int k = 0; k < group; ++k) {
            xk[k] = load<T>(xs + k * rows + r);
            hold_in_register(xk[k]);
          }
#pragma GCC unroll 4
          for (int i = 0; i < coordinates; ++i) {
            vec<T> t = load<T>(ts + i * rows + r);
            hold_in_register(t);
#pragma GCC unroll 4
            for (int k = 0; k < group; ++k) sum[i * group + k] = fma(t, xk[k], sum[i * group + k]);
          }
        }
      }
      for (int i = 0; i < coordinates * group; i += n) {
        vec<T> part[n];
#pragma GCC unroll 16
        for (int k = 0; k < n; ++k) part[k] = sum[i + k];
        vec<T> const all = lane_sums<T>(part);
        for (int k = 0; k < n; ++k) sums_at[std::ptrdiff_t(d) * group + i + k] += double(all[k]);
      }
    }
  }

  template <class F>
  static void with_layers(int layers, F const& f) {
    switch (layers) {
      case 1: return f(std::integral_constant<int, 1>());
      case 2: return f(std::integral_constant<int, 2>());
      case 3: return f(std::integral_constant<int, 3>());
      default: return f(std::integral_constant<int, group>());
    }
  }

  /// `seed` gives the gradients by what the map gives, and is called where slot.z holds that if
  /// `scored`.
  template <class Seed>
  void run(MapDirection direction, bool scored, Seed const& seed) const {
    auto const is_last = [&](int first) { return first + group >= c.layers; };
    auto const passes  = [&](int first) { return scored || !is_last(first); };
    if (direction == MapDirection::inverse) {
      seed();
      for (int first = 0; first < c.layers; first += group)
        with_layers(c.layers - first,
                    [&](auto n) { transposed_solve<n()>(first, !is_last(first)); });
      return;
    }
    for (int first = 0; first < c.layers; first += group)
      with_layers(c.layers - first, [&](auto n) { forward<n()>(first, passes(first)); });
    seed();
    for (int first = padded_layers(c) - group; first >= 0; first -= group)
      with_layers(c.layers - first, [&](auto n) { backward<n()>(first, passes(first)); });
  }
};

/// The gradients of the log-density of the base by a block of its rows, and of the log-density by
/// log_det. Rows past the last one get none.
/// \return the sum of the log-densities of the base
template <class T>
double seed_from_base(NormalBase<T> const& base, int dim, int count, T const* z, T* g,
                      T* grad_log) {
  constexpr int rows = block_rows<T>;
  vec<T> squares{};
  for (int i = 0; i < rows; ++i) grad_log[i] = i < count ? T(1) : T(0);
  for (int i = 0; i < rows; i += width<T>) {
    auto const counts = load<T>(grad_log + i) != T(0);
    SumOfSquares<T> sum;
    for (int d = 0; d < dim; ++d) {
      std::ptrdiff_t const at = std::ptrdiff_t(d) * rows + i;
      T const loc             = base.loc == nullptr ? T(0) : base.loc[d];
      T const inverse         = base.inverse_scale == nullptr ? T(1) : base.inverse_scale[d];
      vec<T> const normal     = (loc - load<T>(z + at)) * inverse;
      sum.add(d, normal);
      store<T>(g + at, counts ? normal * inverse : vec<T>{});
    }
    squares = squares + (counts ? sum.total() : vec<T>{});
  }
  double const log_volume = base.log_volume == nullptr ? 0.0 : double(*base.log_volume);
  return -0.5 * lane_sum<T>(squares) - count * (half_log_two_pi * dim + log_volume);
}

template <class Storage, class T>
void load_gradients(PlanarVjpCall<Storage, T> const& call, std::int64_t from, int count, T* g,
                    T* grad_log) {
  load_tile<vectors>(call.grad_to, from, count, g);
  for (int i = 0; i < block_rows<T>; ++i)
    grad_log[i] =
        i < count ? T(call.grad_log_det.data[(from + i) * call.grad_log_det.stride0]) : T(0);
}

/// The rows of one block as a matrix.
template <class T>
StridedMatrix<T> block_matrix(T* block, int dim) {
  return {block, block_rows<T>, dim, 1, block_rows<T>};
}

template <class Storage, class T, Activation activation>
void run_tile(PlanarVjpCall<Storage, T> const& call, Slot<T> const& slot, std::int64_t first,
              int count,
              double* sums) {  // NOLINT(readability-non-const-parameter): the chain adds to them
  constexpr int rows = block_rows<T>;
  auto const& c      = call.stack;
  int const blocks   = (count + rows - 1) / rows;
  auto const rest    = [&](int block) { return std::min(rows, count - block * rows); };
  for (int block = 0; block < blocks; ++block) {
    std::int64_t const from = first + std::int64_t(block) * rows;
    T* const z              = slot.z + slot.at_rows(block);
    load_tile<vectors>(call.from, from, rest(block), z);
    if (call.direction == MapDirection::inverse && !call.undone) {
      auto const matrix = block_matrix(z, c.dim);
      PlanarInverse<T, T> const inverse{c, as_const(matrix), matrix, {}};
      inverse.run(0, rows, inverse.rows_per_tile(1));
    }
  }
  bool const with_rows = call.grad_from.data != nullptr;
  bool const with_loss = call.scored && sums != nullptr;
  Chain<T, activation> const chain{c, slot, sums, with_loss, with_rows, blocks};
  chain.run(call.direction, call.scored, [&] {
    for (int block = 0; block < blocks; ++block) {
      T* const g        = slot.g + slot.at_rows(block);
      T* const grad_log = slot.grad_log + block * rows;
      if (!call.scored) {
        load_gradients(call, first + std::int64_t(block) * rows, rest(block), g, grad_log);
        continue;
      }
      double const log_base =
          seed_from_base(call.base, c.dim, rest(block), slot.z + slot.at_rows(block), g, grad_log);
      if (with_loss) sums[PlanarVjpSums(c).loss] += log_base;
    }
  });
  if (!with_rows) return;
  for (int block = 0; block < blocks; ++block)
    store_tile<vectors, false>(slot.g + slot.at_rows(block), call.grad_from,
                               first + std::int64_t(block) * rows, rest(block));
}

}  // namespace

template <class Storage, class Compute>
std::size_t PlanarVjp<Storage, Compute>::slot_size(PlanarCoefficients<Compute> const& stack) {
  return Slot<Compute>::size(stack);
}

template <class Storage, class Compute>
void PlanarVjp<Storage, Compute>::run(std::int64_t slot_number) const {
  auto const& c            = call.stack;
  std::size_t const needed = slot_size(c);
  Compute* const memory    = call.memory.rows + std::size_t(slot_number) * needed;
  Slot<Compute> const slot(c, memory);
  // Coordinates and layers past the last one count as zero.
  std::fill(memory, memory + needed, Compute(0));
  PlanarVjpSums const at(c);
  for (std::int64_t chunk = slot_number; chunk < chunks.count; chunk += slots) {
    double* const sums =
        call.with_parameters ? call.memory.sums + std::size_t(chunk + 1) * at.size : nullptr;
    if (sums != nullptr) std::fill(sums, sums + at.size, 0.0);
    std::int64_t const end = std::min((chunk + 1) * chunks.rows, call.from.extent0);
    for (std::int64_t first = chunk * chunks.rows; first < end; first += slot.rows) {
      int const count = int(std::min<std::int64_t>(slot.rows, end - first));
      if (c.activation == Activation::tanh)
        run_tile<Storage, Compute, Activation::tanh>(call, slot, first, count, sums);
      else
        run_tile<Storage, Compute, Activation::leaky_relu>(call, slot, first, count, sums);
    }
  }
}

template struct PlanarVjp<float, float>;
template struct PlanarVjp<double, double>;
template struct PlanarVjp<float, double>;

}  // namespace meander::impl::host
