// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <type_traits>
#include <variant>

#include <Kokkos_Core.hpp>

#include <meander/direction.hpp>
#include <meander/impl/check.hpp>
#include <meander/impl/flow_check.hpp>
#include <meander/impl/map_direction.hpp>
#include <meander/impl/planar_vjp.hpp>
#include <meander/impl/view_traits.hpp>

namespace meander::impl {

/// The only stack of a flow.
template <class Flow>
auto const& single_stack(char const* function, Flow const& flow) {
  check_extent(function, "flow", "the number of stacks",
               static_cast<std::int64_t>(flow.layers().size()), 1, "all that has gradients so far");
  auto const& layer = flow.layers().front();
  check_has_gradient(function, layer.index() == 0);
  return std::get<0>(layer);
}

/// Makes the call one of the log-density of the flow at the rows that it reads.
template <class Storage, class Compute, class Flow, class Stack>
void score(PlanarVjpCall<Storage, Compute>& call, Flow const& flow, Stack const& stack) {
  call.stack = stack.coefficients();
  call.direction =
      flow.direction() == Direction::generative ? MapDirection::inverse : MapDirection::forward;
  call.scored = true;
  call.base   = flow.state().base;
}

/// \throws std::invalid_argument that says that a mean is not taken over no rows
void check_mean_rows(char const* function, char const* argument, std::int64_t rows);

/// What the compiler can see of a loss.
template <class ExecutionSpace, class View>
constexpr void check_loss_type() {
  static_assert(Kokkos::is_view_v<View> && View::rank() == 0 && is_writable_v<View> &&
                    std::is_same_v<value_t<View>, double>,
                "meander::negative_log_likelihood, reverse_kl: loss must be a View of rank 0 of "
                "double, not const.");
  static_assert(is_accessible_from_v<View, ExecutionSpace>,
                "meander::negative_log_likelihood, reverse_kl: loss must lie in memory that the "
                "execution space can access.");
}

/// A View of rank 0.
template <class View>
Elements single_element(View const& view) {
  return {view.data(), 1, 1, 0, 0, sizeof(typename View::value_type)};
}

}  // namespace meander::impl
