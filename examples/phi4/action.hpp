// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <Kokkos_Core.hpp>

/// Two-dimensional scalar phi^4 theory on a small periodic lattice:
///
///   S(phi) = sum_x [ sum_mu phi_x (2 phi_x - phi_{x+mu} - phi_{x-mu}) + m^2 phi_x^2 + lambda
///   phi_x^4 ]
///
/// and configurations of weight exp(-S). The convention, and the default couplings (ensemble E1: on
/// a 6 x 6 lattice, m^2 = -4 and lambda = 6.975, in the symmetric phase with a correlation length
/// of 1.5), are those of Albergo, Kanwar & Shanahan 2019, arXiv:1904.12072.
namespace phi4 {

inline constexpr int extent = 6;
inline constexpr int sites  = extent * extent;

/// A field of one value a site, in the registers or the local memory of one thread.
struct Field {
  double at[sites];
};

/// Where a site, or a mode, is on the lattice.
KOKKOS_INLINE_FUNCTION int row(int site) { return site / extent; }
KOKKOS_INLINE_FUNCTION int column(int site) { return site % extent; }

/// The next site in a direction, 0 or 1, around the lattice.
KOKKOS_INLINE_FUNCTION int next(int site, int direction) {
  if (direction == 0) return column(site) == extent - 1 ? site + 1 - extent : site + 1;
  return site >= sites - extent ? site + extent - sites : site + extent;
}

KOKKOS_INLINE_FUNCTION int previous(int site, int direction) {
  if (direction == 0) return column(site) == 0 ? site - 1 + extent : site - 1;
  return site < extent ? site - extent + sites : site - extent;
}

struct Action {
  double mass_squared = -4;
  double lambda       = 6.975;

  KOKKOS_FUNCTION double operator()(Field const& phi) const {
    double action = 0;
    for (int x = 0; x < sites; ++x) {
      double const square = phi.at[x] * phi.at[x];
      // Each link once: the two neighbours of the formula are the same link, seen from its two
      // ends.
      double const links = phi.at[x] * (phi.at[next(x, 0)] + phi.at[next(x, 1)]);
      action += (4 + mass_squared) * square - 2 * links + lambda * square * square;
    }
    return action;
  }

  /// dS / dphi_x
  KOKKOS_FUNCTION double derivative(Field const& phi, int x) const {
    double const neighbours =
        phi.at[next(x, 0)] + phi.at[next(x, 1)] + phi.at[previous(x, 0)] + phi.at[previous(x, 1)];
    double const square = phi.at[x] * phi.at[x];
    return 2 * phi.at[x] * (4 + mass_squared + 2 * lambda * square) - 2 * neighbours;
  }
};

}  // namespace phi4
