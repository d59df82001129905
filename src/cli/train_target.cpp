// SPDX-License-Identifier: BSD-3-Clause
// meander train --target: reverse KL to one of the energies.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <Kokkos_Core.hpp>

#include <meander/flow.hpp>
#include <meander/importance.hpp>
#include <meander/initial_model.hpp>
#include <meander/model_file.hpp>
#include <meander/row.hpp>
#include <meander/trainer.hpp>

#include "commands.hpp"
#include "energies.hpp"
#include "runtime.hpp"
#include "train_run.hpp"

namespace meander::cli {

namespace {

using Memory = Space::memory_space;
using Matrix = Kokkos::View<double**, Kokkos::LayoutRight, Memory>;
using Vector = Kokkos::View<double*, Memory>;

/// \brief log p - log q of rows that q has drawn; takes the place of log q.
struct LogWeights {
  Energy target;
  Matrix rows;
  Vector log_q;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    double gradient[2];
    double const log_p = target(Row<double const>(&rows(i, 0), 2, 1), Row<double>(gradient, 2, 1));
    log_q(i)           = log_p - log_q(i);
  }
};

/// \brief What a fresh sample says of a model.
struct Estimate {
  double loss, loss_error;  ///< the mean of log q - log p, and its standard error
  ImportanceEstimate weights;
};

Estimate estimate(Space const& exec, Model const& model, Energy const& target, std::uint64_t seed,
                  std::int64_t rows) {
  constexpr std::int64_t chunk = std::int64_t{1} << 18;
  // Training draws rows from number 0 on: none of these.
  constexpr std::uint64_t first_row = std::uint64_t{1} << 63;
  auto const flow                   = make_flow<double>(exec, model);
  Vector const log_weights("meander::cli::log_weights", static_cast<std::size_t>(rows));
  Matrix const x("meander::cli::rows", static_cast<std::size_t>(std::min(chunk, rows)), 2);
  for (std::int64_t first = 0; first < rows; first += chunk) {
    auto const count = std::min(chunk, rows - first);
    Matrix const part(x.data(), static_cast<std::size_t>(count), 2);
    Vector const log_q(log_weights.data() + first, static_cast<std::size_t>(count));
    sample(exec, flow, seed, first_row + static_cast<std::uint64_t>(first), part, log_q);
    Kokkos::parallel_for(
        "meander::cli::log_weights",
        Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>(exec, 0, count),
        LogWeights{target, part, log_q});
  }
  Estimate result{0, 0, importance_estimate(exec, log_weights)};
  auto const host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), log_weights);
  long double sum = 0, squares = 0;
  auto const n = static_cast<long double>(rows);
  for (std::size_t i = 0; i < host.size(); ++i) sum -= host(i);
  for (std::size_t i = 0; i < host.size(); ++i) {
    long double const off = -host(i) - sum / n;
    squares += off * off;
  }
  result.loss       = static_cast<double>(sum / n);
  result.loss_error = static_cast<double>(std::sqrt(squares / (n * std::max(1.0L, n - 1))));
  return result;
}

template <class Compute>
void train(TrainArguments const& arguments) {
  Space const exec;
  Energy const target{arguments.target};
  constexpr int dim  = 2;
  auto const initial = initial_planar_model(arguments.layers, dim, arguments.direction,
                                            arguments.trainer.seed, {.planar = arguments.planar});
  auto options       = trainer_options(arguments, arguments.trainer.batch, dim);
  options.fitted_to  = "U" + std::to_string(arguments.target);
  Trainer<Compute, Space> trainer(exec, initial, options);
  TrainRun run(arguments, 0, arguments.reverse_kl.validation_batch > 0);
  auto const result = run.run(trainer, [&](ReportFunction const& report) {
    return trainer.reverse_kl(target, arguments.reverse_kl, report);
  });
  run.end_if_interrupted();
  double const log_z = target.log_z();
  LossCurve curve;
  curve.floor      = -log_z;
  curve.floor_name = "-log z";
  // While the target does not count in full, losses are of another problem.
  curve.settled = static_cast<double>(arguments.reverse_kl.beta_steps);
  run.write_results(result, result.best, curve);

  auto const found = estimate(exec, read_model(arguments.out), target, arguments.trainer.seed,
                              arguments.estimate_rows);
  print("steps " + std::to_string(result.steps) + ", loss " + fixed(found.loss) + ", KL " +
        fixed(found.loss + log_z) + " +- " + fixed(found.loss_error) + ", log Z " + fixed(log_z) +
        ", by weights " + fixed(found.weights.log_z) + " +- " + fixed(found.weights.log_z_error) +
        ", ESS " + fixed(found.weights.effective_fraction) + ", " + run.summary_end(result));
  run.check_loss(found.loss);
}

}  // namespace

void train_on_target(TrainArguments const& arguments) {
  check_results_can_be_written(arguments);
  Runtime const runtime(arguments.threads);
  if (arguments.compute == "float") return train<float>(arguments);
  train<double>(arguments);
}

}  // namespace meander::cli
