// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include <Kokkos_Core.hpp>
#include <meander/flow.hpp>
#include <meander/random.hpp>

#include "gaussian.hpp"
#include "statistics.hpp"

namespace phi4 {

struct MetropolisOptions {
  int chains         = 256;
  int thermalization = 256;    ///< proposals of each chain that are not measured
  int measurements   = 2048;   ///< proposals that are
  int batch          = 16384;  ///< rows that the flow draws at once
  std::uint64_t seed = 1001;

  std::int64_t proposals() const { return std::int64_t{chains} * (thermalization + measurements); }
};

/// Independent draws of the flow, as the Metropolis test looks at them.
template <class MemorySpace>
struct Proposals {
  Kokkos::View<double*, MemorySpace> log_weight;  ///< log p(x) - log q(x), up to a constant
  Kokkos::View<double* [num_observables], MemorySpace> observed;

  explicit Proposals(std::int64_t count)
      : log_weight("phi4::log_weight", count), observed("phi4::observed", count) {}
};

/// What the action says of rows of a flow.
template <class MemorySpace>
struct Score {
  Target<MemorySpace> target;
  Kokkos::View<double* [sites], MemorySpace> x;
  Kokkos::View<double*, MemorySpace> log_q;
  Proposals<MemorySpace> proposals;
  std::int64_t first;

  KOKKOS_FUNCTION void operator()(int i) const {
    Field const phi                 = target.field(Kokkos::subview(x, i, Kokkos::ALL()));
    proposals.log_weight(first + i) = -target.action(phi) - log_q(i);
    Observed const observed         = observe(target.action, phi);
    for (int o = 0; o < num_observables; ++o) proposals.observed(first + i, o) = observed.of[o];
  }
};

template <class ExecutionSpace>
auto draw(ExecutionSpace const& exec, meander::Flow<double, ExecutionSpace> const& flow,
          Target<typename ExecutionSpace::memory_space> const& target,
          MetropolisOptions const& options) {
  using memory = typename ExecutionSpace::memory_space;
  Proposals<memory> proposals(options.proposals());
  Kokkos::View<double* [sites], memory> x("phi4::x", options.batch);
  Kokkos::View<double*, memory> log_q("phi4::log_q", options.batch);
  for (std::int64_t first = 0; first < options.proposals(); first += options.batch) {
    auto const count = std::min<std::int64_t>(options.batch, options.proposals() - first);
    auto const rows  = std::make_pair(std::int64_t{0}, count);
    // Rows `first` and on of the one sample that the seed names, however it is cut into batches.
    meander::sample(exec, flow, options.seed, first, Kokkos::subview(x, rows, Kokkos::ALL()),
                    Kokkos::subview(log_q, rows));
    Kokkos::parallel_for("phi4::score", Kokkos::RangePolicy<ExecutionSpace>(exec, 0, count),
                         Score<memory>{target, x, log_q, proposals, first});
  }
  exec.fence("phi4::draw");
  return proposals;
}

/// Independence Metropolis: a chain goes to its next proposal with probability
/// min(1, weight of the proposal / weight of where it is), and stays else. That makes the draws of
/// any flow exact ones of the theory; a good flow makes it seldom stay.
template <class MemorySpace>
struct Walk {
  Proposals<MemorySpace> proposals;
  Kokkos::View<double**, MemorySpace> noise;
  int thermalization;
  Chains<MemorySpace> chains;

  KOKKOS_FUNCTION void operator()(int chain) const {
    auto const steps         = static_cast<std::int64_t>(noise.extent(1));
    std::int64_t const first = chain * steps;
    std::int64_t at          = first;
    for (std::int64_t step = 1; step < steps; ++step) {
      std::int64_t const proposed = first + step;
      double const chance         = uniform_of_normal(noise(chain, step));
      bool const accepted =
          chance < Kokkos::exp(proposals.log_weight(proposed) - proposals.log_weight(at));
      if (accepted) at = proposed;
      if (step < thermalization) continue;
      chains.accepted(chain) += accepted;
      Observed observed;
      for (int o = 0; o < num_observables; ++o) observed.of[o] = proposals.observed(at, o);
      chains.add(chain, observed);
    }
  }
};

template <class ExecutionSpace, class MemorySpace>
Estimates metropolis(ExecutionSpace const& exec, Proposals<MemorySpace> const& proposals,
                     MetropolisOptions const& options) {
  Chains<MemorySpace> chains(options.chains);
  Kokkos::View<double**, MemorySpace> noise("phi4::noise", options.chains,
                                            options.thermalization + options.measurements);
  meander::fill_normal(exec, options.seed + 1, 0, noise);
  Kokkos::parallel_for("phi4::metropolis",
                       Kokkos::RangePolicy<ExecutionSpace>(exec, 0, options.chains),
                       Walk<MemorySpace>{proposals, noise, options.thermalization, chains});
  exec.fence("phi4::metropolis");
  return estimate(chains, options.measurements);
}

}  // namespace phi4
