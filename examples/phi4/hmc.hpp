// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <Kokkos_Core.hpp>
#include <meander/random.hpp>

#include "action.hpp"
#include "statistics.hpp"

/// Hybrid Monte Carlo (Duane, Kennedy, Pendleton & Roweth 1987), what the flow is compared with:
/// many chains side by side, one a thread.
namespace phi4 {

struct HmcOptions {
  int chains               = 1024;
  int thermalization       = 100;  ///< trajectories that are not measured
  int measurements         = 400;  ///< trajectories that are
  int leapfrog_steps       = 12;
  double trajectory_length = 1;  ///< on average
  std::uint64_t seed       = 1;
};

template <class MemorySpace>
using Fields = Kokkos::View<double* [sites], MemorySpace>;
/// A normal number for each momentum, one for the length of the trajectory, one for the test.
template <class MemorySpace>
using HmcNoise = Kokkos::View<double * [sites + 2], MemorySpace>;

/// One trajectory of one chain: momenta drawn anew, the equations of motion, a Metropolis test.
template <class MemorySpace>
struct Trajectory {
  Action action;
  int steps;
  double step_size;
  bool measured;
  Fields<MemorySpace> fields;
  HmcNoise<MemorySpace> noise;
  Chains<MemorySpace> chains;

  KOKKOS_FUNCTION void operator()(int chain) const {
    Field phi, momentum;
    for (int x = 0; x < sites; ++x) {
      phi.at[x]      = fields(chain, x);
      momentum.at[x] = noise(chain, x);
    }
    double const before = energy(phi, momentum);
    // With one length for all, a mode whose period it meets would never change (Mackenzie 1989).
    leapfrog(phi, momentum, step_size * (0.5 + uniform_of_normal(noise(chain, sites))));
    double const after  = energy(phi, momentum);
    double const chance = uniform_of_normal(noise(chain, sites + 1));
    bool const accepted = chance < Kokkos::exp(before - after);
    for (int x = 0; x < sites; ++x) {
      if (accepted)
        fields(chain, x) = phi.at[x];
      else
        phi.at[x] = fields(chain, x);
    }
    if (!measured) return;
    chains.accepted(chain) += accepted;
    chains.add(chain, observe(action, phi));
  }

  KOKKOS_FUNCTION double energy(Field const& phi, Field const& momentum) const {
    double sum = action(phi);
    for (double const p : momentum.at) sum += p * p / 2;
    return sum;
  }

  KOKKOS_FUNCTION void kick(Field const& phi, Field& momentum, double time) const {
    for (int x = 0; x < sites; ++x) momentum.at[x] -= time * action.derivative(phi, x);
  }

  KOKKOS_FUNCTION void leapfrog(Field& phi, Field& momentum, double step) const {
    kick(phi, momentum, step / 2);
    for (int i = 0; i < steps; ++i) {
      for (int x = 0; x < sites; ++x) phi.at[x] += step * momentum.at[x];
      kick(phi, momentum, i + 1 < steps ? step : step / 2);
    }
  }
};

template <class ExecutionSpace>
Estimates hmc(ExecutionSpace const& exec, Action const& action, HmcOptions const& options) {
  using memory = typename ExecutionSpace::memory_space;
  // All chains start from the field 0; their momenta take them apart.
  Fields<memory> const fields("phi4::fields", options.chains);
  HmcNoise<memory> const noise("phi4::noise", options.chains);
  Chains<memory> const chains(options.chains);
  double const step_size = options.trajectory_length / options.leapfrog_steps;
  for (int i = 0; i < options.thermalization + options.measurements; ++i) {
    meander::fill_normal(exec, options.seed, std::uint64_t(i) * options.chains, noise);
    bool const measured = i >= options.thermalization;
    Kokkos::parallel_for("phi4::hmc", Kokkos::RangePolicy<ExecutionSpace>(exec, 0, options.chains),
                         Trajectory<memory>{action, options.leapfrog_steps, step_size, measured,
                                            fields, noise, chains});
  }
  exec.fence("phi4::hmc");
  return estimate(chains, options.measurements);
}

}  // namespace phi4
