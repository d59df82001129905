// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include <meander/activation.hpp>

#include "simd.hpp"

/// The special functions of a planar layer on vectors of rows, without branches. Polynomials are
/// minimax fits (Remez exchange) made for this file; the largest relative error of each is beside
/// it.
namespace meander::impl::host {

/// c[0] + c[1] x + ... as even(x^2) + x odd(x^2): half the latency of Horner's rule at its cost.
template <class T, int N>
MEANDER_INLINE vec<T> polynomial(vec<T> x, vec<T> x_squared, T const (&c)[N]) {
  constexpr int top = N - 1;
  vec<T> p          = splat<T>(c[top]);
  vec<T> q          = splat<T>(c[top - 1]);
#pragma GCC unroll 16
  for (int i = top - 2; i >= 0; i -= 2) p = fma(p, x_squared, splat<T>(c[i]));
#pragma GCC unroll 16
  for (int i = top - 3; i >= 0; i -= 2) q = fma(q, x_squared, splat<T>(c[i]));
  return top % 2 == 0 ? fma(x, q, p) : fma(x, p, q);
}

template <class T>
struct Exp;

template <>
struct Exp<float> {
  /// (expm1(2r) - 2r) / r^2 on |r| <= ln(2) / 4; error of expm1 below 2^-31.7
  static constexpr float expm1[] = {4 * 0.5f,
                                    8 * 0.16666666905f,
                                    16 * 0.041666324340f,
                                    32 * 0.0083332191171f,
                                    64 * 0.0013943420387f,
                                    128 * 0.00019962643006f};
  static constexpr float log2_e  = 1.44269504f;
  static constexpr float ln2_hi  = 0.693359375f;  // few bits: n * ln2_hi is exact
  static constexpr float ln2_lo  = -2.12194440e-4f;
  /// Adding this rounds to an integer and leaves it in the low bits of the sum.
  static constexpr float round       = 12582912.0f;  // 1.5 * 2^23
  static constexpr int mantissa_bits = 23;
  static constexpr std::int32_t bias = 127;
  /// exp(-this) is zero.
  static constexpr float vanishes             = 105.0f;
  static constexpr float tiny                 = 0x1p-64f;
  static constexpr std::int32_t tiny_exponent = 64;
};

template <>
struct Exp<double> {
  /// error of expm1 below 2^-58.3
  static constexpr double expm1[] = {
      4 * 0.5000000000000001,        8 * 0.1666666666666667,       16 * 0.04166666666665207,
      32 * 0.008333333333326044,     64 * 0.001388888889567396,    128 * 0.0001984126987514872,
      256 * 2.4801574440818008e-05,  512 * 2.7557254975792246e-06, 1024 * 2.7567967475437027e-07,
      2048 * 2.5105396231072225e-08, 4096 * 1.768782520111683e-09};
  static constexpr double log2_e              = 1.4426950408889634;
  static constexpr double ln2_hi              = 6.93147180369123816490e-01;
  static constexpr double ln2_lo              = 1.90821492927058770002e-10;
  static constexpr double round               = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr int mantissa_bits          = 52;
  static constexpr std::int64_t bias          = 1023;
  static constexpr double vanishes            = 746.0;
  static constexpr double tiny                = 0x1p-512;
  static constexpr std::int64_t tiny_exponent = 512;
};

template <class T>
struct ExpPair {
  vec<T> exp, expm1;
};

/// exp(2x) and expm1(2x) for x <= 0, both to relative accuracy; NaN gives NaN.
template <class T>
MEANDER_INLINE ExpPair<T> exp_of_twice(vec<T> x) {
  using E              = Exp<T>;
  x                    = x < -E::vanishes / 2 ? splat<T>(-E::vanishes / 2) : x;  // a NaN stays
  vec<T> const shifted = fma(x, splat<T>(2 * E::log2_e), splat<T>(E::round));
  vec<T> const n       = shifted - E::round;
  vec<T> const r =
      fma(n, splat<T>(-E::ln2_lo / 2), fma(n, splat<T>(-E::ln2_hi / 2), x));  // 2r = 2x - n ln(2)
  vec<T> const square = r * r;
  vec<T> const p      = fma(square, polynomial<T>(r, square, E::expm1), r + r);
  // 2^n by its exponent field; n may be below the normal range, so by way of 2^(n + k) * 2^-k.
  ivec<T> const bits = (ivec<T>)shifted + (E::bias + E::tiny_exponent);
  vec<T> const power = (vec<T>)(bits << E::mantissa_bits) * E::tiny;
  return {fma(power, p, power), fma(power, p, power - T(1))};
}

/// What a layer needs of its activation at a: h(a) and h'(a) / 4; and 1 - h'(a), which follows from
/// them without cancellation. A quarter, since that is what comes out; the caller's scalars make up
/// for it.
template <class T>
struct ActivationValues {
  vec<T> h, quarter_slope;
};

/// With e = exp(-2|a|): |tanh| = (1 - e)/(1 + e), sech^2 / 4 = e/(1 + e)^2. Within 3 and 4.5 ulp.
template <class T>
MEANDER_INLINE ActivationValues<T> tanh_values(vec<T> a) {
  vec<T> const minus_magnitude = -abs<T>(a);
  ivec<T> const other_sign     = (ivec<T>)a ^ (ivec<T>)minus_magnitude;  // of -a
  ExpPair<T> const e           = exp_of_twice<T>(minus_magnitude);
  vec<T> const r               = T(1) / (e.exp + T(1));
  return {(vec<T>)((ivec<T>)(e.expm1 * r) ^ other_sign), e.exp * (r * r)};
}

/// The slope of a NaN or an infinity is NaN: the log-det must not hide what the row has become.
template <class T>
MEANDER_INLINE ActivationValues<T> leaky_relu_values(vec<T> a, T negative_slope) {
  auto const negative = a < T(0);
  return {negative ? a * negative_slope : a,
          (negative ? splat<T>(negative_slope / 4) : splat<T>(T(0.25))) + (a - a)};
}

template <class T, Activation activation>
MEANDER_INLINE vec<T> one_minus_slope(ActivationValues<T> const& v) {
  return activation == Activation::tanh ? v.h * v.h : T(1) - T(4) * v.quarter_slope;
}

/// A vector of rows as TanhRoot sees it.
template <class T>
struct VectorMath {
  using Value                   = vec<T>;
  using Scalar                  = T;
  static constexpr T slope_unit = 4;

