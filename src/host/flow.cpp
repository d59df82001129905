// SPDX-License-Identifier: BSD-3-Clause
#include "flow.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <variant>

#include "affine.hpp"
#include "normal.hpp"
#include "planar_map.hpp"
#include "simd.hpp"
#include "tile.hpp"

namespace meander::impl::host {

namespace {

/// As the maps of the layers have it (planar_layers.hpp), which take a whole tile at once.
constexpr int max_vectors = vector_registers >= 32 ? 4 : 2;

/// Bytes of a tile at most; the maps of the layers take as much again.
constexpr std::int64_t tile_bytes = std::int64_t{512} * 1024;

/// A tile as the maps of the layers take a batch: one of `rows` rows, column-major.
template <class T>
StridedMatrix<T> as_matrix(T* tile, int rows, int dim) {
  return {tile, rows, dim, 1, rows};
}

/// One layer, from rows to a tile; a null log_det is not wanted.
template <class T>
void map_tile(PlanarCoefficients<T> const& stack, bool as_fitted,
              StridedMatrix<T const> const& from, StridedMatrix<T> const& tile,
              StridedVector<T> const& log_det) {
  int const rows = static_cast<int>(tile.extent0);
  auto const run = [&](auto const& map) { map.run(0, rows, rows); };
  if (as_fitted)
    run(PlanarForward<T, T>{stack, from, tile, log_det});
  else
    run(PlanarInverse<T, T>{stack, from, tile, log_det});
}

template <class T>
void map_tile(AffineCoefficients const& layer, bool as_fitted, StridedMatrix<T const> const& from,
              StridedMatrix<T> const& tile, StridedVector<T> const& log_det) {
  affine_rows(layer, as_fitted ? MapDirection::forward : MapDirection::inverse, from, tile);
  if (log_det.data == nullptr) return;
  T const sum = static_cast<T>(as_fitted ? *layer.log_volume : -*layer.log_volume);
  std::fill(log_det.data, log_det.data + tile.extent0, sum);
}

/// All layers, from rows to a tile, in the order of the call. `log_det` (tile.extent0), null if not
/// wanted, takes their sum.
template <class T>
void map_tile(FlowState<T> const& flow, bool to_data, StridedMatrix<T const> from,
              StridedMatrix<T> const& tile, T* log_det, T* log_det_of_layer) {
  bool const as_fitted = to_data == flow.generative;
  if (log_det != nullptr) std::fill(log_det, log_det + tile.extent0, T(0));
  for (int i = 0; i < flow.num_layers; ++i) {
    auto const& layer = flow.layers[as_fitted ? i : flow.num_layers - 1 - i];
    T* const part     = log_det == nullptr ? nullptr : log_det_of_layer;
    std::visit(
        [&](auto const& stack) {
          map_tile<T>(stack, as_fitted, from, tile, {part, tile.extent0, 1});
        },
        layer);
    from = as_const(tile);
    if (part == nullptr) continue;
    for (std::int64_t r = 0; r < tile.extent0; ++r) log_det[r] += part[r];
  }
}

/// Whether the first layer can read the rows of a tile where they are: whole tiles, in the type of
/// the arithmetic. It asks for the next tile's cache lines on the way.
template <class Storage, class T>
bool reads_in_place(FlowCall<Storage, T> const& call, int count, int rows) {
  return std::is_same_v<Storage, T> && call.from.data != nullptr && count == rows &&
         call.flow.num_layers > 0;
}

template <class T>
StridedMatrix<T const> rows_from(StridedMatrix<T const> m, std::int64_t first) {
  m.data += first * m.stride0;
  m.extent0 -= first;
  return m;
}

/// From standard normals to rows of the base.
template <int Vectors, class T>
void scale_tile(NormalBase<T> const& base, int dim, T* tile) {
  constexpr int rows = tile_rows<T, Vectors>;
  for (int d = 0; d < dim; ++d)
    for (int i = d * rows; i < (d + 1) * rows; i += width<T>)
      store<T>(tile + i, fma(load<T>(tile + i), splat<T>(base.scale[d]), splat<T>(base.loc[d])));
}

/// The sum of squares of the standard normals that the rows of a tile are made of.
template <int Vectors, class T>
void score_tile(NormalBase<T> const& base, int dim, T const* tile, vec<T> (&squares)[Vectors]) {
  constexpr int rows = tile_rows<T, Vectors>;
  for (int r = 0; r < Vectors; ++r) {
    SumOfSquares<T> sum;
    T const* const row = tile + r * width<T>;
    auto const add     = [&](int d) {
      vec<T> const x = load<T>(row + d * rows);
      sum.add(d, base.loc == nullptr
                         ? x
                         : (x - splat<T>(base.loc[d])) * splat<T>(base.inverse_scale[d]));
    };
    int d = 0;
    for (; d + normals_per_block <= dim; d += normals_per_block) {
#pragma GCC unroll 4
      for (int k = 0; k < normals_per_block; ++k) add(d + k);
    }
    for (; d < dim; ++d) add(d);
    squares[r] = sum.total();
  }
}

/// Rows to a matrix, past the caches where that pays.
template <int Vectors, class Storage, class T>
void store_rows(T const* tile, StridedMatrix<Storage> const& to, std::int64_t first, int count,
                [[maybe_unused]] bool stream) {
  if constexpr (std::is_same_v<Storage, T>)
    if (stream) return store_tile<Vectors, true>(tile, to, first, count);
  store_tile<Vectors, false>(tile, to, first, count);
}

template <int Vectors, class Storage, class T>
void run_tile(FlowCall<Storage, T> const& call, std::int64_t first, T* tile, bool stream) {
  constexpr int rows  = tile_rows<T, Vectors>;
  int const count     = static_cast<int>(std::min<std::int64_t>(rows, call.rows - first));
  int const dim       = call.flow.dim;
  auto const& base    = call.flow.base;
  bool const drawn    = call.from.data == nullptr;
  bool const in_place = reads_in_place(call, count, rows);
  vec<T> squares[Vectors];
  alignas(vector_bytes) T log_det[rows], log_det_of_layer[rows];

  if (drawn) {
    draw_tile<Vectors>(call.seed, call.first_row + std::uint64_t(first), dim, tile, squares);
    if (base.loc != nullptr) scale_tile<Vectors>(base, dim, tile);
  } else if (!in_place) {
    load_tile<Vectors>(call.from, first, count, tile);
  }
  if (call.drawn.data != nullptr) store_tile<Vectors, false>(tile, call.drawn, first, count);

  bool const with_log = call.log.data != nullptr;
  auto const matrix   = as_matrix(tile, rows, dim);
  auto from           = as_const(matrix);
  if constexpr (std::is_same_v<Storage, T>)
    if (in_place) from = rows_from(call.from, first);
  map_tile<T>(call.flow, call.to_data, from, matrix, with_log ? log_det : nullptr,
              log_det_of_layer);
  if (call.scored && with_log) {
    if (!drawn) score_tile<Vectors>(base, dim, tile, squares);
    T const constant = T(-half_log_two_pi * dim) - (base.loc == nullptr ? T(0) : *base.log_volume);
    for (int r = 0; r < Vectors; ++r) {
      vec<T> const det      = load<T>(log_det + r * width<T>);
      vec<T> const log_base = fma(squares[r], splat<T>(T(-0.5)), splat<T>(constant));
      store<T>(log_det + r * width<T>, call.to_data ? log_base - det : log_base + det);
    }
  }
  if (with_log)
    for (int i = 0; i < count; ++i)
      call.log.data[(first + i) * call.log.stride0] = static_cast<Storage>(log_det[i]);
  if (call.to.data != nullptr) store_rows<Vectors>(tile, call.to, first, count, stream);
}

template <int Vectors, class Storage, class T>
void run_tiles(FlowCall<Storage, T> const& call, std::int64_t first, std::int64_t last) {
  constexpr int rows = tile_rows<T, Vectors>;
  // On the stack of the thread, so that calls can overlap freely and none allocates.
  constexpr std::size_t alignment_in_bits = std::size_t{8} * vector_bytes;
  std::size_t const bytes                 = std::size_t(rows) * call.flow.dim * sizeof(T);
  T* const tile     = static_cast<T*>(__builtin_alloca_with_align(bytes, alignment_in_bits));
  bool const stream = call.to.data != nullptr && should_stream<T>(call.from, call.to);
  for (; first < last; first += rows) run_tile<Vectors>(call, first, tile, stream);
  if (stream) stream_fence();
}

}  // namespace

template <class Storage, class Compute>
int FlowTiles<Storage, Compute>::rows_per_tile(int threads) const {
  int vectors        = max_vectors;
  auto const rows    = [&] { return vectors * width<Compute>; };
  auto const too_big = [&] {
    return std::int64_t(rows()) * call.flow.dim * std::int64_t(sizeof(Compute)) > tile_bytes;
  };
  auto const too_few = [&] { return call.rows <= std::int64_t(rows() / 2) * threads; };
  while (vectors > 1 && (too_big() || too_few())) vectors /= 2;
  return rows();
}

template <class Storage, class Compute>
void FlowTiles<Storage, Compute>::run(std::int64_t first, std::int64_t last,
                                      int rows_per_tile) const {
  last = std::min(last, call.rows);
  switch (rows_per_tile / width<Compute>) {
    case 4: return run_tiles<4>(call, first, last);
    case 2: return run_tiles<2>(call, first, last);
    default: return run_tiles<1>(call, first, last);
  }
}

template struct FlowTiles<float, float>;
template struct FlowTiles<double, double>;
template struct FlowTiles<float, double>;

}  // namespace meander::impl::host
