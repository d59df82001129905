// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <Kokkos_Core.hpp>

#include <meander/impl/check.hpp>
#include <meander/impl/planar_forward.hpp>
#include <meander/impl/strided.hpp>
#include <meander/impl/view_traits.hpp>
#include <meander/planar_options.hpp>
#include <meander/planar_parameters.hpp>
#include <meander/planar_stack.hpp>

namespace meander {

namespace impl {

template <class ExecutionSpace, class StackSpace, class Compute, class ZView, class YView>
void check_forward(PlanarStack<Compute, StackSpace> const& stack, ZView const& z, YView const& y) {
  static_assert(std::is_same_v<ExecutionSpace, StackSpace>,
                "meander::forward: exec must be an instance of the execution space the stack was "
                "made for.");
  static_assert(Kokkos::is_view_v<ZView> && Kokkos::is_view_v<YView>,
                "meander::forward: z and y must be Kokkos Views.");
  static_assert(ZView::rank() == 2 && YView::rank() == 2,
                "meander::forward: z and y must have rank 2 (batch, dimension).");
  static_assert(is_writable_v<YView>, "meander::forward: y must not be a View of const.");
  static_assert(std::is_same_v<value_t<ZView>, value_t<YView>>,
                "meander::forward: z and y must have the same value type.");
  static_assert(is_supported_pair_v<value_t<ZView>, Compute>,
                "meander::forward: the value type of z and y must be float or double and no wider "
                "than the stack's compute type.");
  static_assert(
      is_accessible_from_v<ZView, ExecutionSpace> && is_accessible_from_v<YView, ExecutionSpace>,
      "meander::forward: z and y must lie in memory that the execution space can access.");
  char const* const function = "meander::forward";
  check_extent(function, "z", "extent 1", z.extent(1), stack.dim(), "the dimension of the stack");
  check_extent(function, "y", "extent 0", y.extent(0), z.extent(0), "extent 0 of z");
  check_extent(function, "y", "extent 1", y.extent(1), z.extent(1), "extent 1 of z");
  check_distinct(function, "y", elements(strided_matrix(y)));
  check_same_or_disjoint(function, "y", "z", elements(strided_matrix(y)),
                         elements(strided_matrix(z)));
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
  impl::check_forward<ExecutionSpace>(stack, z, y);
  static_assert(Kokkos::is_view_v<LogDetView> && LogDetView::rank() == 1 &&
                    impl::is_writable_v<LogDetView> &&
                    std::is_same_v<impl::value_t<LogDetView>, impl::value_t<ZView>>,
                "meander::forward: log_det must be a View of rank 1 (batch), not const, with the "
                "value type of z and y.");
  static_assert(
      impl::is_accessible_from_v<LogDetView, ExecutionSpace>,
      "meander::forward: log_det must lie in memory that the execution space can access.");
  impl::check_extent("meander::forward", "log_det", "extent 0", log_det.extent(0), z.extent(0),
                     "extent 0 of z");
  auto const log_det_elements = impl::elements(impl::strided_vector(log_det));
  impl::check_distinct("meander::forward", "log_det", log_det_elements);
  impl::check_disjoint("meander::forward", "log_det", "z", log_det_elements,
                       impl::elements(impl::strided_matrix(z)));
  impl::check_disjoint("meander::forward", "log_det", "y", log_det_elements,
                       impl::elements(impl::strided_matrix(y)));
  impl::planar_forward(exec, stack.coefficients(), impl::as_const(impl::strided_matrix(z)),
                       impl::strided_matrix(y), impl::strided_vector(log_det));
}

/// \brief The same without the log-determinant.
template <class ExecutionSpace, class StackSpace, class Compute, class ZView, class YView>
void forward(ExecutionSpace const& exec, PlanarStack<Compute, StackSpace> const& stack,
             ZView const& z, YView const& y) {
  impl::check_forward<ExecutionSpace>(stack, z, y);
  impl::planar_forward(exec, stack.coefficients(), impl::as_const(impl::strided_matrix(z)),
                       impl::strided_matrix(y), impl::StridedVector<impl::value_t<ZView>>{});
}

}  // namespace meander
