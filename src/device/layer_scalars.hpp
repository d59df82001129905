// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <Kokkos_Core.hpp>

#include <meander/activation.hpp>
#include <meander/impl/map_direction.hpp>

#include "logarithm.hpp"

#include "../tanh_root.hpp"

namespace meander::impl::device {

/// h(a) and h'(a).
template <class T>
struct Activated {
  T h, slope;
};

/// 1 / x; in float on a GPU one instruction of the special function unit, to 1 ulp.
template <class T>
KOKKOS_INLINE_FUNCTION T reciprocal(T x) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == 4) {
    T r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
  }
#endif
  return 1 / x;
}

/// tanh to 1e-7 of absolute and 2e-6 of relative error, its slope to 4e-7 of relative error.
/// With e = exp(-2|a|): |tanh| = 1 - 2e/(1+e), sech^2 = 4e/(1+e)^2; 1 - tanh^2 would cancel.
KOKKOS_INLINE_FUNCTION Activated<float> tanh_parts(float a) {
  // 2 log2(e), and what a float leaves of it: 4e has the relative error of its exponent's absolute
  // one, which rounding alone would make 1e-6 at |a| = 40.
  constexpr float two_log2_e = 2.88539004f;
  constexpr float remainder  = 3.85192524e-8f;
  constexpr float ln_2       = 0.693147181f;
  float const magnitude      = Kokkos::abs(a);
  float const exponent       = Kokkos::fma(-two_log2_e, magnitude, 2.0f);
  float const missing =
      Kokkos::fma(-remainder, magnitude, Kokkos::fma(-two_log2_e, magnitude, -exponent) + 2.0f);
  float e4;  // 4e, so that sech^2 is there as long as it is a normal number
#if defined(__CUDA_ARCH__)
  // One instruction each of the special function unit; what is below the normal range becomes zero.
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e4) : "f"(exponent));
#else
  e4 = Kokkos::exp2(exponent);
#endif
  // Where the exponent overflows (|a| > 1e38) this makes a NaN.
  e4                     = Kokkos::fma(e4, missing * ln_2, e4);
  float const one_plus_e = Kokkos::fma(0.25f, e4, 1.0f);
  float const r          = reciprocal(one_plus_e);
  float const t          = e4 * r;
  float const slope      = t * r;
  // Near zero 1 - t/2 cancels; there tanh(a) = a (1 - v/3 - 4v^2/45 - ...) with v = 1 - sech^2, of
  // which a line is enough.
  float const near_zero = a * Kokkos::fma(slope, 0.3336f, 0.6664f);
  float const h         = Kokkos::copysign(Kokkos::fma(-0.5f, t, 1.0f), a);
  return {magnitude < 0.06f ? near_zero : h, slope};
}

/// The same, exact to rounding.
KOKKOS_INLINE_FUNCTION Activated<double> tanh_parts(double a) {
  double const exponent = -2 * Kokkos::abs(a);
  double const e        = Kokkos::exp(exponent);
  double const em       = exponent > -0.5 ? Kokkos::expm1(exponent) : e - 1;
  double const r        = 1 / (1 + e);
  return {Kokkos::copysign(-em * r, a), 4 * e * r * r};
}

/// One row as TanhRoot sees it.
template <class T>
struct RowMath {
  using Value                   = T;
  using Scalar                  = T;
  using Bits                    = typename RootConstants<T>::Bits;
  static constexpr T slope_unit = 1;

  KOKKOS_INLINE_FUNCTION static T splat(T x) { return x; }
  KOKKOS_INLINE_FUNCTION static T abs(T x) { return Kokkos::abs(x); }
  KOKKOS_INLINE_FUNCTION static T fma(T a, T b, T c) { return Kokkos::fma(a, b, c); }
  KOKKOS_INLINE_FUNCTION static T log(T x) { return Kokkos::log(x); }
  KOKKOS_INLINE_FUNCTION static T with_sign(T x, T sign) { return Kokkos::copysign(x, sign); }
  KOKKOS_INLINE_FUNCTION static T from_bits(T x) { return T(Kokkos::bit_cast<Bits>(x)); }
  KOKKOS_INLINE_FUNCTION static T to_bits(T x) { return Kokkos::bit_cast<T>(Bits(x)); }
  /// On a GPU each row leaves the loop by itself.
  KOKKOS_INLINE_FUNCTION static bool any(bool going) { return going; }

