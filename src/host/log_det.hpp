// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "math.hpp"
#include "simd.hpp"

/// Sums of log-determinants of planar layers, for the maps and for the losses.
namespace meander::impl::host {

namespace {

/// The logarithm of a product of determinants, kept as LogDet keeps it. Out of line: it is needed
/// once for many layers, and its copies would push the layers out of the instruction cache.
template <class T>
[[gnu::noinline]] vec<T> log_of_product(vec<T> product, vec<T> product_minus_1, vec<T> wandered) {
  auto const near_one  = wandered < T(0.5);
  vec<T> const rounded = product_minus_1 + T(1);
  vec<T> const x       = near_one ? rounded : abs<T>(product);
  vec<T> const rest    = near_one ? product_minus_1 - (rounded - T(1)) : vec<T>{};
  return log_corrected<T>(x, rest);
}

/// The sum of log-determinants of one vector of rows.
///
/// Determinants are multiplied, and one logarithm is taken where PlanarCoefficients::take_log says
/// so. The product is kept in two forms, itself and minus one: the first is accurate when it has
/// wandered off, the second keeps the digits of a log-det near zero.
template <class T>
struct LogDet {
  vec<T> sum{};
  vec<T> product = splat<T>(1);
  vec<T> product_minus_1{};
  vec<T> wandered{};

  /// A layer with determinant 1 + h' (s - 1) = (1 - h') + h' s.
  MEANDER_INLINE void multiply(vec<T> quarter_slope, vec<T> one_minus_slope, T s, T s_minus_1,
                               T epsilon) {
    vec<T> det         = fma(quarter_slope, splat<T>(4 * s), one_minus_slope);
    vec<T> det_minus_1 = quarter_slope * (4 * s_minus_1);
    if (epsilon != 0) {
      det         = abs<T>(det) + epsilon;
      det_minus_1 = det_minus_1 + epsilon;
    }
    product         = product * det;
    product_minus_1 = fma(product_minus_1, det_minus_1, product_minus_1 + det_minus_1);
    wandered        = wandered + abs<T>(det_minus_1);
  }

  MEANDER_INLINE void take_logarithm() {
    sum             = sum + log_of_product<T>(product, product_minus_1, wandered);
    product         = splat<T>(1);
    product_minus_1 = vec<T>{};
    wandered        = vec<T>{};
  }
};

}  // namespace

}  // namespace meander::impl::host
