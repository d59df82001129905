// SPDX-License-Identifier: BSD-3-Clause
#pragma once

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
#include <meander/planar_parameters.hpp>
#include <meander/planar_vjp.hpp>

namespace meander {

/// \brief The negative log-likelihood of data rows, what maximum likelihood makes small, and its
/// gradients by the raw parameters.
///
/// The mean over the rows of -log q(x), in nats, with log q(x) = log base(z) + log|det dz/dx| and
/// z = inverse(x). It differs from the KL divergence of the flow from the data's distribution, the
/// forward KL, by that distribution's entropy. Log-densities are as log_prob() computes them; sums
/// over rows are taken as in vjp, in double from tile to tile, with the same bits for any number of
/// threads. A row that holds a NaN or an infinity makes loss and gradients NaN.
///
/// Asynchronous with respect to the host: the work is queued on `exec`; nothing is allocated,
/// copied or fenced. The workspace is in use until it is done.
///
/// \param[in] exec the instance the work is queued on
/// \param[in] workspace made for the stack of the flow and for B rows or more
/// \param[in] flow a flow on R^D of one stack of L layers, of either direction
/// \param[in] parameters w (L, D), u (L, D), b (L), as they were last given to the stack
/// \param[in] x (B, D), any layout; float or double, no wider than the compute type of the flow;
/// at least one row
/// \param[out] loss the mean, a View of rank 0 of double; must share no memory with other arguments
/// \param[out] grad_parameters w (L, D), u (L, D), b (L), the loss by the raw parameters; float or
/// double, whatever the other types; must share no memory with any other argument
/// \throws std::invalid_argument if extents disagree, there is no row, the flow has another number
/// of stacks than one, the batch is larger than the workspace is for, outputs overlap, or the
/// layers would have to run backwards and have not been checked to have an inverse
/// (PlanarOptions::invertible)
template <class ExecutionSpace, class WorkspaceSpace, class FlowSpace, class Compute, class WView,
          class UView, class BView, class XView, class LossView, class GradWView, class GradUView,
          class GradBView>
void negative_log_likelihood(
    ExecutionSpace const& exec, PlanarVjpWorkspace<Compute, WorkspaceSpace> const& workspace,
    Flow<Compute, FlowSpace> const& flow, PlanarParameters<WView, UView, BView> const& parameters,
    XView const& x, LossView const& loss,
    PlanarParameters<GradWView, GradUView, GradBView> const& grad_parameters) {
  static_assert(
      std::is_same_v<ExecutionSpace, FlowSpace> && std::is_same_v<ExecutionSpace, WorkspaceSpace>,
      "meander::negative_log_likelihood: exec must be an instance of the execution space that the "
      "flow and the workspace were made for.");
  static_assert(Kokkos::is_view_v<XView> && XView::rank() == 2,
                "meander::negative_log_likelihood: x must be a Kokkos View of rank 2 (batch, "
                "dimension).");
  using Storage = impl::value_t<XView>;
  static_assert(impl::is_supported_pair_v<Storage, Compute>,
                "meander::negative_log_likelihood: the value type of x must be float or double and "
                "no wider than the flow's compute type.");
  static_assert(impl::is_accessible_from_v<XView, ExecutionSpace>,
                "meander::negative_log_likelihood: x must lie in memory that the execution space "
                "can access.");
  impl::check_loss_type<ExecutionSpace, LossView>();
  char const* const function = "meander::negative_log_likelihood";
  auto const& stack          = impl::single_stack(function, flow);
  impl::check_map_exists(function, flow, false);
  impl::PlanarVjpCall<Storage, Compute> call;
  call.from = impl::as_const(impl::checked_rows(function, "x", x, flow.dim()));
  impl::check_mean_rows(function, "x", call.from.extent0);
  impl::check_vjp_shape(function, workspace, stack);
  impl::check_vjp_batch(function, "x", call.from.extent0, workspace.max_batch());
  impl::score(call, flow, stack);
  call.memory          = workspace.memory();
  call.with_parameters = true;
  auto const loss_at   = impl::single_element(loss);
  auto strided         = impl::checked_vjp_parameters<ExecutionSpace>(
      function, stack.options(), call, parameters, grad_parameters,
      {{"x", impl::elements(call.from)}, {"loss", loss_at}});
  impl::check_disjoint_from_all(function, {"loss", loss_at},
                                {{"x", impl::elements(call.from)},
                                 {"w", impl::elements(strided.w)},
                                 {"u", impl::elements(strided.u)},
                                 {"b", impl::elements(impl::strided_vector(parameters.b))}});
  strided.scale = -1 / double(call.from.extent0);
  strided.loss  = loss.data();
  impl::planar_vjp(exec, call);
  impl::planar_vjp_parameters(exec, call.stack, call.memory, strided);
}

}  // namespace meander
