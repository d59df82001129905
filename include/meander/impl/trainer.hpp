// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include <Kokkos_Core.hpp>

#include <meander/direction.hpp>
#include <meander/impl/strided.hpp>
#include <meander/model.hpp>
#include <meander/planar_options.hpp>

namespace meander {

struct ReverseKlTraining;
struct TrainerOptions;

namespace impl {

/// What a run is to have in common with the one that it resumes, beside the options (name and
/// value), and how fast it goes.
struct TrainingKind {
  std::map<std::string, std::string> settings;
  double rows_per_step = 0;
};

/// What one kind of training differs in from another. Both functions queue work; `Loss` is a View
/// of rank 0.
template <class Loss>
struct TrainingRun {
  TrainingKind kind;
  std::function<void(std::int64_t step, Loss const& loss)> loss_and_gradients;
  std::function<void(Loss const& loss)> validation_loss;  ///< null where there is no validation
};

/// A Model of raw parameters in device memory. Waits for `exec`.
template <class ExecutionSpace, class Parameter>
Model model_of_parameters(ExecutionSpace const& exec, StridedMatrix<Parameter const> w,
                          StridedMatrix<Parameter const> u, StridedVector<Parameter const> b,
                          PlanarOptions const& options, Direction direction);

/// What a Trainer holds.
template <class Compute, class ExecutionSpace>
struct TrainerState;

/// The seed of validation rows that are drawn, and a name for the order that splits rows.
std::uint64_t validation_seed(std::uint64_t seed);

/// \throws std::invalid_argument if the options do not fit
TrainingKind reverse_kl_kind(TrainerOptions const& options, ReverseKlTraining const& training);

}  // namespace impl

}  // namespace meander
