// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <Kokkos_Core.hpp>

#include <meander/activation.hpp>

namespace meander::impl::device {

/// h(a) and a quarter of h'(a).
template <class T>
struct Activated {
  T h, quarter_slope;
};

/// tanh to 1e-7 of absolute and 1e-6 of relative error, its slope to 4e-7 of relative error.
/// With e = exp(-2|a|): |tanh| = 1 - 2e/(1+e), sech^2 = 4e/(1+e)^2; 1 - tanh^2 would cancel.
KOKKOS_INLINE_FUNCTION Activated<float> tanh_parts(float a) {
  constexpr float two_log2_e = 2.885390081777927f;
  float const magnitude      = Kokkos::abs(a);
  float e, r;
#if defined(__CUDA_ARCH__)
  // One instruction each of the special function unit; an e below the normal range may become zero.
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(-two_log2_e * magnitude));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1 + e));
#else
  e = Kokkos::exp2(-two_log2_e * magnitude);
  r = 1 / (1 + e);
#endif
  float const t       = e * r;
  float const quarter = t * r;
  // Near zero 1 - 2t cancels; there tanh(a) = a (1 - v/3 - 4v^2/45 - ...) with v = 1 - sech^2, of
  // which a line is enough.
  float const near_zero = a * Kokkos::fma(quarter, 1.3344f, 0.6664f);
  float const h         = Kokkos::copysign(Kokkos::fma(-2.0f, t, 1.0f), a);
  return {magnitude < 0.06f ? near_zero : h, quarter};
}

/// The same, exact to rounding.
KOKKOS_INLINE_FUNCTION Activated<double> tanh_parts(double a) {
  double const em = Kokkos::expm1(-2 * Kokkos::abs(a));
  double const r  = 1 / (2 + em);
  return {Kokkos::copysign(-em * r, a), (1 + em) * r * r};
}

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
    // log(1 + excess) = log(product) + (excess - (product - 1)) / product to first order in the
    // rounding of the product, and 2 - product stands in for the reciprocal: it need be right only
    // near one.
    T const size = Kokkos::abs(product);
    sum += Kokkos::log(size);
    if (distance < T(0.5)) sum += (excess - (product - 1)) * (2 - product);
    product  = 1;
    excess   = 0;
    distance = 0;
  }
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

  /// \return h(a); multiplies the determinant of the layer into `log_det`. s4 = 4s, sm4 = 4(s - 1).
  template <bool Usual>
  KOKKOS_INLINE_FUNCTION T apply(T a, T s4, T sm4, LogDeterminant<T>& log_det) const {
    if constexpr (Usual) {
      auto const [h, quarter] = tanh_parts(a);
      log_det.multiply(Kokkos::fma(quarter, s4, h * h), quarter * sm4);
      return h;
    } else {
      T h, det, det_minus_1;
      if (activation == Activation::tanh) {
        auto const [tanh, quarter] = tanh_parts(a);
        h                          = tanh;
        det                        = Kokkos::fma(quarter, s4, h * h);
        det_minus_1                = quarter * sm4;
      } else {
        T const slope = a >= 0 ? T(1) : negative_slope;
        h             = slope * a;
        det           = Kokkos::fma(slope / 4, s4, 1 - slope);
        det_minus_1   = slope / 4 * sm4;
        if (a != a) det = a;  // the slope alone would hide a NaN
      }
      if (log_det_epsilon != 0) {
        if (det < 0) {
          det         = -det;
          det_minus_1 = det - 1;
        }
        det += log_det_epsilon;
        det_minus_1 += log_det_epsilon;
      }
      log_det.multiply(det, det_minus_1);
      return h;
    }
  }
};

}  // namespace meander::impl::device
