// SPDX-License-Identifier: BSD-3-Clause
// Sampling lattice phi^4 theory with a flow that is trained in the process, without any data:
//
//   1. The flow starts as the Gaussian that is nearest to the theory (gaussian.hpp).
//   2. It is trained by reverse KL: its own draws, and the action and its gradient at them.
//   3. Its draws are the proposals of a Metropolis chain, which makes them exact (metropolis.hpp).
//   4. All of it is compared with a long run of Hybrid Monte Carlo (hmc.hpp).
//
//     phi4            the whole of it
//     phi4 --quick    the same with less of everything
//     phi4 --check    the gradient against differences, HMC against the free field
//
// Exit status 1 if flow and HMC, or a check, differ by 3 standard errors or more.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <variant>

#include <Kokkos_Core.hpp>
#include <meander/flow.hpp>
#include <meander/importance.hpp>
#include <meander/initial_model.hpp>
#include <meander/trainer.hpp>

#include "action.hpp"
#include "checks.hpp"
#include "gaussian.hpp"
#include "hmc.hpp"
#include "metropolis.hpp"
#include "statistics.hpp"

namespace {

using Exec   = Kokkos::DefaultExecutionSpace;
using Memory = Exec::memory_space;
using Target = phi4::Target<Memory>;

struct Options {
  int layers_per_site = 3;
  int steps           = 4000;
  int batch           = 512;
  phi4::MetropolisOptions metropolis;
  phi4::HmcOptions hmc;
};

Options quick_options() {
  Options options;
  options.layers_per_site         = 2;
  options.steps                   = 1000;
  options.batch                   = 256;
  options.metropolis.measurements = 512;
  options.hmc.chains              = 256;
  options.hmc.measurements        = 100;
  return options;
}

/// Layers that do nothing yet, each of which looks at one site of the lattice: the interaction acts
/// site by site, and a layer that finds its site by itself takes many more steps.
meander::Model initial_model(Target const& target, int layers_per_site) {
  meander::InitialOptions nearly_nothing;
  nearly_nothing.u_scale = 0.2;
  nearly_nothing.b_scale = 0.01;
  auto model =
      meander::initial_planar_model(std::int64_t{layers_per_site} * phi4::sites, phi4::sites,
                                    meander::Direction::generative, 1, nearly_nothing);
  auto& layers     = std::get<meander::PlanarLayers>(model.layers.front());
  auto const modes = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), target.modes);
  for (int l = 0; l < layers.count; ++l) {
    double norm_squared = 0;
    for (int k = 0; k < phi4::sites; ++k) {
      double& w = layers.w[l * phi4::sites + k];
      w         = modes(l % phi4::sites, k);  // w.x is the field at that site
      norm_squared += w * w;
    }
    // The constraint's w.u_hat = softplus(w.u) - 1 is zero at w.u = log(e - 1).
    double const identity = std::log(std::exp(1.0) - 1) / norm_squared;
    for (int k = 0; k < phi4::sites; ++k)
      layers.u[l * phi4::sites + k] += identity * layers.w[l * phi4::sites + k];
  }
  return model;
}

meander::Model train(Exec const& exec, Target const& target, meander::Model const& initial,
                     Options const& options) {
  meander::TrainerOptions trainer;
  trainer.steps           = options.steps;
  trainer.batch           = options.batch;
  trainer.seed            = 2;
  trainer.learning_rate   = {.initial = 0.01, .decay = meander::Decay::cosine};
  trainer.report_interval = options.steps / 5;
  meander::ReverseKlTraining training;
  // Its noise vanishes as the flow approaches the theory; the other gradient's does not.
  training.path_gradient = true;
  auto const report      = [](meander::TrainingReport const& now) {
    std::printf("  step %6lld: loss %.4f, %.0f rows/s\n", static_cast<long long>(now.point.step),
                     now.point.loss, now.rows_per_second);
    return true;
  };
  return meander::Trainer<double>(exec, initial, trainer).reverse_kl(target, training, report).last;
}

