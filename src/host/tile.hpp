// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <meander/impl/strided.hpp>

#include "simd.hpp"

/// A tile holds `Vectors` vectors of rows with the coordinates one after another: value (row, d) is
/// at tile[d * Vectors * width + row]. Arithmetic on a tile runs across rows, so that each row is
/// computed alike wherever it stands.
namespace meander::impl::host {

template <class Compute, int Vectors>
inline constexpr int tile_rows = (Vectors * width<Compute>);

inline constexpr int cache_line = 64;

/// The cache lines of a tile that is to be loaded next. Asking for one at a time between arithmetic
/// hides the memory behind it; asking for all at once stalls, since a core tracks few misses.
class LinesAhead {
 public:
  template <class Storage>
  LinesAhead(StridedMatrix<Storage const> const& z, std::int64_t first, std::int64_t rows) {
    rows = std::min(rows, z.extent0 - first);
    if (rows <= 0) return;
    constexpr std::int64_t size = sizeof(Storage);
    start_                      = reinterpret_cast<char const*>(z.data + first * z.stride0);
    if (z.stride1 == 1 && z.stride0 == z.extent1)
      set(1, 0, rows * z.extent1 * size);
    else if (z.stride1 == 1)
      set(rows, z.stride0 * size, z.extent1 * size);
    else if (z.stride0 == 1)
      set(z.extent1, z.stride1 * size, rows * size);
  }

  MEANDER_INLINE void ask_for_one() {
    if (pieces_ == 0) return;
    __builtin_prefetch(at_);
    at_ += cache_line;
    if (at_ >= end_) next_piece();
  }

 private:
  void set(std::int64_t pieces, std::int64_t pitch, std::int64_t length) {
    pieces_ = pieces;
    pitch_  = pitch;
    length_ = length;
    at_     = start_;
    end_    = start_ + length_;
  }

  void next_piece() {
    --pieces_;
    start_ += pitch_;
    at_  = start_;
    end_ = start_ + length_;
  }

  char const* start_   = nullptr;
  char const* at_      = nullptr;
  char const* end_     = nullptr;
  std::int64_t pieces_ = 0, pitch_ = 0, length_ = 0;
};

/// Reads `count` rows from `first` on; rows beyond are zero.
template <int Vectors, class Compute, class Storage>
void load_tile(StridedMatrix<Storage const> const& z, std::int64_t first, int count,
               Compute* tile) {
  constexpr int rows   = tile_rows<Compute, Vectors>;
  constexpr int n      = width<Compute>;
  int const dim        = static_cast<int>(z.extent1);
  Storage const* start = z.data + first * z.stride0;
  if (count < rows) {
    for (int d = 0; d < dim; ++d)
      for (int i = 0; i < rows; ++i)
        tile[d * rows + i] =
            i < count ? static_cast<Compute>(start[i * z.stride0 + d * z.stride1]) : Compute(0);
    return;
  }
  if (z.stride0 == 1) {
    for (int d = 0; d < dim; ++d)
      for (int i = 0; i < rows; i += n)
        store<Compute>(tile + d * rows + i, load_as<Compute>(start + d * z.stride1 + i));
    return;
  }
  int const whole = z.stride1 == 1 ? dim / n * n : 0;
  for (int i = 0; i < rows; i += n)
    for (int d = 0; d < whole; d += n) {
      vec<Compute> block[n];
#pragma GCC unroll 16
      for (int k = 0; k < n; ++k) block[k] = load_as<Compute>(start + (i + k) * z.stride0 + d);
      transpose<Compute>(block);
#pragma GCC unroll 16
      for (int k = 0; k < n; ++k) store<Compute>(tile + (d + k) * rows + i, block[k]);
    }
  for (int d = whole; d < dim; ++d)
    for (int i = 0; i < rows; ++i)
      tile[d * rows + i] = static_cast<Compute>(start[i * z.stride0 + d * z.stride1]);
}

/// Writes the first `count` rows of the tile to rows `first` on. `Stream`: past the caches; then
/// every vector of y must be aligned, and the caller calls stream_fence() in the end.
template <int Vectors, bool Stream, class Compute, class Storage>
void store_tile(Compute const* tile, StridedMatrix<Storage> const& y, std::int64_t first,
                int count) {
  constexpr int rows = tile_rows<Compute, Vectors>;
  constexpr int n    = width<Compute>;
  int const dim      = static_cast<int>(y.extent1);
  Storage* start     = y.data + first * y.stride0;
  auto const put     = [](Storage* p, vec<Compute> v) {
    if constexpr (Stream)
      stream<Compute>(p, v);
    else
      store_as<Compute>(p, v);
  };
  if (count == rows && y.stride0 == 1) {
    for (int d = 0; d < dim; ++d)
      for (int i = 0; i < rows; i += n)
        put(start + d * y.stride1 + i, load<Compute>(tile + d * rows + i));
    return;
  }
  int const whole = count == rows && y.stride1 == 1 ? dim / n * n : 0;
  for (int i = 0; i < rows; i += n)
    for (int d = 0; d < whole; d += n) {
      vec<Compute> block[n];
#pragma GCC unroll 16
      for (int k = 0; k < n; ++k) block[k] = load<Compute>(tile + (d + k) * rows + i);
      transpose<Compute>(block);
#pragma GCC unroll 16
      for (int k = 0; k < n; ++k) put(start + (i + k) * y.stride0 + d, block[k]);
    }
  for (int d = whole; d < dim; ++d)
    for (int i = 0; i < count; ++i)
      start[i * y.stride0 + d * y.stride1] = static_cast<Storage>(tile[d * rows + i]);
}

/// Whether y may and should be written past the caches: it is larger than they are, is not what is
/// read, and every vector written falls on a whole number of its own length.
template <class Compute, class Storage>
bool should_stream(StridedMatrix<Storage const> const& z, StridedMatrix<Storage> const& y) {
  if (!std::is_same_v<Compute, Storage>) return false;
  constexpr std::int64_t caches = std::int64_t(32) << 20;
  std::int64_t const pitch      = y.stride0 == 1 ? y.stride1 : y.stride0;
  return y.extent0 * y.extent1 * std::int64_t(sizeof(Storage)) > caches && z.data != y.data &&
         (y.stride0 == 1 || y.stride1 == 1) &&
         reinterpret_cast<std::uintptr_t>(y.data) % vector_bytes == 0 &&
         pitch * sizeof(Storage) % vector_bytes == 0;
}

}  // namespace meander::impl::host
