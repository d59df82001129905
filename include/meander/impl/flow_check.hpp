// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <variant>

#include <Kokkos_Core.hpp>

#include <meander/direction.hpp>
#include <meander/impl/check.hpp>
#include <meander/impl/flow.hpp>
#include <meander/impl/random.hpp>
#include <meander/impl/strided.hpp>
#include <meander/impl/view_traits.hpp>

namespace meander::impl {

void check_direction(Direction direction);
void check_has_layers(std::size_t layers);
void check_layer_dim(std::size_t layer, std::int64_t dim, std::int64_t expected);

/// The length of loc where there is no layer: 1 to max_dim.
std::int32_t checked_dim(std::int64_t dim, std::int64_t max_dim);

/// The only layer of a flow is a stack of planar ones.
void check_has_gradient(char const* function, bool is_planar);

/// Every layer can run the way it was fitted, and backwards where it is known to be invertible.
template <class Flow>
void check_map_exists(char const* function, Flow const& flow, bool to_data) {
  if (to_data == (flow.direction() == Direction::generative)) return;
  for (auto const& layer : flow.layers())
    std::visit(
        [&](auto const& stack) {
          // An affine layer has no options, and an inverse.
          if constexpr (requires { stack.options(); }) check_invertible(function, stack.options());
        },
        layer);
}

/// What the compiler can see of a batch of rows.
template <class ExecutionSpace, class FlowSpace, class Compute, class View>
constexpr void check_row_types() {
  static_assert(
      std::is_same_v<ExecutionSpace, FlowSpace>,
      "meander::forward, inverse, log_prob and sample of a meander::Flow: exec must be an "
      "instance of the execution space the flow was made for.");
  static_assert(Kokkos::is_view_v<View>,
                "meander::forward, inverse, log_prob and sample of a meander::Flow: rows must be "
                "Kokkos Views.");
  static_assert(View::rank() == 2,
                "meander::forward, inverse, log_prob and sample of a meander::Flow: rows must have "
                "rank 2 (batch, dimension).");
  static_assert(is_supported_pair_v<value_t<View>, Compute>,
                "meander::forward, inverse, log_prob and sample of a meander::Flow: the value type "
                "of rows must be float or double and no wider than the flow's compute type.");
  static_assert(is_accessible_from_v<View, ExecutionSpace>,
                "meander::forward, inverse, log_prob and sample of a meander::Flow: rows must lie "
                "in memory that the execution space can access.");
}

/// Rows that are written, beside others of the value type Storage.
template <class Storage, class View>
constexpr void check_written_row_types() {
  static_assert(is_writable_v<View>,
                "meander::forward, inverse, log_prob and sample of a meander::Flow: rows that are "
                "written must not be a View of const.");
  static_assert(std::is_same_v<value_t<View>, Storage>,
                "meander::forward, inverse, log_prob and sample of a meander::Flow: all rows must "
                "have the same value type.");
}

template <class ExecutionSpace, class Storage, class View>
constexpr void check_log_types() {
  static_assert(Kokkos::is_view_v<View> && View::rank() == 1 && is_writable_v<View> &&
                    std::is_same_v<value_t<View>, Storage>,
                "meander::forward, inverse, log_prob and sample of a meander::Flow: log_det and "
                "log_prob must be Views of rank 1 (batch), not const, with the value type of the "
                "rows.");
  static_assert(is_accessible_from_v<View, ExecutionSpace>,
                "meander::forward, inverse, log_prob and sample of a meander::Flow: log_det and "
                "log_prob must lie in memory that the execution space can access.");
}

/// \return the rows, of the extents they must have
template <class View>
auto checked_rows(char const* function, char const* argument, View const& rows, std::int64_t dim) {
  check_extent(function, argument, "extent 1", rows.extent(1), dim, "the dimension of the flow");
  return strided_matrix(rows);
}

/// \return the log_det or log_prob of these rows, an output that shares no memory with them
template <class View, class Rows>
auto checked_log(char const* function, char const* argument, View const& log, char const* rows_name,
                 Rows const& rows) {
  check_extent(function, argument, "extent 0", log.extent(0), rows.extent0, "the number of rows");
  auto const vector = strided_vector(log);
  check_distinct(function, argument, elements(vector));
  check_disjoint(function, argument, rows_name, elements(vector), elements(rows));
  return vector;
}

/// forward or inverse of a flow, checked.
template <class ExecutionSpace, class Flow, class FromView, class ToView>
auto flow_map(char const* function, Flow const& flow, bool to_data, char const* from_name,
              FromView const& from, char const* to_name, ToView const& to) {
  using Compute = typename Flow::compute_type;
  using Storage = value_t<FromView>;
  check_row_types<ExecutionSpace, typename Flow::execution_space, Compute, FromView>();
  check_row_types<ExecutionSpace, typename Flow::execution_space, Compute, ToView>();
  check_written_row_types<Storage, ToView>();
  FlowCall<Storage, Compute> call;
  call.flow    = flow.state();
  call.to_data = to_data;
  call.from    = as_const(checked_rows(function, from_name, from, flow.dim()));
  call.to      = checked_rows(function, to_name, to, flow.dim());
  call.rows    = call.from.extent0;
  check_extent(function, to_name, "extent 0", call.to.extent0, call.rows, "the number of rows");
  check_distinct(function, to_name, elements(call.to));
  check_same_or_disjoint(function, to_name, from_name, elements(call.to), elements(call.from));
  check_map_exists(function, flow, to_data);
  return call;
}

template <class ExecutionSpace, class Storage, class Compute, class View>
void add_log_det(char const* function, FlowCall<Storage, Compute>& call, char const* from_name,
                 char const* to_name, View const& log_det) {
  check_log_types<ExecutionSpace, Storage, View>();
  call.log = checked_log(function, "log_det", log_det, from_name, call.from);
  check_disjoint(function, "log_det", to_name, elements(call.log), elements(call.to));
}

/// sample of a flow, checked.
template <class ExecutionSpace, class Flow, class View>
auto flow_sample(Flow const& flow, std::uint64_t seed, std::uint64_t first_row, View const& x) {
  using Compute = typename Flow::compute_type;
  using Storage = value_t<View>;
  check_row_types<ExecutionSpace, typename Flow::execution_space, Compute, View>();
  check_written_row_types<Storage, View>();
  char const* const function = "meander::sample";
  FlowCall<Storage, Compute> call;
  call.flow      = flow.state();
  call.to_data   = true;
  call.seed      = seed;
  call.first_row = first_row;
  call.to        = checked_rows(function, "x", x, flow.dim());
  call.rows      = call.to.extent0;
  check_distinct(function, "x", elements(call.to));
  check_first_row(function, first_row, call.rows);
  check_map_exists(function, flow, true);
  return call;
}

template <class ExecutionSpace, class Storage, class Compute, class View>
void add_log_prob(FlowCall<Storage, Compute>& call, View const& log_prob) {
  check_log_types<ExecutionSpace, Storage, View>();
  call.scored = true;
  call.log    = checked_log("meander::sample", "log_prob", log_prob, "x", call.to);
}

template <class ExecutionSpace, class FlowSpace, class Storage, class Compute, class View>
void add_latent(FlowCall<Storage, Compute>& call, View const& z) {
  check_row_types<ExecutionSpace, FlowSpace, Compute, View>();
  check_written_row_types<Storage, View>();
  char const* const function = "meander::sample";
  call.drawn                 = checked_rows(function, "z", z, call.flow.dim);
  check_extent(function, "z", "extent 0", call.drawn.extent0, call.rows, "the number of rows");
  check_distinct(function, "z", elements(call.drawn));
  check_disjoint(function, "z", "x", elements(call.drawn), elements(call.to));
  check_disjoint(function, "z", "log_prob", elements(call.drawn), elements(call.log));
}

}  // namespace meander::impl