phi4::Proposals<Memory> propose(Exec const& exec, Target const& target, meander::Model const& model,
                                phi4::MetropolisOptions const& options) {
  return phi4::draw(exec, meander::make_flow<double>(exec, model), target, options);
}

phi4::Estimates run_metropolis(Exec const& exec, phi4::Proposals<Memory> const& proposals,
                               phi4::MetropolisOptions const& options, char const* of) {
  auto const importance = meander::importance_estimate(exec, proposals.log_weight);
  auto const estimates  = phi4::metropolis(exec, proposals, options);
  std::printf("%s: acceptance %.3f, effective sample size %.3f of 1 (%lld proposals)\n", of,
              estimates.acceptance, importance.effective_sample_size / double(importance.rows),
              static_cast<long long>(options.proposals()));
  return estimates;
}

/// Whether all that was observed agrees.
bool compare(phi4::Estimates const& flow, phi4::Estimates const& hmc) {
  std::printf("\n%-14s %24s %8s %24s %8s %10s\n", "", "flow + Metropolis", "tau_int", "HMC",
              "tau_int", "difference");
  bool agree = true;
  for (int i = 0; i < phi4::num_observables; ++i) {
    auto const& a = flow.of[i];
    auto const& b = hmc.of[i];
    std::printf("%-14s %11.6f +- %.6f %8.2f %13.6f +- %.6f %8.2f %6.1f sigma\n",
                phi4::observables[i], a.mean, a.error, a.autocorrelation_time, b.mean, b.error,
                b.autocorrelation_time, phi4::sigmas(a, b));
    agree = agree && phi4::sigmas(a, b) < 3;
  }
  std::printf("(tau_int in proposals and in trajectories; 0.5: no autocorrelation)\n");
  return agree;
}

bool run(Exec const& exec, Options const& options) {
  phi4::Action const action;
  double const mass_squared = phi4::gap_mass_squared(action);
  Target const target{action, phi4::free_field_modes<Memory>(mass_squared)};
  std::printf(
      "phi^4 on %d x %d sites, m^2 = %g, lambda = %g; the nearest free field has M^2 = %.3f\n",
      phi4::extent, phi4::extent, action.mass_squared, action.lambda, mass_squared);

  auto const initial = initial_model(target, options.layers_per_site);
  run_metropolis(exec, propose(exec, target, initial, options.metropolis), options.metropolis,
                 "untrained");
  Kokkos::Timer timer;
  auto const model = train(exec, target, initial, options);
  std::printf("%d layers, %d steps of %d draws: %.1f s\n", options.layers_per_site * phi4::sites,
              options.steps, options.batch, timer.seconds());

  timer.reset();
  auto const flow = run_metropolis(exec, propose(exec, target, model, options.metropolis),
                                   options.metropolis, "trained");
  std::printf("sampled in %.1f s\n", timer.seconds());

  timer.reset();
  auto const hmc = phi4::hmc(exec, action, options.hmc);
  std::printf("HMC: acceptance %.3f (%d chains of %d trajectories), %.1f s\n", hmc.acceptance,
              options.hmc.chains, options.hmc.measurements, timer.seconds());
  return compare(flow, hmc);
}

bool check(Exec const& exec) {
  bool const gradient = phi4::gradient_is_right(exec, phi4::Action{});
  return phi4::hmc_is_right(exec, quick_options().hmc) && gradient;
}

}  // namespace

int main(int argc, char** argv) try {
  Kokkos::ScopeGuard guard(argc, argv);
  Exec const exec;
  bool const is_quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
  bool const is_check = argc == 2 && std::strcmp(argv[1], "--check") == 0;
  if (argc > 1 && !is_quick && !is_check)
    return std::fprintf(stderr, "usage: phi4 [--quick | --check]\n"), 2;
  bool const right = is_check ? check(exec) : run(exec, is_quick ? quick_options() : Options{});
  std::printf("%s\n", right ? "agreed" : "NOT agreed: 3 standard errors apart, or more");
  return right ? 0 : 1;
} catch (std::exception const& error) {
  std::fprintf(stderr, "phi4: %s\n", error.what());
  return 1;
}
