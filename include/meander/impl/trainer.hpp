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

namespace meander::impl {

/// What one kind of training differs in from another.
struct TrainingRun {
  /// What a run must have in common with the one that it resumes, beside the options: name and
  /// value.
  std::map<std::string, std::string> settings;
  double rows_per_step = 0;
  /// Queues what gives the loss of a step (where `loss` points) and its gradients.
  std::function<void(std::int64_t step, double* loss)> loss_and_gradients;
  /// Queues what gives the validation loss; null where there is none.
  std::function<void(double* loss)> validation_loss;
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

}  // namespace meander::impl
