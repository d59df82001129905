// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <type_traits>

#include <meander/impl/philox.hpp>

#include "../box_muller.hpp"
#include "math.hpp"
#include "simd.hpp"
#include "tile.hpp"

/// Standard normals for vectors of rows.
namespace meander::impl::host {

/// Lanes of 64 bits, the lower half of each a word.
typedef std::uint64_t word_lanes __attribute__((vector_size(vector_bytes)));

/// Products of the lower halves. (GCC 12 warns of what the plain AVX-512 form expands to; the
/// masked one, with nothing masked out, is the same.)
MEANDER_INLINE word_lanes multiply_words(std::uint32_t constant, word_lanes lanes) {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
  return (word_lanes)_mm512_maskz_mul_epu32(0xff, (__m512i)lanes, _mm512_set1_epi64(constant));
#elif defined(__AVX2__) && defined(__FMA__)
  return (word_lanes)_mm256_mul_epu32((__m256i)lanes, _mm256_set1_epi64x(constant));
#else
  return (lanes & std::uint64_t{0xffffffff}) * std::uint64_t{constant};
#endif
}

/// What BoxMuller needs of a vector of rows.
template <class T>
struct VectorOps {
  typedef std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t> lane;
  typedef lane bits __attribute__((vector_size(vector_bytes)));
  using scalar = T;
  using real   = vec<T>;

  MEANDER_INLINE static real splat(T x) { return host::splat<T>(x); }
  MEANDER_INLINE static real fma(real a, real b, real c) { return host::fma(a, b, c); }
  MEANDER_INLINE static real sqrt(real x) { return host::sqrt(x); }

  /// Flips the sign where bit 1 of `two` is set.
  MEANDER_INLINE static real negate_if(bits two, real x) {
    return (real)((bits)x ^ (two << (8 * sizeof(T) - 2)));
  }

  /// An unsigned word below 2^31 (float) or 2^32 (double), exact before it is rounded to T.
  MEANDER_INLINE static real number(bits word) {
    if constexpr (sizeof(T) == 4) {
      return __builtin_convertvector((ivec<T>)word, real);
    } else {
      // The word as the lowest bits of the significand of 2^52 + word.
      constexpr std::uint64_t exponent = 0x4330000000000000;
      return (real)(word | exponent) - T(0x1p52);
    }
  }

  /// (upper + 1/2) / 2^32, upper < 2^31; in double with the lower word between.
  MEANDER_INLINE static real to_unit(bits upper, bits lower) {
    if constexpr (sizeof(T) == 4)
      return (number(upper) + T(0.5)) * T(0x1p-32);
    else
      return fma(number(upper), splat(T(0x1p-32)), (number(lower) + T(0.5)) * T(0x1p-64));
  }

  /// (turn / 2^30 - 1/2) pi/2, turn < 2^30; in double with the lower word behind.
  MEANDER_INLINE static real turn_to_angle(bits turn, bits lower) {
    constexpr double half_pi = 1.5707963267948966;
    if constexpr (sizeof(T) == 4)
      return __builtin_convertvector((ivec<T>)turn - (1 << 29), real) * T(half_pi * 0x1p-30);
    else
      return fma(number(lower), splat(T(0x1p-32)), number(turn) - T(1 << 29)) *
             T(half_pi * 0x1p-30);
  }

  /// log(distance) or, where `from_one`, log(1 - distance).
  template <class Mask>
  MEANDER_INLINE static real log_of(real distance, Mask from_one) {
    real const rounded = T(1) - distance;
    real const rest    = (T(1) - rounded) - distance;
    return log_corrected<T>(from_one ? rounded : distance, from_one ? rest : real{});
  }
};

/// The words that are the same for all coordinates of `width<T>` rows.
template <class T>
class RowCounters {
 public:
  static constexpr int parts = 8 / sizeof(T);  ///< a vector of float takes two of word lanes

