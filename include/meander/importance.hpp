// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <Kokkos_Core.hpp>

#include <meander/impl/strided.hpp>
#include <meander/impl/view_traits.hpp>

namespace meander {

/// \brief What a sample of q says of a target p = Z^-1 exp(log p), by its importance weights
/// w = p(x) / q(x).
struct ImportanceEstimate {
  std::int64_t rows = 0;  ///< B
  /// (sum w)^2 / sum w^2 (Kish), of 1 to B: how many rows of p itself the sample is worth.
  double effective_sample_size = 0;
  double effective_fraction    = 0;  ///< that over B
  double log_z                 = 0;  ///< log mean w, in nats
  /// Standard error of log_z, to first order in that of the mean (delta method): too small where a
  /// few weights carry the sum. Infinite for one row.
  double log_z_error      = 0;
  double largest_fraction = 0;  ///< the largest weight over their sum
};

namespace impl {

/// Instantiated in src/ for every enabled execution space.
template <class ExecutionSpace, class T>
ImportanceEstimate importance_estimate(ExecutionSpace const& exec,
                                       StridedVector<T const> const& log_weights);

}  // namespace impl

/// \brief Judges a sample by the logarithms of its importance weights.
///
/// Weights are scaled by the largest, so that none overflows. A weight of zero (log weight minus
/// infinity: a row that p does not allow) counts as a row; where all are zero, log_z is minus
/// infinity, its error infinite, and the others zero. A NaN or plus infinity makes all of them NaN.
/// The same bits for any number of threads.
///
/// Waits for the result: for what is on `exec` before as well. Allocates.
///
/// \param[in] exec the instance the work is queued on
/// \param[in] log_weights (B), log p(x) - log q(x) of rows x of q, in nats; float or double, at
/// least one
/// \throws std::invalid_argument if there is no row
/// \see Kish 1965, "Survey Sampling", sec. 8.2; Owen 2013, "Monte Carlo theory, methods and
/// examples", ch. 9
template <class ExecutionSpace, class LogWeightsView>
ImportanceEstimate importance_estimate(ExecutionSpace const& exec,
                                       LogWeightsView const& log_weights) {
  static_assert(Kokkos::is_execution_space_v<ExecutionSpace>,
                "meander::importance_estimate: exec must be an instance of a Kokkos execution "
                "space.");
  static_assert(Kokkos::is_view_v<LogWeightsView> && LogWeightsView::rank() == 1 &&
                    impl::is_real_v<impl::value_t<LogWeightsView>>,
                "meander::importance_estimate: log_weights must be a Kokkos View of rank 1 (batch) "
                "of float or double.");
  static_assert(impl::is_accessible_from_v<LogWeightsView, ExecutionSpace>,
                "meander::importance_estimate: log_weights must lie in memory that the execution "
                "space can access.");
  return impl::importance_estimate(exec, impl::as_const(impl::strided_vector(log_weights)));
}

}  // namespace meander
