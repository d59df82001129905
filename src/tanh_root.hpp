// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <limits>

#include <meander/impl/function.hpp>

#if defined(__CUDACC__) || defined(__HIPCC__)
#define MEANDER_ALWAYS_INLINE inline __attribute__((always_inline)) MEANDER_FUNCTION
#else
#define MEANDER_ALWAYS_INLINE inline __attribute__((always_inline))
#endif

/// The equation that inverts a tanh planar layer (design fact 3):
///
///   beta + m tanh(beta) = a,   m = s - 1 > -1,
///
/// for vectors of rows on the host and for one row on a device: the same text, over a `Math` that
/// knows the numbers (`Value`, a vector or a scalar of `Scalar`) and their tanh.
///
/// The left side is odd and rises everywhere, so for a >= 0 there is one root, between a and a - m.
/// Each step is Householder's of fourth order, whose derivatives come with tanh and sech^2; a start
/// that fits the layer leaves an error below 0.35, a step about a tenth of the error's fourth
/// power. Two evaluations of tanh are what nearly every row needs, in float and in double; the last
/// step is carried over to tanh by its addition theorem. Should a step leave the bracket, it is
/// halved instead.
namespace meander::impl {

template <class T>
struct RootConstants;

template <>
struct RootConstants<float> {
  static constexpr float min_normal = std::numeric_limits<float>::min();
  /// A Newton step this small, relative to min(beta, 1), is the last: what is left after it is
  /// below the rounding of the type.
  static constexpr float last_step = 0.015f;
  /// From here on the slope is zero to the type.
  static constexpr float saturated = 60;
  /// (x coth(x) - 1) / x^2 in v = x^2 on [0, 1.02]; minimax, error 2^-26
  template <class Math>
  MEANDER_ALWAYS_INLINE static typename Math::Value coth(typename Math::Value v) {
    constexpr float c[] = {0.33333333f, -0.0222220435f, 0.00211498488f, -0.000207655906f,
                           1.66708405e-05f};
    return Math::polynomial(v, c);
  }
  using Bits                       = std::int32_t;
  static constexpr float bits      = 0x1p23f;          ///< per factor of two in the number
  static constexpr float bits_of_1 = 126.957f * bits;  ///< of one, less the mean of the mantissa's
};

template <>
struct RootConstants<double> {
  static constexpr double min_normal = std::numeric_limits<double>::min();
  static constexpr double last_step  = 1.5e-4;
  static constexpr double saturated  = 400;
  /// (x coth(x) - 1) / x^2 in v = x^2 on [0, 1.02]; minimax, error 2^-53
  template <class Math>
  MEANDER_ALWAYS_INLINE static typename Math::Value coth(typename Math::Value v) {
    constexpr double c[] = {0.3333333333333333,     -0.022222222222215815,
                            0.0021164021161942997,  -0.00021164020901940793,
                            2.1377782323015704e-05, -2.164341937858975e-06,
                            2.1911805167009694e-07, -2.2013960531355115e-08,
                            2.0751891321775507e-09, -1.3862647305519873e-10};
    return Math::polynomial(v, c);
  }
  using Bits                        = std::int64_t;
  static constexpr double bits      = 0x1p52;
  static constexpr double bits_of_1 = 1022.957 * bits;
};

/// tanh and its slope at the root. The slope is in units of Math::slope_unit.
template <class V>
struct TanhAtRoot {
  V h, slope;
};

template <class Math>
class TanhRoot {
 public:
  using V = typename Math::Value;
  using T = typename Math::Scalar;
  using K = RootConstants<T>;

  /// Enough for every number that the type has; the tests look for one that needs more than half.
  static constexpr int max_steps = 16;

  /// s and s - 1 of the layer, both to relative accuracy: where s is small, s - 1 is -1 to the
  /// type.
  MEANDER_ALWAYS_INLINE TanhRoot(T s, T m) : s_(s), m_(m) {}

  /// tanh at the root for any a; NaN for one that is not finite. `steps`, where given, counts.
  MEANDER_ALWAYS_INLINE TanhAtRoot<V> operator()(V signed_a, int* steps = nullptr) const {
    V const a = Math::abs(signed_a);
    V beta    = start(a);
    V low     = V{};
    V high    = (m_ < T(0) ? a - m_ : a) * T(1.001);
    V t, slope, delta;
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
    for (int i = 0;; ++i) {
      Math::tanh(beta, t, slope);
      V const excess = residual(a, beta, t, slope);
      V const det    = larger(Math::fma(slope, splat(s_ * unit), t * t), splat(K::min_normal));
      V const r      = Math::reciprocal(det);
      // Householder: with f = excess, u = f/f', A = f''/2f', B = f'''/6f' the step is
      // -u (1 - A u) / (1 - 2 A u + B u^2); here A = -k t, B = k (t^2 - 1/3), k = m sech^2 / det.
      V const u           = excess * r;
      V const ku          = u * (slope * (m_ * unit) * r);
      V const shift       = ku * t;
      V const denominator = Math::fma(ku, Math::fma(u, t * t - T(1.0 / 3), t + t), splat(1));
      delta               = -Math::divide(Math::fma(u, shift, u), denominator);
      auto const going =
          (Math::abs(u) > K::last_step * smaller(beta, splat(1))) & (beta < K::saturated);
      if (steps != nullptr) *steps = i + 1;
      // A row that has come to its end stays as it is, so that no other row matters to it.
      if (i == max_steps - 1 || !Math::any(going)) break;
      auto const below = excess < T(0);
      low              = below ? beta : low;
      high             = below ? high : beta;
      V const next     = beta + delta;
      V const inside   = ((next >= low) & (next <= high)) ? next : (low + high) * T(0.5);
      beta             = going ? inside : beta;
    }
    // Beyond `saturated` the rounding of beta can look like a step.
    delta = Math::abs(delta) > 2 * K::last_step ? V{} : delta;
    return moved(t, slope, delta, signed_a);
  }

