// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include <meander/impl/check.hpp>
#include <meander/impl/strided.hpp>

namespace meander::impl {

/// What an Adam keeps on the device beside its moments, as doubles, so that all of its state is one
/// array: whole numbers are exact up to 2^53.
enum AdamNumber : std::int32_t {
  adam_taken,          ///< steps taken and not undone: the t of the bias correction
  adam_refused,        ///< calls whose loss or gradient was not finite
  adam_undone,         ///< steps undone because the call after them was refused
  adam_most_taken,     ///< the largest that adam_taken has been
  adam_stalled,        ///< calls since adam_most_taken grew
  adam_can_undo,       ///< 1 right after a step was taken
  adam_rate_factor,    ///< of the learning rate, halved with every undone step
  adam_gradient_norm,  ///< of the last call, before clipping
  adam_numbers         ///< how many there are
};

/// Where the state stands in its array. The parameters are counted as w, then u, then b, row-major.
struct AdamLayout {
  /// One team takes that many parameters; also the number of squares in one part of the norm, whose
  /// order of summation it fixes.
  static constexpr std::int64_t chunk = 4096;

  std::int64_t layers, dim, count, chunks;
  std::int64_t numbers = 0, before = adam_numbers;
  std::int64_t parts, first, second, undo, undo_first, undo_second, size;

  AdamLayout(std::int64_t layers_, std::int64_t dim_)
      : layers(layers_),
        dim(dim_),
        count(layers * (2 * dim + 1)),
        chunks((count + chunk - 1) / chunk),
        parts(2 * std::int64_t(adam_numbers)),
        first(parts + chunks),
        second(first + count),
        undo(second + count),
        undo_first(undo + count),
        undo_second(undo_first + count),
        size(undo_second + count) {}
};

/// The options of one step, as the kernel takes them.
struct AdamStep {
  double learning_rate, beta1, beta2, epsilon, weight_decay, max_grad_norm;
  bool decoupled;
};

template <class Parameter, class Gradient>
struct AdamCall {
  AdamLayout layout;
  AdamStep options;
  StridedMatrix<Parameter> w, u;
  StridedVector<Parameter> b;
  StridedMatrix<Gradient const> grad_w, grad_u;
  StridedVector<Gradient const> grad_b;
  double const* loss;  ///< null: not looked at
  double* state;
};

/// The learning rate is in its range; w, u, b, and their gradients after them, are distinct where
/// they are written.
/// \throws std::invalid_argument
void check_adam_call(double learning_rate, Elements const (&all)[6], double const* loss);

/// \throws std::invalid_argument naming meander::Adam and the argument
void check_adam_extents(std::int64_t num_layers, std::int64_t dim);

/// One launch for up to AdamLayout::chunk parameters, two for more. Instantiated in src/ for every
/// enabled execution space. Asynchronous.
template <class ExecutionSpace, class Parameter, class Gradient>
void adam_step(ExecutionSpace const& exec, AdamCall<Parameter, Gradient> const& call);

/// Sets the state to that of no step taken. Asynchronous.
template <class ExecutionSpace>
void adam_reset(ExecutionSpace const& exec, AdamLayout const& layout, double* state);

}  // namespace meander::impl
