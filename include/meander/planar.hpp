// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include <Kokkos_Core.hpp>

#include <meander/impl/check.hpp>
#include <meander/impl/planar_forward.hpp>
#include <meander/impl/planar_inverse.hpp>
#include <meander/impl/strided.hpp>
#include <meander/impl/view_traits.hpp>
#include <meander/planar_options.hpp>
#include <meander/planar_parameters.hpp>
#include <meander/planar_stack.hpp>

namespace meander {

namespace impl {

/// What forward (z to y) and inverse (y to z) ask of the rows they read and write.
template <class ExecutionSpace, class StackSpace, class Compute, class FromView, class ToView>
void check_map(char const* function, PlanarStack<Compute, StackSpace> const& stack,
               char const* from_name, FromView const& from, char const* to_name, ToView const& to) {
  static_assert(std::is_same_v<ExecutionSpace, StackSpace>,
                "meander::forward, meander::inverse: exec must be an instance of the execution "
                "space the stack was made for.");
  static_assert(Kokkos::is_view_v<FromView> && Kokkos::is_view_v<ToView>,
                "meander::forward, meander::inverse: z and y must be Kokkos Views.");
  static_assert(FromView::rank() == 2 && ToView::rank() == 2,
                "meander::forward, meander::inverse: z and y must have rank 2 (batch, dimension).");
  static_assert(is_writable_v<ToView>,
                "meander::forward, meander::inverse: the rows that are written must not be a View "
                "of const.");
  static_assert(std::is_same_v<value_t<FromView>, value_t<ToView>>,
                "meander::forward, meander::inverse: z and y must have the same value type.");
  static_assert(is_supported_pair_v<value_t<FromView>, Compute>,
                "meander::forward, meander::inverse: the value type of z and y must be float or "
                "double and no wider than the stack's compute type.");
  static_assert(is_accessible_from_v<FromView, ExecutionSpace> &&
                    is_accessible_from_v<ToView, ExecutionSpace>,
                "meander::forward, meander::inverse: z and y must lie in memory that the execution "
                "space can access.");
  std::string const rows = std::string("extent 0 of ") + from_name;
  std::string const dim  = std::string("extent 1 of ") + from_name;
  check_extent(function, from_name, "extent 1", from.extent(1), stack.dim(),
               "the dimension of the stack");
  check_extent(function, to_name, "extent 0", to.extent(0), from.extent(0), rows.c_str());
  check_extent(function, to_name, "extent 1", to.extent(1), from.extent(1), dim.c_str());
  check_distinct(function, to_name, elements(strided_matrix(to)));
  check_same_or_disjoint(function, to_name, from_name, elements(strided_matrix(to)),
                         elements(strided_matrix(from)));
}

template <class ExecutionSpace, class FromView, class ToView, class LogDetView>
void check_log_det(char const* function, char const* from_name, FromView const& from,
                   char const* to_name, ToView const& to, LogDetView const& log_det) {
  static_assert(Kokkos::is_view_v<LogDetView> && LogDetView::rank() == 1 &&
                    is_writable_v<LogDetView> &&
                    std::is_same_v<value_t<LogDetView>, value_t<FromView>>,
                "meander::forward, meander::inverse: log_det must be a View of rank 1 (batch), not "
                "const, with the value type of z and y.");
  static_assert(is_accessible_from_v<LogDetView, ExecutionSpace>,
                "meander::forward, meander::inverse: log_det must lie in memory that the execution "
                "space can access.");
  std::string const rows = std::string("extent 0 of ") + from_name;
  check_extent(function, "log_det", "extent 0", log_det.extent(0), from.extent(0), rows.c_str());
  auto const log_det_elements = elements(strided_vector(log_det));
  check_distinct(function, "log_det", log_det_elements);
  check_disjoint(function, "log_det", from_name, log_det_elements, elements(strided_matrix(from)));
  check_disjoint(function, "log_det", to_name, log_det_elements, elements(strided_matrix(to)));
}

}  // namespace impl

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
