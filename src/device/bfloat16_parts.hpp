// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <Kokkos_Core.hpp>

#include "lanes.hpp"

/// Matrix products to the accuracy of float on tensor cores.
///
/// A float is, to within 2^-27 of its size, the sum of three bfloat16 numbers (8 bits of mantissa
/// each, all rounded to nearest). Of the nine products of two such sums six are kept; the other
/// three lie below 2^-26 of the whole. Products of bfloat16 numbers are exact in float, so that
/// what remains is the rounding of sums.
namespace meander::impl::device {

/// Two floats, each as three bfloat16 numbers: x in the lower halves of the words.
struct PairParts {
  std::uint32_t high, middle, low;
};

/// Packs two floats to bfloat16, rounded to nearest.
KOKKOS_INLINE_FUNCTION std::uint32_t to_bfloat16(float x, float y) {
#if defined(__CUDA_ARCH__)
  std::uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(y), "f"(x));
  return both;
#else
  auto const rounded = [](float v) {
    std::uint32_t const bits = Kokkos::bit_cast<std::uint32_t>(v);
    if (v != v) return (bits | 0x400000u) >> 16;
    return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  };
  return rounded(x) | rounded(y) << 16;
#endif
}

KOKKOS_INLINE_FUNCTION PairParts split(float x, float y) {
  auto const lower = [](std::uint32_t both) { return Kokkos::bit_cast<float>(both << 16); };
  auto const upper = [](std::uint32_t both) { return Kokkos::bit_cast<float>(both & 0xffff0000u); };
  PairParts parts;
  parts.high = to_bfloat16(x, y);
  x -= lower(parts.high);
  y -= upper(parts.high);
  parts.middle = to_bfloat16(x, y);
  x -= lower(parts.middle);
  y -= upper(parts.middle);
  parts.low = to_bfloat16(x, y);
  return parts;
}

/// A 16 x 16 piece of a left factor as the 32 threads of a warp hold it: thread (g, t) = (lane / 4,
/// lane % 4) has rows g and g + 8, of each four neighbouring columns. (The order in which a product
/// runs over its inner index is free; this one makes a thread's numbers neighbours.)
struct LeftPiece {
  std::uint32_t high[4], middle[4], low[4];

  /// The numbers of row g + 8 * half.
  KOKKOS_INLINE_FUNCTION void set(int half, float const (&v)[4]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      PairParts const parts = split(v[2 * i], v[2 * i + 1]);
      high[2 * i + half]    = parts.high;
      middle[2 * i + half]  = parts.middle;
      low[2 * i + half]     = parts.low;
    }
  }
};

/// Two neighbouring 16 x 8 pieces of a right factor: thread (g, t) has column g of each, rows 4t
/// onwards.
struct RightPair {
  static constexpr int pieces = 2;
  static constexpr int each   = 2;  ///< words of a piece and part
  static constexpr int words  = pieces * each;
  /// 32-bit words that the pieces take in memory, for the whole warp: high parts first.
  static constexpr int stored = 3 * words * 32;
  std::uint32_t high[words], middle[words], low[words];

  /// \param from what the warp's pieces start with, plus lane * words
  KOKKOS_INLINE_FUNCTION void load(std::uint32_t const* from) {
    load_part(high, from);
    load_part(middle, from + 32 * words);
    load_part(low, from + 64 * words);
  }

  /// The numbers of piece n to memory.
  KOKKOS_INLINE_FUNCTION static void store(std::uint32_t* to, int n, float const (&v)[4]) {
    for (int i = 0; i < each; ++i) {
      PairParts const parts         = split(v[2 * i], v[2 * i + 1]);
      to[n * each + i]              = parts.high;
      to[n * each + i + 32 * words] = parts.middle;
      to[n * each + i + 64 * words] = parts.low;
    }
  }

 private:
  KOKKOS_INLINE_FUNCTION static void load_part(std::uint32_t (&part)[words],
                                               std::uint32_t const* from) {
    auto const p = load_pack<words>(from);
#pragma unroll
    for (int i = 0; i < words; ++i) part[i] = p.v[i];
  }
};

/// sum += left right for one 16 x 8 piece of the sum, of which thread (g, t) has the columns 2t and
/// 2t + 1 of row g in sum[0], sum[1] and of row g + 8 in sum[2], sum[3].
KOKKOS_INLINE_FUNCTION void multiply_add([[maybe_unused]] float (&sum)[4],
                                         [[maybe_unused]] std::uint32_t const (&left)[4],
                                         [[maybe_unused]] std::uint32_t const* right) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
#endif
}

/// For every pair s of right factors, piece n of it and tile: the six products of left(s)[tile] and
/// the piece, summed, handed to add(s, n, tile, sum).
///
/// They are summed apart, small ones first: the tensor cores truncate, so a long sum in them would
/// drift. A product waits for the one before it in its sum, so all the sums advance together.
template <int Tiles, int Sets, class LeftOf, class Add>
KOKKOS_INLINE_FUNCTION void multiply(LeftOf const& left, RightPair const (&right)[Sets],
                                     Add const& add) {
  constexpr int pieces = RightPair::pieces;

  float sum[Sets][pieces][Tiles][4] = {};
  auto const product                = [&](auto of_left, auto of_right) {
#pragma unroll
    for (int s = 0; s < Sets; ++s)
#pragma unroll
      for (int n = 0; n < pieces; ++n)
#pragma unroll
        for (int tile = 0; tile < Tiles; ++tile)
          multiply_add(sum[s][n][tile], left(s)[tile].*of_left,
                       right[s].*of_right + n * RightPair::each);
  };
  product(&LeftPiece::low, &RightPair::high);
  product(&LeftPiece::high, &RightPair::low);
  product(&LeftPiece::middle, &RightPair::middle);
  product(&LeftPiece::middle, &RightPair::high);
  product(&LeftPiece::high, &RightPair::middle);
  product(&LeftPiece::high, &RightPair::high);
#pragma unroll
  for (int s = 0; s < Sets; ++s)
#pragma unroll
    for (int n = 0; n < pieces; ++n)
#pragma unroll
      for (int tile = 0; tile < Tiles; ++tile) add(s, n, tile, sum[s][n][tile]);
}

}  // namespace meander::impl::device
