// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <type_traits>

#include <Kokkos_Core.hpp>

#include <meander/flow.hpp>
#include <meander/impl/check.hpp>
#include <meander/impl/flow_check.hpp>
#include <meander/impl/flow_gradient.hpp>
#include <meander/impl/planar_vjp.hpp>
#include <meander/impl/planar_vjp_check.hpp>
#include <meander/impl/strided.hpp>
#include <meander/impl/view_traits.hpp>
#include <meander/planar_vjp.hpp>

namespace meander {

/// \brief The gradient of the log-density by the data rows: d log q(x) / dx, as Hamiltonian Monte
/// Carlo and path gradients need it.
///
/// With z = inverse(x): the gradient by x of log base(z) + log|det dz/dx|, by implicit
/// differentiation where the layers run backwards (inverse_vjp), by vjp else. The latent rows are
/// nowhere rounded to the value type of x.
///
/// Asynchronous with respect to the host: the work is queued on `exec`; nothing is allocated,
/// copied or fenced. The workspace is in use until it is done. Each row is computed on its own:
/// the same bits for any number of threads and any split of a batch. A row that holds a NaN or an
/// infinity gets NaN.
///
/// \param[in] exec the instance the work is queued on
/// \param[in] workspace made for the stack of the flow and for B rows or more
/// \param[in] flow a flow on R^D of one stack
/// \param[in] x (B, D), any layout; float or double, no wider than the compute type of the flow
/// \param[out] grad_x (B, D), any layout, the value type of x; the very same elements as x, or none
/// of them
/// \throws std::invalid_argument if extents disagree, the flow has another number of stacks than
/// one, the batch is larger than the workspace is for, grad_x overlaps x without being x, or the
/// layers would have to run backwards and have not been checked to have an inverse
/// (PlanarOptions::invertible)
template <class ExecutionSpace, class WorkspaceSpace, class FlowSpace, class Compute, class XView,
          class GradXView>
void grad_log_prob(ExecutionSpace const& exec,
                   PlanarVjpWorkspace<Compute, WorkspaceSpace> const& workspace,
                   Flow<Compute, FlowSpace> const& flow, XView const& x, GradXView const& grad_x) {
  static_assert(
      std::is_same_v<ExecutionSpace, FlowSpace> && std::is_same_v<ExecutionSpace, WorkspaceSpace>,
      "meander::grad_log_prob: exec must be an instance of the execution space that the "
      "flow and the workspace were made for.");
  static_assert(Kokkos::is_view_v<XView> && Kokkos::is_view_v<GradXView>,
                "meander::grad_log_prob: x and grad_x must be Kokkos Views.");
  static_assert(XView::rank() == 2 && GradXView::rank() == 2,
                "meander::grad_log_prob: x and grad_x must have rank 2 (batch, dimension).");
  using Storage = impl::value_t<XView>;
  static_assert(impl::is_supported_pair_v<Storage, Compute>,
                "meander::grad_log_prob: the value type of x must be float or double and no wider "
                "than the flow's compute type.");
  static_assert(std::is_same_v<Storage, impl::value_t<GradXView>>,
                "meander::grad_log_prob: x and grad_x must have the same value type.");
  static_assert(impl::is_writable_v<GradXView>,
                "meander::grad_log_prob: grad_x must not be a View of const.");
  static_assert(impl::is_accessible_from_v<XView, ExecutionSpace> &&
                    impl::is_accessible_from_v<GradXView, ExecutionSpace>,
                "meander::grad_log_prob: x and grad_x must lie in memory that the execution space "
                "can access.");
  char const* const function = "meander::grad_log_prob";
  auto const& stack          = impl::single_stack(function, flow);
  impl::check_map_exists(function, flow, false);
  impl::PlanarVjpCall<Storage, Compute> call;
  call.from      = impl::as_const(impl::checked_rows(function, "x", x, flow.dim()));
  call.grad_from = impl::checked_rows(function, "grad_x", grad_x, flow.dim());
  impl::check_extent(function, "grad_x", "extent 0", call.grad_from.extent0, call.from.extent0,
                     "extent 0 of x");
  impl::check_distinct(function, "grad_x", impl::elements(call.grad_from));
  impl::check_same_or_disjoint(function, "grad_x", "x", impl::elements(call.grad_from),
                               impl::elements(call.from));
  impl::check_vjp_shape(function, workspace, stack);
  impl::check_vjp_batch(function, "x", call.from.extent0, workspace.max_batch());
  impl::score(call, flow, stack);
  call.memory = workspace.memory();
  impl::planar_vjp(exec, call);
}

}  // namespace meander
