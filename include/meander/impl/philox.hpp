// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <meander/impl/function.hpp>

namespace meander::impl {

/// Philox4x32-10 of Salmon, Moraes, Dror & Shaw (2011), "Parallel random numbers: as easy as 1, 2,
/// 3": a bijection of a counter of four 32-bit words, keyed by two. Its words are random numbers
/// that need no state: whoever asks for the same counter gets the same words.
///
/// A `Lane` holds a word in its lower 32 bits, and anything above them: it is std::uint64_t, or a
/// vector of them. `Multiply` gives the 64-bit product of a constant and the lower half of a lane.
template <class Lane, class Multiply>
MEANDER_FUNCTION inline void philox(Lane (&counter)[4], std::uint64_t key,
                                    Multiply const& multiply) {
  constexpr std::uint32_t multiplier0 = 0xD2511F53, multiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t weyl0 = 0x9E3779B9, weyl1 = 0xBB67AE85;
  constexpr int rounds = 10;
  auto key0            = static_cast<std::uint32_t>(key);
  auto key1            = static_cast<std::uint32_t>(key >> 32);
#if defined(__CUDACC__)
#pragma unroll
#else
#pragma GCC unroll 10
#endif
  for (int round = 0; round < rounds; ++round) {
    Lane const product0 = multiply(multiplier0, counter[0]);
    Lane const product1 = multiply(multiplier1, counter[2]);
    counter[0]          = (product1 >> 32) ^ counter[1] ^ std::uint64_t{key0};
    counter[1]          = product1;
    counter[2]          = (product0 >> 32) ^ counter[3] ^ std::uint64_t{key1};
    counter[3]          = product0;
    key0 += weyl0;
    key1 += weyl1;
  }
}

struct Words {
  std::uint32_t v[4];
};

/// The four words of one counter.
MEANDER_FUNCTION inline Words philox(Words const& counter, std::uint64_t key) {
  std::uint64_t c[4] = {counter.v[0], counter.v[1], counter.v[2], counter.v[3]};
  philox(c, key, [](std::uint32_t constant, std::uint64_t lane) {
    return std::uint64_t{constant} * static_cast<std::uint32_t>(lane);
  });
  return {{static_cast<std::uint32_t>(c[0]), static_cast<std::uint32_t>(c[1]),
           static_cast<std::uint32_t>(c[2]), static_cast<std::uint32_t>(c[3])}};
}

/// How Meander uses the counter, for good: (row, lower half; row, upper half; block of four
/// coordinates; stream). The key is the seed. Coordinates 4k to 4k + 3 of a row are made from block
/// k: its words 0 and 1 give the first two, 2 and 3 the others.
enum PhiloxStream : std::uint32_t {
  normal_words      = 0,  ///< the words of standard normals
  normal_lower_word = 1,  ///< 32 more bits below each of them, for normals in double
  permutation_keys  = 2,  ///< the row is an epoch of training; keys of its permutation
  initial_words     = 3   ///< the row is a layer of an initial model, the block counts its numbers
};

inline constexpr int normals_per_block = 4;

MEANDER_FUNCTION inline Words philox_words(std::uint64_t seed, std::uint64_t row,
                                           std::uint32_t block, PhiloxStream stream) {
  return philox(Words{{static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(row >> 32),
                       block, stream}},
                seed);
}

}  // namespace meander::impl
