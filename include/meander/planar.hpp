// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <meander/impl/check.hpp>
#include <meander/impl/map_check.hpp>
#include <meander/impl/planar_forward.hpp>
#include <meander/impl/planar_inverse.hpp>
#include <meander/impl/strided.hpp>
#include <meander/impl/view_traits.hpp>
#include <meander/planar_options.hpp>
#include <meander/planar_parameters.hpp>
#include <meander/planar_stack.hpp>

namespace meander {

/// \brief Maps a batch of rows through a stack of planar layers: y = f_L(...f_1(z)).
///
/// Asynchronous with respect to the host: the work is queued on `exec`; nothing is allocated,
/// copied or fenced. Each row is computed on its own, so results depend neither on the number of
/// threads nor on how a batch is split into calls. A row that holds a NaN or an infinity comes out
/// NaN.
///
/// \param[in] exec the instance the work is queued on
/// \param[in] stack L layers on R^D
/// \param[in] z (B, D), any layout; float or double, no wider than the compute type of the stack
/// \param[out] y (B, D), any layout; the very same elements as z, or none of them
/// \param[out] log_det (B), natural log of |det dy/dz| per row, summed over the layers (Rezende &
/// Mohamed 2015, eq. 13); must share no memory with z and y
/// \throws std::invalid_argument if extents disagree, y overlaps z without being z, or log_det
/// overlaps either
template <class ExecutionSpace, class StackSpace, class Compute, class ZView, class YView,
          class LogDetView>
void forward(ExecutionSpace const& exec, PlanarStack<Compute, StackSpace> const& stack,
             ZView const& z, YView const& y, LogDetView const& log_det) {
  impl::check_map<ExecutionSpace>("meander::forward", stack, "z", z, "y", y);
  impl::check_log_det<ExecutionSpace>("meander::forward", "z", z, "y", y, log_det);
  impl::planar_forward(exec, stack.coefficients(), impl::as_const(impl::strided_matrix(z)),
                       impl::strided_matrix(y), impl::strided_vector(log_det));
}

/// \brief The same without the log-determinant.
template <class ExecutionSpace, class StackSpace, class Compute, class ZView, class YView>
void forward(ExecutionSpace const& exec, PlanarStack<Compute, StackSpace> const& stack,
             ZView const& z, YView const& y) {
  impl::check_map<ExecutionSpace>("meander::forward", stack, "z", z, "y", y);
  impl::planar_forward(exec, stack.coefficients(), impl::as_const(impl::strided_matrix(z)),
                       impl::strided_matrix(y), impl::StridedVector<impl::value_t<ZView>>{});
}

/// \brief Takes a batch of rows back through a stack of planar layers: z with y = f_L(...f_1(z)).
///
/// A tanh layer is undone by solving a + (s - 1) tanh(a) = w.y + b for a = w.z + b, which has one
/// root since s > 0, to the rounding of the compute type: at most a fixed number of steps, each row
/// on its own; a leaky_relu layer in closed form. What rounding there is in y, w and b is magnified
/// by 1/det of each layer, as in any inverse; a layer with s >> 1 gives z to the rounding of y.
///
/// Asynchronous, and independent of threads and of how a batch is split, as forward is. A row that
/// holds a NaN or an infinity comes out NaN. Where the s of a layer has underflowed to zero (with
/// softplus at w.u < -103 in float, -745 in double) a tanh layer is singular where w.z + b = 0: z
/// is still the root, and log_det infinite; a leaky_relu layer is singular for all w.z + b >= 0,
/// and z infinite or NaN.
///
/// \param[in] exec the instance the work is queued on
/// \param[in] stack L layers on R^D; with Constraint::none prepared as PlanarOptions::invertible
/// \param[in] y (B, D), any layout; float or double, no wider than the compute type of the stack
/// \param[out] z (B, D), any layout; the very same elements as y, or none of them
/// \param[out] log_det (B), natural log of |det dz/dy| per row: minus the sum of the layers'
/// log-determinants at z; must share no memory with y and z
/// \throws std::invalid_argument if extents disagree, z overlaps y without being y, log_det
/// overlaps either, or the stack has not been checked to have an inverse
/// (PlanarOptions::invertible)
template <class ExecutionSpace, class StackSpace, class Compute, class YView, class ZView,
          class LogDetView>
void inverse(ExecutionSpace const& exec, PlanarStack<Compute, StackSpace> const& stack,
             YView const& y, ZView const& z, LogDetView const& log_det) {
  impl::check_map<ExecutionSpace>("meander::inverse", stack, "y", y, "z", z);
  impl::check_log_det<ExecutionSpace>("meander::inverse", "y", y, "z", z, log_det);
  impl::check_invertible("meander::inverse", stack.options());
  impl::planar_inverse(exec, stack.coefficients(), impl::as_const(impl::strided_matrix(y)),
                       impl::strided_matrix(z), impl::strided_vector(log_det));
}

/// \brief The same without the log-determinant.
template <class ExecutionSpace, class StackSpace, class Compute, class YView, class ZView>
void inverse(ExecutionSpace const& exec, PlanarStack<Compute, StackSpace> const& stack,
             YView const& y, ZView const& z) {
  impl::check_map<ExecutionSpace>("meander::inverse", stack, "y", y, "z", z);
  impl::check_invertible("meander::inverse", stack.options());
  impl::planar_inverse(exec, stack.coefficients(), impl::as_const(impl::strided_matrix(y)),
                       impl::strided_matrix(z), impl::StridedVector<impl::value_t<YView>>{});
}

}  // namespace meander