  KOKKOS_INLINE_FUNCTION static void tanh(T x, T& h, T& slope) {
    auto const parts = tanh_parts(x);
    h                = parts.h;
    slope            = parts.slope;
  }

  template <int N>
  KOKKOS_INLINE_FUNCTION static T polynomial(T x, T const (&c)[N]) {
    T p = c[N - 1];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int i = N - 2; i >= 0; --i) p = Kokkos::fma(p, x, c[i]);
    return p;
  }

  KOKKOS_INLINE_FUNCTION static T reciprocal(T x) { return device::reciprocal(x); }

  KOKKOS_INLINE_FUNCTION static T divide(T x, T y) {
#if defined(__CUDA_ARCH__)
    if constexpr (sizeof(T) == 4) return x * reciprocal(y);
#endif
    return x / y;
  }

  KOKKOS_INLINE_FUNCTION static T reciprocal_root(T x) {
#if defined(__CUDA_ARCH__)
    if constexpr (sizeof(T) == 4) {
      T r;
      asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
      return r;
    }
#endif
    return 1 / Kokkos::sqrt(x);
  }
};

/// The determinants of successive layers, multiplied until the stack asks for a logarithm.
///
/// `product` serves where the logarithm is of order one; `excess` = product - 1, carried along
/// without cancellation, where it is small; `distance` bounds how far factors have strayed from
/// one.
template <class T>
struct LogDeterminant {
  T product = 1, excess = 0, distance = 0, sum = 0;

  KOKKOS_INLINE_FUNCTION void multiply(T det, T det_minus_1) {
    product *= det;
    excess = Kokkos::fma(excess, det, det_minus_1);
    distance += Kokkos::abs(det_minus_1);
  }

  KOKKOS_INLINE_FUNCTION void take_log() {
    sum += log_of_product(product, excess, distance < T(0.5));
    product  = 1;
    excess   = 0;
    distance = 0;
  }
};

/// The gradients of one row by a = w.z + b and by s, of one layer.
template <class T>
struct LayerGradient {
  T da, by_s;
};

/// What a layer does to one row once a = w.z + b is known. The usual case (tanh, log_det_epsilon =
/// 0) is the template argument, so that it costs nothing.
template <class T>
struct LayerRule {
  Activation activation;
  T negative_slope;
  T log_det_epsilon;

  KOKKOS_INLINE_FUNCTION bool usual() const {
    return activation == Activation::tanh && log_det_epsilon == 0;
  }

  /// \return h(a); multiplies the determinant of the layer into `log_det`. s - 1 comes as a number
  /// of its own, since the difference would cancel.
  template <bool Usual>
  KOKKOS_INLINE_FUNCTION T apply(T a, T s, T s_minus_1, LogDeterminant<T>& log_det) const {
    if constexpr (Usual) {
      auto const [h, slope] = tanh_parts(a);
      log_det.multiply(Kokkos::fma(slope, s, h * h), slope * s_minus_1);
      return h;
    } else {
      T h, det, det_minus_1;
      if (activation == Activation::tanh) {
        auto const [tanh, slope] = tanh_parts(a);
        h                        = tanh;
        det                      = Kokkos::fma(slope, s, h * h);
        det_minus_1              = slope * s_minus_1;
      } else {
        T const slope = a >= 0 ? T(1) : negative_slope;
        h             = slope * a;
        det           = Kokkos::fma(slope, s, 1 - slope);
        det_minus_1   = slope * s_minus_1;
        if (a != a) det = a;  // the slope alone would hide a NaN
      }
      multiply<false>(det, det_minus_1, log_det);
      return h;
    }
  }

