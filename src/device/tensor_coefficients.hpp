// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include <Kokkos_Core.hpp>

#include <meander/impl/planar_coefficients.hpp>

#include "bfloat16_parts.hpp"
#include "tensor_layout.hpp"

namespace meander::impl::device {

static_assert(TensorLayout::set == RightPair::stored);

/// Fills PlanarCoefficients::parts from the rest of the coefficients.
struct PrepareTensor {
  static constexpr int step  = TensorLayout::step;
  static constexpr int block = TensorLayout::block;

  PlanarCoefficients<float> c;
  TensorLayout layout;

  explicit PrepareTensor(PlanarCoefficients<float> const& coefficients)
      : c(coefficients), layout(c.dim, c.layers) {}

  KOKKOS_FUNCTION std::int64_t sets() const {
    return std::int64_t(layout.blocks) * (2 * layout.steps + TensorLayout::group);
  }
  KOKKOS_FUNCTION std::int64_t gram_numbers() const {
    return std::int64_t(layout.blocks) * block * block;
  }
  /// One thread's work: a share of a set of pieces, a Gram number, a layer's scalars.
  KOKKOS_FUNCTION std::int64_t shares() const {
    return sets() * 32 + gram_numbers() + std::int64_t(layout.blocks) * block;
  }

  KOKKOS_FUNCTION float matrix(float const* from, std::int32_t l, std::int32_t d) const {
    return l < c.layers && d < c.dim ? from[c.index(l, d)] : 0.0f;
  }
  KOKKOS_FUNCTION float gram(std::int32_t i, std::int32_t j) const {
    if (i >= c.layers || j >= c.layers || i == j) return 0;
    return c.gram[std::size_t(i) * c.gram_group + j % c.gram_group];
  }
  KOKKOS_FUNCTION void operator()(std::int64_t share) const {
    if (share < sets() * 32) {
      pieces(share);
      return;
    }
    share -= sets() * 32;
    if (share < gram_numbers()) {
      auto const j                                = std::int32_t(share % block);
      auto const i                                = std::int32_t(share / block % block);
      auto const of                               = std::int32_t(share / block / block);
      c.parts[layout.scalars(of) + i * block + j] = gram(of * block + i, of * block + j);
      return;
    }
    share -= gram_numbers();
    auto const l   = std::int32_t(share);
    bool const has = l < c.layers;
    float* const to =
        c.parts + layout.scalars(l / block) + block * block + std::size_t(4) * (l % block);
    // Past the last layer: h = h(0) = 0, determinant one.
    to[0] = has ? c.b[l] : 0.0f;
    to[1] = has ? c.s[l] : 1.0f;
    to[2] = has ? c.s_minus_1[l] : 0.0f;
    to[3] = has ? 1.0f : 0.0f;
  }

  KOKKOS_FUNCTION void pieces(std::int64_t share) const {
    int const lane = static_cast<int>(share % 32), g = lane / 4, t = lane % 4;
    auto const set            = std::int32_t(share / 32);
    std::int32_t const of_all = layout.blocks * layout.steps;
    if (set < of_all) {
      auto const from = set / layout.steps, k = set % layout.steps;
      write(layout.w(from, k), lane, [&](int n, int i) {
        return matrix(c.w, from * block + 8 * n + g, k * step + 4 * t + i);
      });
    } else if (set < 2 * of_all) {
      auto const from = (set - of_all) / layout.steps, k = set % layout.steps;
      write(layout.u(from, k), lane, [&](int n, int i) {
        return matrix(c.u_hat, from * block + 4 * t + i, k * step + TensorLayout::coordinate(n, g));
      });
    } else {
      constexpr int group = TensorLayout::group;
      auto const to       = (set - 2 * of_all) / group;
      auto const from     = to / group * group + (set - 2 * of_all) % group;
      write(layout.cross(to, from), lane,
            [&](int n, int i) { return gram(to * block + 8 * n + g, from * block + 4 * t + i); });
    }
  }

  template <class Number>
  KOKKOS_FUNCTION void write(std::size_t at, int lane, Number const& number) const {
    std::uint32_t* const to =
        reinterpret_cast<std::uint32_t*>(c.parts) + at + lane * RightPair::words;
    for (int n = 0; n < 2; ++n) {
      float v[4];
      for (int i = 0; i < 4; ++i) v[i] = number(n, i);
      RightPair::store(to, n, v);
    }
  }
};

}  // namespace meander::impl::device
