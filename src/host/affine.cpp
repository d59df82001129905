// SPDX-License-Identifier: BSD-3-Clause
#include "affine.hpp"

#include <algorithm>
#include <cstdint>

namespace meander::impl::host {

namespace {

template <class T>
bool is_dense(StridedMatrix<T> const& m) {
  return m.stride1 == 1 && (m.stride0 == m.extent1 || m.extent0 == 1);
}

template <class T>
bool is_by_columns(StridedMatrix<T> const& m) {
  return m.stride0 == 1 && m.stride0 < m.stride1;
}

/// The coefficients of a few rows side by side, so that short rows pass through a loop as long ones
/// do.
struct Pattern {
  static constexpr std::int64_t most = 256;
  double factors[most], shifts[most];
  std::int64_t size = 0;  ///< a multiple of the length of a row

  Pattern(AffineCoefficients const& layer, MapDirection direction) {
    auto const* const from = direction == MapDirection::forward ? layer.scale : layer.inverse_scale;
    while (size + layer.dim <= most) {
      std::copy(from, from + layer.dim, factors + size);
      std::copy(layer.shift, layer.shift + layer.dim, shifts + size);
      size += layer.dim;
    }
  }
};

/// The same as affine_rows, to the bit.
template <class T>
void affine_values(Pattern const& pattern, MapDirection direction, T const* from, T* to,
                   std::int64_t count) {
  for (std::int64_t first = 0; first < count; first += pattern.size) {
    std::int64_t const size = std::min(pattern.size, count - first);
    if (direction == MapDirection::forward) {
      for (std::int64_t k = 0; k < size; ++k)
        to[first + k] = static_cast<T>(pattern.factors[k] * static_cast<double>(from[first + k]) +
                                       pattern.shifts[k]);
    } else {
      for (std::int64_t k = 0; k < size; ++k)
        to[first + k] = static_cast<T>((static_cast<double>(from[first + k]) - pattern.shifts[k]) *
                                       pattern.factors[k]);
    }
  }
}

}  // namespace

template <class Storage>
int AffineTiles<Storage>::rows_per_tile(int threads) const {
  // Written one way and read the other, a tile has to stay in the first cache.
  bool const same_way          = is_by_columns(from) == is_by_columns(to);
  std::int64_t const values    = same_way ? 262144 : 16384;
  std::int64_t const least     = same_way ? 256 : 16;
  std::int64_t const by_cache  = std::max(least, values / layer.dim);
  std::int64_t const by_thread = std::max<std::int64_t>(1, (rows() + threads - 1) / threads);
  return static_cast<int>(std::min(by_cache, by_thread));
}

template <class Storage>
void AffineTiles<Storage>::run(std::int64_t first, std::int64_t last, int rows_per_tile) const {
  last           = std::min(last, rows());
  auto const cut = [](auto m, std::int64_t begin, std::int64_t count) {
    m.data += begin * m.stride0;
    m.extent0 = count;
    return m;
  };
  if (is_dense(from) && is_dense(to) && layer.dim <= Pattern::most) {
    std::int64_t const begin = first * layer.dim, count = std::max<std::int64_t>(0, last - first);
    affine_values(Pattern(layer, direction), direction, from.data + begin, to.data + begin,
                  count * layer.dim);
  } else {
    for (std::int64_t i = first; i < last; i += rows_per_tile) {
      std::int64_t const count = std::min<std::int64_t>(rows_per_tile, last - i);
      affine_rows(layer, direction, cut(from, i, count), cut(to, i, count));
    }
  }
  if (log_det.data == nullptr) return;
  double const sum  = direction == MapDirection::forward ? *layer.log_volume : -*layer.log_volume;
  auto const stored = static_cast<Storage>(sum);
  for (std::int64_t i = first; i < last; ++i) log_det.data[i * log_det.stride0] = stored;
}

template struct AffineTiles<float>;
template struct AffineTiles<double>;

}  // namespace meander::impl::host
