// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cmath>
#include <cstdio>

#include <Kokkos_Core.hpp>
#include <meander/random.hpp>

#include "gaussian.hpp"
#include "hmc.hpp"

/// What is checked before anything is believed: the gradient of the target against differences, and
/// HMC against the free field, of which all is known.
namespace phi4 {

template <class MemorySpace>
struct GradientError {
  Target<MemorySpace> target;
  Kokkos::View<double*[sites], MemorySpace> rows, gradients;

  KOKKOS_FUNCTION void operator()(int i, double& worst) const {
    constexpr double step = 1e-5;
    auto const x          = Kokkos::subview(rows, i, Kokkos::ALL());
    auto const gradient   = Kokkos::subview(gradients, i, Kokkos::ALL());
    for (int k = 0; k < sites; ++k) {
      double const middle = x(k);
      x(k)                = middle + step;
      double const above  = -target.action(target.field(x));
      x(k)                = middle - step;
      double const below  = -target.action(target.field(x));
      x(k)                = middle;
      target(x, gradient);
      double const error = Kokkos::abs(gradient(k) - (above - below) / (2 * step));
      worst              = Kokkos::max(worst, error / Kokkos::max(1.0, Kokkos::abs(gradient(k))));
    }
  }
};

template <class ExecutionSpace>
bool gradient_is_right(ExecutionSpace const& exec, Action const& action) {
  using memory   = typename ExecutionSpace::memory_space;
  int const rows = 100;
  Kokkos::View<double*[sites], memory> x("phi4::x", rows), gradient("phi4::gradient", rows);
  meander::fill_normal(exec, 1, 0, x);
  double worst = 0;
  Kokkos::parallel_reduce(
      "phi4::gradient_error", Kokkos::RangePolicy<ExecutionSpace>(exec, 0, rows),
      GradientError<memory>{
          {action, free_field_modes<memory>(gap_mass_squared(action))}, x, gradient},
      Kokkos::Max<double>(worst));
  std::printf("gradient of the target: %.1e away from central differences\n", worst);
  return worst < 1e-6;
}

/// What is observed, exactly, in the free field.
inline std::array<double, num_observables> free_field(double mass_squared) {
  double neighbours = 0;
  for (int k = 0; k < sites; ++k)
    neighbours += 0.5 * std::cos(2 * std::acos(-1.0) * column(k) / extent) /
                  (momentum_squared(k) + mass_squared) / sites;
  // Of |m|: m is normal, of variance 1 / (2 sites mass_squared). Each degree of freedom has half a
  // unit of action.
  return {free_phi_squared(mass_squared), std::sqrt(1 / (std::acos(-1.0) * sites * mass_squared)),
          0.5, neighbours};
}

template <class ExecutionSpace>
bool hmc_is_right(ExecutionSpace const& exec, HmcOptions const& options) {
  double const mass_squared = 0.5;
  auto const exact          = free_field(mass_squared);
  auto const result         = hmc(exec, Action{mass_squared, 0}, options);
  std::printf("HMC of the free field, m^2 = %g: acceptance %.3f\n", mass_squared,
              result.acceptance);
  bool right = true;
  for (int i = 0; i < num_observables; ++i) {
    double const away = std::abs(result.of[i].mean - exact[i]) / result.of[i].error;
    std::printf("  %-14s %.6f +- %.6f, exactly %.6f: %.1f sigma\n", observables[i],
                result.of[i].mean, result.of[i].error, exact[i], away);
    right = right && away < 3;
  }
  return right;
}

}  // namespace phi4
