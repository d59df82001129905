// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <type_traits>

#include <Kokkos_Core.hpp>

#include <meander/impl/check.hpp>
#include <meander/impl/strided.hpp>
#include <meander/impl/view_traits.hpp>

namespace meander::impl {

/// What forward (z to y) and inverse (y to z) of the layers of one family ask of the rows they read
/// and write. `dim_of` says whose dimension it is.
template <class ExecutionSpace, class Stack, class FromView, class ToView>
void check_map(char const* function, Stack const& stack, char const* from_name,
               FromView const& from, char const* to_name, ToView const& to,
               char const* dim_of = "the dimension of the stack") {
  static_assert(std::is_same_v<ExecutionSpace, typename Stack::execution_space>,
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
  static_assert(is_supported_pair_v<value_t<FromView>, typename Stack::compute_type>,
                "meander::forward, meander::inverse: the value type of z and y must be float or "
                "double and no wider than the stack's compute type.");
  static_assert(is_accessible_from_v<FromView, ExecutionSpace> &&
                    is_accessible_from_v<ToView, ExecutionSpace>,
                "meander::forward, meander::inverse: z and y must lie in memory that the execution "
                "space can access.");
  std::string const rows = std::string("extent 0 of ") + from_name;
  std::string const dim  = std::string("extent 1 of ") + from_name;
  check_extent(function, from_name, "extent 1", from.extent(1), stack.dim(), dim_of);
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

}  // namespace meander::impl
