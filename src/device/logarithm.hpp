// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <Kokkos_Core.hpp>

namespace meander::impl::device {

/// log|product|, where `excess` = product - 1 is known without cancellation if `near_one`.
KOKKOS_INLINE_FUNCTION double log_of_product(double product, double excess, bool near_one) {
  return near_one ? Kokkos::log1p(excess) : Kokkos::log(Kokkos::abs(product));
}

/// The same in a quarter of the instructions of the two library functions, to 1 ulp.
/// product = 2^k m with m in [2/3, 4/3); log m = f + f^2 q(f) with f = m - 1. Near one f comes from
/// the excess: 2^-k (1 + excess) - 1.
KOKKOS_INLINE_FUNCTION float log_of_product(float product, float excess, bool near_one) {
  constexpr float smallest_normal = 1.17549435e-38f;
  float x                         = Kokkos::abs(product);
  bool const subnormal            = x < smallest_normal;
  if (subnormal) x *= 4294967296.0f;
  auto const bits     = Kokkos::bit_cast<std::int32_t>(x);
  auto const exponent = (bits - 0x3f2aaaab) & std::int32_t(0xff800000);
  auto const scale    = Kokkos::bit_cast<float>(0x3f800000 - exponent);
  auto const m        = Kokkos::bit_cast<float>(bits - exponent);
  float const f       = near_one ? Kokkos::fma(scale, excess, scale - 1) : m - 1;
  // Least squares of the relative error over |f| <= 1/3: 5e-9.
  float q = -0.12627705931663513f;
  q       = Kokkos::fma(q, f, 0.14005276560783386f);
  q       = Kokkos::fma(q, f, -0.12245946377515793f);
  q       = Kokkos::fma(q, f, 0.14000912010669708f);
  q       = Kokkos::fma(q, f, -0.16675931215286255f);
  q       = Kokkos::fma(q, f, 0.20010778307914734f);
  q       = Kokkos::fma(q, f, -0.2499990463256836f);
  q       = Kokkos::fma(q, f, 0.3333320617675781f);
  q       = Kokkos::fma(q, f, -0.5f);

  constexpr float ln_2 = 0.693147181f;
  float const k        = static_cast<float>(exponent) * 1.1920929e-7f - (subnormal ? 32.0f : 0.0f);
  float const log      = Kokkos::fma(k, ln_2, Kokkos::fma(f * f, q, f));
  // Zero, infinity, NaN.
  if (!(x > 0 && x < Kokkos::Experimental::infinity_v<float>))
    return x == 0 ? -Kokkos::Experimental::infinity_v<float> : x;
  return log;
}

}  // namespace meander::impl::device
