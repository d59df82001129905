// SPDX-License-Identifier: BSD-3-Clause
#include "affine.hpp"

#include <algorithm>
#include <cstdint>

namespace meander::impl::host {

template <class Storage>
int AffineTiles<Storage>::rows_per_tile(int threads) const {
  constexpr std::int64_t values = 16384, most = 1024;
  std::int64_t const by_cache  = std::max<std::int64_t>(1, values / layer.dim);
  std::int64_t const by_thread = std::max<std::int64_t>(1, rows() / threads);
  return static_cast<int>(std::min({by_cache, by_thread, most}));
}

template <class Storage>
void AffineTiles<Storage>::run(std::int64_t first, std::int64_t last, int rows_per_tile) const {
  last           = std::min(last, rows());
  auto const cut = [](auto m, std::int64_t begin, std::int64_t count) {
    m.data += begin * m.stride0;
    m.extent0 = count;
    return m;
  };
  for (std::int64_t i = first; i < last; i += rows_per_tile) {
    std::int64_t const count = std::min<std::int64_t>(rows_per_tile, last - i);
    affine_rows(layer, direction, cut(from, i, count), cut(to, i, count));
  }
  if (log_det.data == nullptr) return;
  double const sum  = direction == MapDirection::forward ? *layer.log_volume : -*layer.log_volume;
  auto const stored = static_cast<Storage>(sum);
  for (std::int64_t i = first; i < last; ++i) log_det.data[i * log_det.stride0] = stored;
}

template struct AffineTiles<float>;
template struct AffineTiles<double>;

}  // namespace meander::impl::host
