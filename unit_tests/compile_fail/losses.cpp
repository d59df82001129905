// SPDX-License-Identifier: BSD-3-Clause
// As planar.cpp: one misuse of a loss per macro.
#include <Kokkos_Core.hpp>

#include <meander/importance.hpp>
#include <meander/negative_log_likelihood.hpp>
#include <meander/reverse_kl.hpp>

using space = Kokkos::DefaultExecutionSpace;

template <class T>
using Matrix = Kokkos::View<T**, space>;
template <class T>
using Vector = Kokkos::View<T*, space>;

template <class T>
using Parameters = meander::PlanarParameters<Matrix<T>, Matrix<T>, Vector<T>>;

struct Target {
  KOKKOS_FUNCTION float operator()(meander::Row<float const> row,
                                   meander::Row<float> grad_row) const {
    for (int d = 0; d < row.size(); ++d) grad_row(d) = -row(d);
    return 0;
  }
};

struct WithoutGradient {
  KOKKOS_FUNCTION float operator()(meander::Row<float const> row) const { return row(0); }
};

void use(meander::Flow<float> const& flow, meander::PlanarVjpWorkspace<float> const& workspace,
         meander::ReverseKlWorkspace<float> const& draws, Parameters<float> const& parameters,
         Parameters<double> const& gradients, Matrix<float> const& x) {
  Kokkos::View<double, space> const loss("loss");
#if defined(LOSS_OF_FLOAT)
  meander::negative_log_likelihood(space(), workspace, flow, parameters, x,
                                   Kokkos::View<float, space>("loss"), gradients);
#elif defined(LOSS_OF_RANK_1)
  meander::reverse_kl(space(), draws, flow, parameters, Target{}, 1, 0, 1, {},
                      Vector<double>("loss", 1), gradients);
#elif defined(DATA_OF_RANK_1)
  meander::negative_log_likelihood(space(), workspace, flow, parameters, parameters.b, loss,
                                   gradients);
#elif defined(GRADIENTS_CONST)
  meander::negative_log_likelihood(space(), workspace, flow, parameters, x, loss,
                                   meander::PlanarParameters{Matrix<double const>(gradients.w),
                                                             Matrix<double const>(gradients.u),
                                                             Vector<double const>(gradients.b)});
#elif defined(TARGET_WITHOUT_GRADIENT)
  meander::reverse_kl(space(), draws, flow, parameters, WithoutGradient{}, 1, 0, 1, {}, loss,
                      gradients);
#elif defined(WEIGHTS_OF_RANK_2)
  meander::importance_estimate(space(), x);
#else
  meander::negative_log_likelihood(space(), workspace, flow, parameters, Matrix<float const>(x),
                                   loss, gradients);
  meander::reverse_kl(space(), draws, flow, parameters, Target{}, 1, 0, 1, {}, loss, gradients);
  meander::importance_estimate(space(), draws.log_weights());
#endif
}