  MEANDER_INLINE explicit RowCounters(std::uint64_t first_row) {
    for (int p = 0; p < parts; ++p)
      for (int i = 0; i < width<double>; ++i)
        row_[p][i] = first_row + std::uint64_t(i) * parts + std::uint64_t(p);
  }

  /// The four words of one block of each row.
  MEANDER_INLINE void words(std::uint64_t seed, std::uint32_t block, PhiloxStream stream,
                            typename VectorOps<T>::bits (&out)[4]) const {
    constexpr std::uint64_t lower_half = 0xffffffff;
    word_lanes c[parts][4];
    for (int p = 0; p < parts; ++p) {
      c[p][0] = row_[p];
      c[p][1] = row_[p] >> 32;
      c[p][2] = word_lanes{} + std::uint64_t{block};
      c[p][3] = word_lanes{} + std::uint64_t{stream};
      philox(
          c[p], seed, [](std::uint32_t constant, word_lanes lanes) __attribute__((always_inline)) {
            return multiply_words(constant, lanes);
          });
    }
    for (int k = 0; k < 4; ++k) {
      // Rows of even and odd numbers were taken apart: together they are in order again.
      if constexpr (parts == 2)
        out[k] = (typename VectorOps<T>::bits)((c[0][k] & lower_half) | (c[1][k] << 32));
      else
        out[k] = c[0][k] & lower_half;
    }
  }

 private:
  word_lanes row_[parts];
};

/// Coordinates 4 block to 4 block + 3 of `width<T>` rows.
template <class T>
MEANDER_INLINE void draw_block(RowCounters<T> const& rows, std::uint64_t seed, std::uint32_t block,
                               vec<T> (&normals)[normals_per_block]) {
  using Bits = UniformBits<typename VectorOps<T>::bits>;
  typename VectorOps<T>::bits words[4], lower[4] = {};
  rows.words(seed, block, normal_words, words);
  if constexpr (sizeof(T) == 8) rows.words(seed, block, normal_lower_word, lower);
  for (int k = 0; k < 4; k += 2)
    BoxMuller<VectorOps<T>>::pair(Bits{words[k], lower[k]}, Bits{words[k + 1], lower[k + 1]},
                                  normals[k], normals[k + 1]);
}

/// A sum of squares of the coordinates of a row, in the order in which it is always taken: four
/// partial sums, of the coordinates that are equal modulo 4.
template <class T>
struct SumOfSquares {
  vec<T> part[normals_per_block] = {};

  MEANDER_INLINE void add(int d, vec<T> x) {
    part[d % normals_per_block] = fma(x, x, part[d % normals_per_block]);
  }
  MEANDER_INLINE vec<T> total() const { return (part[0] + part[1]) + (part[2] + part[3]); }
};

/// Fills a tile with standard normals. \return the sum of squares of each row in `squares`
template <int Vectors, class T>
void draw_tile(std::uint64_t seed, std::uint64_t first_row, int dim, T* tile,
               vec<T> (&squares)[Vectors]) {
  constexpr int n    = width<T>;
  constexpr int rows = tile_rows<T, Vectors>;
  for (int r = 0; r < Vectors; ++r) {
    RowCounters<T> const counters(first_row + std::uint64_t(r) * n);
    SumOfSquares<T> sum;
    for (int d = 0; d < dim; d += normals_per_block) {
      vec<T> normals[normals_per_block];
      draw_block<T>(counters, seed, std::uint32_t(d / normals_per_block), normals);
      if (d + normals_per_block <= dim) {
#pragma GCC unroll 4
        for (int k = 0; k < normals_per_block; ++k) {
          sum.add(k, normals[k]);
          store<T>(tile + (d + k) * rows + r * n, normals[k]);
        }
      } else {
        for (int k = 0; k < dim - d; ++k) {
          sum.add(k, normals[k]);
          store<T>(tile + (d + k) * rows + r * n, normals[k]);
        }
      }
    }
    squares[r] = sum.total();
  }
}

}  // namespace meander::impl::host