  MEANDER_INLINE static vec<T> splat(T x) { return host::splat<T>(x); }
  MEANDER_INLINE static vec<T> abs(vec<T> x) { return host::abs<T>(x); }
  MEANDER_INLINE static vec<T> fma(vec<T> a, vec<T> b, vec<T> c) { return host::fma(a, b, c); }
  MEANDER_INLINE static T log(T x) { return std::log(x); }
  MEANDER_INLINE static T reciprocal(T x) { return T(1) / x; }
  MEANDER_INLINE static vec<T> reciprocal(vec<T> x) { return T(1) / x; }
  MEANDER_INLINE static vec<T> divide(vec<T> x, vec<T> y) { return x / y; }
  MEANDER_INLINE static vec<T> reciprocal_root(vec<T> x) { return T(1) / sqrt(x); }
  MEANDER_INLINE static vec<T> from_bits(vec<T> x) {
    return __builtin_convertvector((ivec<T>)x, vec<T>);
  }
  MEANDER_INLINE static vec<T> to_bits(vec<T> x) {
    return (vec<T>)__builtin_convertvector(x, ivec<T>);
  }
  MEANDER_INLINE static bool any(ivec<T> lanes) { return host::any<T>(lanes); }

  /// x >= 0 with the sign of another number.
  MEANDER_INLINE static vec<T> with_sign(vec<T> x, vec<T> sign) {
    return (vec<T>)((ivec<T>)x ^ ((ivec<T>)sign ^ (ivec<T>)host::abs<T>(sign)));
  }

