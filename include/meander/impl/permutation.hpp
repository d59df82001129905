// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <meander/impl/function.hpp>
#include <meander/impl/philox.hpp>

namespace meander::impl {

/// A random permutation of 0 ... size - 1 that is computed, not stored: a Feistel network on the
/// smallest square power of two that holds them, walked until it comes back among them (Black &
/// Rogaway 2002, "Ciphers with arbitrary finite domains": cycle walking). A round is as random as
/// the mixing of its 32-bit key with half the bits; eight of them leave no pattern that training
/// could see.
struct Permutation {
  static constexpr int rounds = 8;

  std::uint64_t size         = 1;
  std::uint32_t half_bits    = 0;
  std::uint32_t keys[rounds] = {};

  /// The finalizer of MurmurHash3 (Appleby, public domain), with a key.
  MEANDER_FUNCTION static std::uint32_t mix(std::uint32_t x, std::uint32_t key) {
    x ^= key;
    x ^= x >> 16;
    x *= 0x85EBCA6BU;
    x ^= x >> 13;
    x *= 0xC2B2AE35U;
    return x ^ (x >> 16);
  }

  /// \param[in] i below `size`
  MEANDER_FUNCTION std::uint64_t operator()(std::uint64_t i) const {
    std::uint64_t const mask = (std::uint64_t{1} << half_bits) - 1;
    do {
      std::uint64_t left = i >> half_bits, right = i & mask;
      for (std::uint32_t const key : keys) {
        std::uint64_t const next = left ^ (mix(static_cast<std::uint32_t>(right), key) & mask);
        left                     = right;
        right                    = next;
      }
      i = (left << half_bits) | right;
    } while (i >= size);
    return i;
  }
};

/// The permutation of a seed and an epoch.
/// \param[in] size 1 to 2^62
inline Permutation permutation(std::uint64_t seed, std::uint64_t epoch, std::uint64_t size) {
  Permutation result;
  result.size = size;
  while ((std::uint64_t{1} << (2 * result.half_bits)) < size) ++result.half_bits;
  for (std::uint32_t block = 0; block < Permutation::rounds / 4; ++block) {
    Words const words = philox_words(seed, epoch, block, permutation_keys);
    for (int i = 0; i < 4; ++i) result.keys[4 * block + i] = words.v[i];
  }
  return result;
}

}  // namespace meander::impl
