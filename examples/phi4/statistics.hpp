// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cmath>

#include <Kokkos_Core.hpp>

#include "action.hpp"

namespace phi4 {

inline constexpr int num_observables                                  = 4;
inline constexpr std::array<char const*, num_observables> observables = {
    "phi^2", "|m|", "action / site", "phi phi+1"};

/// Averages over the lattice of one configuration, in the order of their names.
struct Observed {
  double of[num_observables];
};

KOKKOS_INLINE_FUNCTION Observed observe(Action const& action, Field const& phi) {
  double square = 0, sum = 0, neighbours = 0;
  for (int x = 0; x < sites; ++x) {
    square += phi.at[x] * phi.at[x];
    sum += phi.at[x];
    neighbours += phi.at[x] * (phi.at[next(x, 0)] + phi.at[next(x, 1)]) / 2;
  }
  return {{square / sites, Kokkos::abs(sum) / sites, action(phi) / sites, neighbours / sites}};
}

/// What Markov chains that run side by side gather, each in a row of its own: sums over what was
/// measured, and how many proposals were accepted.
template <class MemorySpace>
struct Chains {
  Kokkos::View<double*[num_observables], MemorySpace> sum, square;
  Kokkos::View<double*, MemorySpace> accepted;

  explicit Chains(int count)
      : sum("phi4::sum", count), square("phi4::square", count), accepted("phi4::accepted", count) {}

  KOKKOS_FUNCTION void add(int chain, Observed const& observed) const {
    for (int i = 0; i < num_observables; ++i) {
      sum(chain, i) += observed.of[i];
      square(chain, i) += observed.of[i] * observed.of[i];
    }
  }
};

struct Estimate {
  double mean, error;
  /// Integrated, 1/2 if steps are independent: error^2 = 2 tau variance / (steps of all chains).
  double autocorrelation_time;
};

struct Estimates {
  std::array<Estimate, num_observables> of;
  double acceptance;
};

/// Means, and errors from how much the means of the chains differ: they are independent of each
/// other, whatever the autocorrelation inside each of them is.
template <class MemorySpace>
Estimates estimate(Chains<MemorySpace> const& chains, double steps) {
  auto const copy = [](auto const& view) {
    return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  };
  auto const sum      = copy(chains.sum);
  auto const square   = copy(chains.square);
  auto const accepted = copy(chains.accepted);
  int const count     = static_cast<int>(sum.extent(0));
  Estimates estimates{};
  for (int i = 0; i < num_observables; ++i) {
    double mean = 0, mean_square = 0, spread = 0;
    for (int c = 0; c < count; ++c) {
      mean += sum(c, i) / steps / count;
      mean_square += square(c, i) / steps / count;
    }
    for (int c = 0; c < count; ++c) {
      double const away = sum(c, i) / steps - mean;
      spread += away * away / (count - 1);
    }
    double const variance = mean_square - mean * mean;
    estimates.of[i]       = {mean, std::sqrt(spread / count), steps * spread / (2 * variance)};
  }
  for (int c = 0; c < count; ++c) estimates.acceptance += accepted(c) / steps / count;
  return estimates;
}

/// How many standard errors two estimates are apart.
inline double sigmas(Estimate const& a, Estimate const& b) {
  return std::abs(a.mean - b.mean) / std::hypot(a.error, b.error);
}

/// A number of the uniform distribution on (0, 1), from one of the standard normal distribution.
KOKKOS_INLINE_FUNCTION double uniform_of_normal(double normal) {
  return 0.5 * Kokkos::erfc(-normal * Kokkos::sqrt(0.5));
}

}  // namespace phi4