  /// The other way: \return h(a) where a + (s - 1) h(a) = a_prime = w.f(z) + b; multiplies the
  /// determinant of the layer itself, not of its inverse, into `log_det`.
  template <bool Usual>
  KOKKOS_INLINE_FUNCTION T undo(T a_prime, T s, T s_minus_1, LogDeterminant<T>& log_det) const {
    T h, slope, det;
    if (Usual || activation == Activation::tanh) {
      auto const root = TanhRoot<RowMath<T>>(s, s_minus_1)(a_prime);
      h               = root.h;
      slope           = root.slope;
      det             = Kokkos::fma(slope, s, h * h);
    } else {
      // Both sides' determinants are positive: a and a_prime have the same sign.
      slope = a_prime >= 0 ? T(1) : negative_slope;
      det   = Kokkos::fma(slope, s, 1 - slope);
      h     = slope * a_prime / det;
      if (a_prime != a_prime) det = a_prime;
    }
    multiply<Usual>(det, slope * s_minus_1, log_det);
    return h;
  }

  /// h(a) and h'(a) where a + (s - 1) h(a) = a_prime.
  KOKKOS_INLINE_FUNCTION Activated<T> root(T a_prime, T s, T s_minus_1) const {
    if (activation == Activation::tanh) {
      auto const root = TanhRoot<RowMath<T>>(s, s_minus_1)(a_prime);
      return {root.h, root.slope};
    }
    // Both sides' determinants are positive: a and a_prime have the same sign.
    T const slope = a_prime >= 0 ? T(1) : negative_slope;
    return {slope * a_prime / Kokkos::fma(slope, s, 1 - slope), slope + (a_prime - a_prime)};
  }

  /// h(a) and h'(a).
  KOKKOS_INLINE_FUNCTION Activated<T> activate(T a) const {
    if (activation == Activation::tanh) return tanh_parts(a);
    T const slope = a < 0 ? negative_slope : T(1);
    return {slope * a, slope + (a - a)};  // the slope alone would hide a NaN
  }

  /// What one layer gives to the gradients of one row: `along` is g . u_hat, with g the gradient
  /// behind the layer (forward) or before it (inverse); by_log_det that by log_det; `scale` that by
  /// which the gradient by s is to be multiplied. See src/host/planar_vjp.cpp.
  template <MapDirection direction>
  KOKKOS_INLINE_FUNCTION LayerGradient<T> gradient(Activated<T> const& v, T s, T s_minus_1, T scale,
                                                   T along, T by_log_det) const {
    bool const tanh  = activation == Activation::tanh;
    T const det      = Kokkos::fma(v.slope, s, tanh ? v.h * v.h : 1 - v.slope);
    T const divisor  = det < 0 ? det - log_det_epsilon : det + log_det_epsilon;
    T const by_det   = by_log_det != 0 ? RowMath<T>::divide(by_log_det, divisor) : T(0);
    T const by_slope = tanh ? -2 * v.h * (by_det * s_minus_1) : T(0);
    T const by_s     = v.slope * (by_det * scale);
    if constexpr (direction == MapDirection::forward) return {v.slope * (along + by_slope), by_s};
    T const q    = v.slope * by_slope;
    T const rest = along - q * s_minus_1;
    return {Kokkos::fma(v.slope, rest != 0 ? RowMath<T>::divide(rest, det) : T(0), q), by_s};
  }

  /// Multiplies the determinant of a layer with these h(a) and h'(a) into `log_det`.
  KOKKOS_INLINE_FUNCTION void count(Activated<T> const& v, T s, T s_minus_1,
                                    LogDeterminant<T>& log_det) const {
    T const rest = activation == Activation::tanh ? v.h * v.h : 1 - v.slope;
    multiply<false>(Kokkos::fma(v.slope, s, rest), v.slope * s_minus_1, log_det);
  }

 private:
  template <bool Usual>
  KOKKOS_INLINE_FUNCTION void multiply(T det, T det_minus_1, LogDeterminant<T>& log_det) const {
    if (!Usual && log_det_epsilon != 0) {
      if (det < 0) {
        det         = -det;
        det_minus_1 = det - 1;
      }
      det += log_det_epsilon;
      det_minus_1 += log_det_epsilon;
    }
    log_det.multiply(det, det_minus_1);
  }
};

}  // namespace meander::impl::device
