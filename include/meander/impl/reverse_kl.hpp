// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include <Kokkos_Core.hpp>

#include <meander/impl/strided.hpp>
#include <meander/row.hpp>

namespace meander::impl {

/// \throws std::invalid_argument if the batch is not of 1 to max_batch rows, or beta is not finite
void check_reverse_kl(std::int64_t batch, std::int64_t max_batch, double beta);

/// grad += score. Instantiated in src/ for every enabled execution space, as is the following.
/// Asynchronous.
template <class ExecutionSpace, class Compute>
void add_rows(ExecutionSpace const& exec, StridedMatrix<Compute const> const& score,
              StridedMatrix<Compute> const& grad);

/// *mean = the mean of the first `rows` of `values`, in an order that depends on `rows` alone.
/// `parts` has room for mean_parts numbers. Asynchronous.
inline constexpr std::int64_t mean_parts = 4096;
template <class ExecutionSpace>
void mean_of_rows(ExecutionSpace const& exec, double const* values, std::int64_t rows,
                  double* parts, double* mean);

/// Calls the user's log-density of each row.
template <class Compute, class Target>
struct EvaluateTarget {
  Target target;
  StridedMatrix<Compute const> rows;
  StridedMatrix<Compute> grad;  ///< takes that of the loss, by way of the target
  Compute const* log_q;
  Compute* grad_log_det;
  double *log_weights, *loss;
  double beta;
  Compute by_log_det;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    int const dim = int(rows.extent1);
    Row<Compute const> const row(rows.data + i * rows.stride0, dim, rows.stride1);
    Row<Compute> const grad_row(grad.data + i * grad.stride0, dim, grad.stride1);
    auto const log_p = double(target(row, grad_row));
    for (int d = 0; d < dim; ++d) grad_row(d) *= Compute(-beta);
    auto const log_q_of_row = double(log_q[i]);
    log_weights[i]          = log_p - log_q_of_row;
    loss[i]                 = log_q_of_row - beta * log_p;
    grad_log_det[i]         = by_log_det;
  }
};

/// The one kernel that user code compiles: it holds the user's function.
template <class ExecutionSpace, class Compute, class Target>
void evaluate_target(ExecutionSpace const& exec, EvaluateTarget<Compute, Target> const& work) {
  Kokkos::parallel_for("meander::reverse_kl[target]",
                       Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(
                           exec, 0, work.rows.extent0),
                       work);
}

}  // namespace meander::impl