  MEANDER_INLINE static void tanh(vec<T> x, vec<T>& h, vec<T>& quarter_slope) {
    ActivationValues<T> const v = tanh_values<T>(x);
    h                           = v.h;
    quarter_slope               = v.quarter_slope;
  }

  template <int N>
  MEANDER_INLINE static vec<T> polynomial(vec<T> x, T const (&c)[N]) {
    return host::polynomial<T>(x, x * x, c);
  }
};

template <class T>
struct Log;

template <>
struct Log<float> {
  /// (2 atanh(s) - 2s) / s^3 in s^2, s = f / (2 + f), |log(1 + f)| <= ln(2) / 2; error below 2^-36
  static constexpr float atanh[] = {0.66666665603f, 0.40000345571f, 0.28536602987f, 0.23596331394f};
  static constexpr float ln2_hi  = 0.693359375f;
  static constexpr float ln2_lo  = -2.12194440e-4f;
  static constexpr std::int32_t sqrt_half = 0x3f3504f3;
  static constexpr float subnormal_scale  = 0x1p32f;
  static constexpr float subnormal_bits   = 32;
};

template <>
struct Log<double> {
  /// error below 2^-58.3
  static constexpr double atanh[] = {0.666666666666674,   0.3999999999937796,  0.2857142875130587,
                                     0.22222197587133757, 0.18183618996019213, 0.15312569739579987,
                                     0.14811541137205778};
  static constexpr double ln2_hi  = 6.93147180369123816490e-01;
  static constexpr double ln2_lo  = 1.90821492927058770002e-10;
  static constexpr std::int64_t sqrt_half = 0x3fe6a09e667f3bcd;
  static constexpr double subnormal_scale = 0x1p64;
  static constexpr double subnormal_bits  = 64;
};

/// log(x + correction) for x >= 0 and, where it is not zero, a correction of x's rounding error
/// near one: with x = 1 + q rounded this is log1p(q). Zero gives -inf, infinity itself, NaN itself.
template <class T>
MEANDER_INLINE vec<T> log_corrected(vec<T> x, vec<T> correction) {
  using E              = Exp<T>;
  using L              = Log<T>;
  auto const subnormal = x < std::numeric_limits<T>::min();
  vec<T> const scaled  = subnormal ? x * L::subnormal_scale : x;
  // Exponent and mantissa, the mantissa in [sqrt(1/2), sqrt(2)).
  ivec<T> const shifted    = (ivec<T>)scaled - L::sqrt_half;
  ivec<T> const exponent   = shifted >> E::mantissa_bits;
  auto const m             = (vec<T>)((ivec<T>)scaled - (exponent << E::mantissa_bits));
  vec<T> e                 = __builtin_convertvector(exponent, vec<T>);
  e                        = subnormal ? e - L::subnormal_bits : e;
  vec<T> const f           = m - T(1);
  vec<T> const s           = f / (f + T(2));
  vec<T> const z           = s * s;
  vec<T> const half_square = f * f * T(0.5);
  vec<T> const tail        = s * fma(z, polynomial<T>(z, z * z, L::atanh), half_square);
  // d log(x) = correction / x; near one 2 - x is as good a reciprocal as so small a term needs.
  vec<T> const small   = fma(e, splat<T>(L::ln2_lo), correction * (T(2) - x));
  vec<T> const value   = fma(e, splat<T>(L::ln2_hi), f - (half_square - (tail + small)));
  constexpr T infinity = std::numeric_limits<T>::infinity();
  vec<T> const special = x == T(0) ? splat<T>(-infinity) : x;
  return ((x > T(0)) & (x < infinity)) ? value : special;
}

}  // namespace meander::impl::host
