// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cmath>

#include <Kokkos_Core.hpp>

#include "action.hpp"

namespace phi4 {

/// The lattice's momentum squared, sum_mu 4 sin^2(k_mu / 2), of mode k: the eigenvalue of the
/// kinetic term.
inline double momentum_squared(int mode) {
  double const pi  = std::acos(-1.0);
  double const one = std::sin(pi * row(mode) / extent);
  double const two = std::sin(pi * column(mode) / extent);
  return 4 * (one * one + two * two);
}

/// <phi_x^2> of a free field, S = sum_k (momentum_squared(k) + mass_squared) |phi_k|^2.
inline double free_phi_squared(double mass_squared) {
  double sum = 0;
  for (int k = 0; k < sites; ++k) sum += 0.5 / (momentum_squared(k) + mass_squared);
  return sum / sites;
}

/// The mass of the free field nearest to the theory: of all Gaussians it has the least reverse
/// Kullback-Leibler divergence, which is the case at M^2 = m^2 + 6 lambda <phi^2>_M (the gap
/// equation). The right side falls with M^2: bisection finds the root.
inline double gap_mass_squared(Action const& action) {
  if (action.lambda == 0) return action.mass_squared;
  double low = 1e-12, high = 1e6;
  while (high - low > 1e-14 * high) {
    double const middle = 0.5 * (low + high);
    bool const below = middle < action.mass_squared + 6 * action.lambda * free_phi_squared(middle);
    (below ? low : high) = middle;
  }
  return low;
}

/// phi = A x makes that free field of independent standard normal x: column k of A is mode k of the
/// lattice (Hartley's real form of the Fourier modes: an orthogonal matrix), times its width.
///
/// The flow works in these coordinates x. Its base N(0, I) then is the best Gaussian from the
/// start, and layers are spent on nothing but the interaction. |det A| is a constant, which a
/// density up to a constant does not need.
template <class MemorySpace>
Kokkos::View<double[sites][sites], MemorySpace> free_field_modes(double mass_squared) {
  Kokkos::View<double[sites][sites], MemorySpace> modes("phi4::modes");
  auto const host = Kokkos::create_mirror_view(modes);
  double const pi = std::acos(-1.0);
  for (int x = 0; x < sites; ++x)
    for (int k = 0; k < sites; ++k) {
      double const angle = 2 * pi * (row(x) * row(k) + column(x) * column(k)) / extent;
      host(x, k)         = (std::cos(angle) + std::sin(angle)) / std::sqrt(double(sites)) /
                   std::sqrt(2 * (momentum_squared(k) + mass_squared));
    }
  Kokkos::deep_copy(modes, host);
  return modes;
}

/// The target of the flow: the log-density, up to a constant, of a row of coordinates x, and its
/// gradient.
template <class MemorySpace>
struct Target {
  Action action;
  Kokkos::View<double const[sites][sites], MemorySpace> modes;

  template <class Row>
  KOKKOS_FUNCTION Field field(Row const& x) const {
    Field phi{};
    for (int site = 0; site < sites; ++site)
      for (int k = 0; k < sites; ++k) phi.at[site] += modes(site, k) * x(k);
    return phi;
  }

  template <class Row, class GradRow>
  KOKKOS_FUNCTION double operator()(Row const& x, GradRow const& grad) const {
    Field const phi = field(x);
    for (int k = 0; k < sites; ++k) grad(k) = 0;
    for (int site = 0; site < sites; ++site) {
      double const force = -action.derivative(phi, site);
      for (int k = 0; k < sites; ++k) grad(k) += modes(site, k) * force;
    }
    return -action(phi);
  }
};

}  // namespace phi4