 private:
  static constexpr T unit = Math::slope_unit;

  /// Layers near the singular one, where the equation is nearly cubic; and steep ones, where tanh
  /// saturates before beta counts.
  MEANDER_ALWAYS_INLINE bool near_singular() const { return m_ < T(-0.5); }
  MEANDER_ALWAYS_INLINE bool steep() const { return m_ > T(2); }

  MEANDER_ALWAYS_INLINE static V smaller(V a, V b) { return a < b ? a : b; }
  MEANDER_ALWAYS_INLINE static V larger(V a, V b) { return a > b ? a : b; }
  MEANDER_ALWAYS_INLINE static V splat(T x) { return Math::splat(x); }

  MEANDER_ALWAYS_INLINE V start(V a) const {
    V const far = a - m_;  // the root once tanh has saturated
    if (near_singular()) {
      // s beta + |m| (beta - tanh(beta)) = a: the linear and the cubic part by themselves, and the
      // two together as 1/sqrt(1/x^2 + 1/y^2).
      V const cube  = a * (T(-3) * Math::reciprocal(m_));
      V const cubic = smaller(rough_cube_root(cube) + T(0.2) * cube, far);
      V const ratio = Math::divide(cubic * s_, larger(a, splat(K::min_normal)));
      return larger(a, cubic * Math::reciprocal_root(Math::fma(ratio, ratio, splat(1))));
    }
    V const near = a * Math::reciprocal(s_);
    if (!steep()) return m_ > T(0) ? larger(near, far) : smaller(near, far);
    // x = beta - far solves x (1 + e) = 2 m e with e = exp(-2 beta); x exp(2x) = exp(2 y) is close.
    constexpr T half_ln2 = T(0.34657359027997265);
    T const half_log_2m  = Math::log(m_) * T(0.5) + half_ln2;
    V const y            = half_log_2m - far;
    V const flat         = half_log_2m - half_ln2 * rough_log2(larger(y, splat(1)));
    V const saturated    = far + larger(T(0.5) + T(0.5) * y, V{});
    V const cubic        = Math::fma(near * near * T(1.0 / 3), near, near);
    return near < T(0.75) ? cubic : (y > T(1) ? flat : saturated);
  }

  /// beta + m tanh(beta) - a without the cancellation that can be avoided.
  MEANDER_ALWAYS_INLINE V residual(V a, V beta, V t, V slope) const {
    if (near_singular()) {
      V const square = beta * beta;
      V const gap    = beta < T(1) ? t * (square * K::template coth<Math>(square)) : beta - t;
      return Math::fma(t, splat(s_), gap - a);
    }
    V const whole = Math::fma(t, splat(m_), beta - a);
    if (!steep()) return whole;
    // 1 - t = sech^2 / (1 + t)
    V const rest = Math::divide(slope * (m_ * unit), t + T(1));
    return t < T(0.6) ? whole : (beta - (a - m_)) - rest;
  }

  /// tanh(x + y) = (t + tanh y) / (1 + t tanh y), where |y| <= last_step min(x, 1).
  MEANDER_ALWAYS_INLINE static TanhAtRoot<V> moved(V t, V slope, V y, V sign) {
    V const tau   = Math::fma(y * y * T(-1.0 / 3), y, y);
    V const x     = t * tau;
    V r           = T(1) - x;
    r             = Math::fma(-x, r, splat(1));
    r             = Math::fma(-x, r, splat(1));
    r             = Math::fma(-x, r, splat(1));
    V const ratio = (T(1) - tau * tau) * (r * r);
    return {Math::with_sign((t + tau) * r, sign), slope * ratio};
  }

  /// The bits of a number taken as an integer are its logarithm, to 0.06.
  MEANDER_ALWAYS_INLINE static V rough_log2(V x) {
    return (Math::from_bits(x) - K::bits_of_1) * (1 / K::bits);
  }

  /// To 4 in a hundred.
  MEANDER_ALWAYS_INLINE static V rough_cube_root(V x) {
    V const root = Math::to_bits(Math::from_bits(x) * T(1.0 / 3) + K::bits_of_1 * T(2.0 / 3));
    return x > T(0) ? root : V{};
  }

  T s_, m_;
};

}  // namespace meander::impl
