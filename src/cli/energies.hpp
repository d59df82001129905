// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cmath>
#include <type_traits>

#include <Kokkos_Core.hpp>

namespace meander::cli {

/// \brief A density on the plane, known up to its normalization: exp(-U) for an energy U of Rezende
/// & Mohamed (2015, table 1), times an envelope where that has no integral.
///
/// With w1 = sin(2 pi z1 / 4), w2 = 3 exp(-((z1 - 1) / 0.6)^2 / 2), w3 = 3 sigmoid((z1 - 1) / 0.3):
///   U1 = ((|z| - 2) / 0.4)^2 / 2 - log(exp(-((z1 - 2) / 0.6)^2 / 2) + exp(-((z1 + 2) / 0.6)^2 /
///   2)) U2 = ((z2 - w1) / 0.4)^2 / 2 U3 = -log(exp(-((z2 - w1) / 0.35)^2 / 2) + exp(-((z2 - w1 +
///   w2) / 0.35)^2 / 2)) U4 = -log(exp(-((z2 - w1) / 0.4)^2 / 2) + exp(-((z2 - w1 + w3) / 0.35)^2 /
///   2))
///
/// U2 to U4 say nothing of how far z1 may go. The paper shows them for z1 from -4 to 4; here
/// E = (max(|z1| - 4, 0) / edge)^2 / 2 is added, which is zero there and has a gradient everywhere.
/// z2 can then be integrated out, and log Z is known.
///
/// A target for meander::reverse_kl.
struct Energy {
  int number = 1;  ///< of U, 1 to 4

  static constexpr double half_width = 4;
  static constexpr double edge       = 0.25;

  /// \brief log p(z) = -U(z) - E(z1), and its gradient.
  template <class Row, class Gradient>
  KOKKOS_FUNCTION auto operator()(Row const& z, Gradient const& gradient) const {
    using T    = std::remove_const_t<typename Row::value_type>;
    T const z1 = z(0), z2 = z(1);
    T by_z1 = 0, by_z2 = 0;
    T const log_p = number == 1 ? ring(z1, z2, by_z1, by_z2) : wave(z1, z2, by_z1, by_z2);
    gradient(0)   = by_z1;
    gradient(1)   = by_z2;
    return log_p;
  }

  /// \brief log of the integral of exp(-U - E).
  double log_z() const {
    constexpr double root_two_pi = 2.50662827463100050242;
    // The integral of exp(-E) over z1, and the standard deviations of the Gaussians in z2.
    constexpr double along = 2 * half_width + edge * root_two_pi;
    switch (number) {
      case 2: return std::log(0.4 * root_two_pi * along);
      case 3: return std::log((0.35 + 0.35) * root_two_pi * along);
      case 4: return std::log((0.4 + 0.35) * root_two_pi * along);
      default: return 1.8775016261097077;
    }
  }

 private:
  /// log(exp(a) + exp(b)); `part` is that of exp(a).
  template <class T>
  KOKKOS_FUNCTION static T log_sum(T a, T b, T& part) {
    T const e = Kokkos::exp(-Kokkos::abs(a - b));
    part      = a > b ? 1 / (1 + e) : e / (1 + e);
    return (a > b ? a : b) + Kokkos::log1p(e);
  }

  template <class T>
  KOKKOS_FUNCTION static T ring(T z1, T z2, T& by_z1, T& by_z2) {
    T const radius = Kokkos::sqrt(z1 * z1 + z2 * z2);
    T const r      = (radius - 2) / T(0.4);
    T const right = (z1 - 2) / T(0.6), left = (z1 + 2) / T(0.6);
    T part            = 0;
    T const modes     = log_sum(-right * right / 2, -left * left / 2, part);
    T const by_radius = radius > 0 ? -r / (T(0.4) * radius) : T(0);  // at 0 there is none
    by_z1             = by_radius * z1 - (part * right + (1 - part) * left) / T(0.6);
    by_z2             = by_radius * z2;
    return -r * r / 2 + modes;
  }

  template <class T>
  KOKKOS_FUNCTION T wave(T z1, T z2, T& by_z1, T& by_z2) const {
    constexpr T half_pi = T(1.57079632679489661923);
    T const w1 = Kokkos::sin(half_pi * z1), slope1 = half_pi * Kokkos::cos(half_pi * z1);
    T const width = number == 3 ? T(0.35) : T(0.4);
    T const a     = (z2 - w1) / width;
    T log_p       = -a * a / 2;
    by_z2         = -a / width;
    by_z1         = a / width * slope1;
    if (number != 2) {
      T slope       = 0;
      T const w     = number == 3 ? bump(z1, slope) : step(z1, slope);
      T const b     = (z2 - w1 + w) / T(0.35);
      T part        = 0;
      log_p         = log_sum(log_p, -b * b / 2, part);
      T const other = (1 - part) * b / T(0.35);
      by_z1         = part * by_z1 + other * (slope1 - slope);
      by_z2         = part * by_z2 - other;
    }
    T const beyond = Kokkos::abs(z1) - T(half_width);
    if (beyond <= 0) return log_p;
    T const e = beyond / T(edge);
    by_z1 -= (z1 > 0 ? e : -e) / T(edge);
    return log_p - e * e / 2;
  }

  /// w2 and its slope.
  template <class T>
  KOKKOS_FUNCTION static T bump(T z1, T& slope) {
    T const t = (z1 - 1) / T(0.6);
    T const w = 3 * Kokkos::exp(-t * t / 2);
    slope     = -w * t / T(0.6);
    return w;
  }

  /// w3 and its slope.
  template <class T>
  KOKKOS_FUNCTION static T step(T z1, T& slope) {
    T const t       = (z1 - 1) / T(0.3);
    T const e       = Kokkos::exp(-Kokkos::abs(t));  // of no argument does it overflow
    T const sigmoid = t > 0 ? 1 / (1 + e) : e / (1 + e);
    slope           = 3 * e / ((1 + e) * (1 + e)) / T(0.3);
    return 3 * sigmoid;
  }
};

}  // namespace meander::cli
