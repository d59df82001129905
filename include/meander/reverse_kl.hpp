// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include <Kokkos_Core.hpp>

#include <meander/flow.hpp>
#include <meander/impl/check.hpp>
#include <meander/impl/flow.hpp>
#include <meander/impl/flow_check.hpp>
#include <meander/impl/flow_gradient.hpp>
#include <meander/impl/planar_vjp.hpp>
#include <meander/impl/planar_vjp_check.hpp>
#include <meander/impl/random.hpp>
#include <meander/impl/reverse_kl.hpp>
#include <meander/impl/strided.hpp>
#include <meander/impl/view_traits.hpp>
#include <meander/planar_parameters.hpp>
#include <meander/planar_vjp.hpp>
#include <meander/row.hpp>

namespace meander {

/// \brief What reverse_kl is to estimate.
struct ReverseKlOptions {
  /// The gradient along the path alone ("sticking the landing"): of log q(x) - beta log p(x) by way
  /// of x, with log q's own parameters held. The other part has expectation zero; without it the
  /// gradient has no variance where q = p, row by row.
  bool path_gradient = false;
  /// What log p is multiplied by: annealing raises it to one from call to call.
  double beta = 1;
};

/// \brief The memory that reverse_kl works in: the rows drawn, their latent rows and a gradient by
/// them, beside a PlanarVjpWorkspace.
///
/// Serves every flow of that shape. A copy shares the memory; calls that overlap in time (on
/// different instances) need workspaces of their own.
///
/// \tparam Compute the compute type of the flow; rows are kept in it
/// \tparam ExecutionSpace where the kernels run
template <class Compute, class ExecutionSpace = Kokkos::DefaultExecutionSpace>
class ReverseKlWorkspace {
 public:
  using compute_type    = Compute;
  using execution_space = ExecutionSpace;
  using memory_space    = typename ExecutionSpace::memory_space;
  using row_type        = Kokkos::View<Compute**, memory_space>;

  /// \brief Allocates on `exec`.
  /// \param[in] exec the instance that memory is allocated on
  /// \param[in] flow a flow of one stack, of the shape (L, D) that the workspace is for
  /// \param[in] max_batch the largest batch it is for
  /// \throws std::invalid_argument if max_batch is negative or the flow has another number of
  /// stacks than one
  ReverseKlWorkspace(ExecutionSpace const& exec, Flow<Compute, ExecutionSpace> const& flow,
                     std::int64_t max_batch)
      : vjp_(exec, impl::single_stack("meander::ReverseKlWorkspace", flow), max_batch),
        latent_(
            allocate<row_type>(exec, "meander::ReverseKlWorkspace::latent", max_batch, flow.dim())),
        rows_(allocate<row_type>(exec, "meander::ReverseKlWorkspace::rows", max_batch, flow.dim())),
        grad_(allocate<row_type>(exec, "meander::ReverseKlWorkspace::grad", max_batch, flow.dim())),
        log_q_(allocate<Kokkos::View<Compute*, memory_space>>(
            exec, "meander::ReverseKlWorkspace::log_q", max_batch)),
        grad_log_det_(allocate<Kokkos::View<Compute*, memory_space>>(
            exec, "meander::ReverseKlWorkspace::grad_log_det", max_batch)),
        log_weights_(allocate<Kokkos::View<double*, memory_space>>(
            exec, "meander::ReverseKlWorkspace::log_weights", max_batch)),
        loss_(allocate<Kokkos::View<double*, memory_space>>(
            exec, "meander::ReverseKlWorkspace::loss", max_batch + impl::mean_parts)) {}

  std::int64_t max_batch() const { return vjp_.max_batch(); }
  int dim() const { return vjp_.dim(); }
  int num_layers() const { return vjp_.num_layers(); }

  /// \brief log p(x) - log q(x) of the rows of the last call, whatever its beta: the first `batch`
  /// of max_batch elements. For importance_estimate, for one.
  Kokkos::View<double const*, memory_space> log_weights() const { return log_weights_; }
  /// \brief log q(x) of the rows of the last call: the first `batch` of max_batch elements.
  Kokkos::View<Compute const*, memory_space> log_q() const { return log_q_; }

  /// \cond internal
  PlanarVjpWorkspace<Compute, ExecutionSpace> const& vjp() const { return vjp_; }
  row_type const& latent() const { return latent_; }
  row_type const& rows() const { return rows_; }
  row_type const& grad() const { return grad_; }
  Compute* log_q_data() const { return log_q_.data(); }
  Compute* grad_log_det() const { return grad_log_det_.data(); }
  double* log_weights_data() const { return log_weights_.data(); }
  double* row_losses() const { return loss_.data(); }
  double* mean_parts() const { return loss_.data() + max_batch(); }
  /// \endcond

 private:
  template <class View, class... Extents>
  static View allocate(ExecutionSpace const& exec, std::string const& label, Extents... extents) {
    return View(Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, label), extents...);
  }

  PlanarVjpWorkspace<Compute, ExecutionSpace> vjp_;
  row_type latent_, rows_, grad_;
  Kokkos::View<Compute*, memory_space> log_q_, grad_log_det_;
  Kokkos::View<double*, memory_space> log_weights_, loss_;
};

namespace impl {

/// The first rows of a workspace's View.
template <class View>
auto first_rows(View const& view, std::int64_t rows) {
  auto matrix    = strided_matrix(view);
  matrix.extent0 = rows;
  return matrix;
}

/// Draws the rows, and scores them.
template <class Compute, class Space>
FlowCall<Compute, Compute> reverse_kl_sample(ReverseKlWorkspace<Compute, Space> const& workspace,
                                             Flow<Compute, Space> const& flow, std::uint64_t seed,
                                             std::uint64_t first_row, std::int64_t batch) {
  FlowCall<Compute, Compute> call;
  call.flow      = flow.state();
  call.to_data   = true;
  call.scored    = true;
  call.rows      = batch;
  call.seed      = seed;
  call.first_row = first_row;
  call.drawn     = first_rows(workspace.latent(), batch);
  call.to        = first_rows(workspace.rows(), batch);
  call.log       = {workspace.log_q_data(), batch, 1};
  return call;
}

/// The rows on the side that the stack's layers were fitted from, where all gradients start.
template <class Compute, class Space>
auto stack_rows(ReverseKlWorkspace<Compute, Space> const& workspace,
                Flow<Compute, Space> const& flow, std::int64_t batch) {
  bool const generative = flow.direction() == Direction::generative;
  return first_rows(generative ? workspace.latent() : workspace.rows(), batch);
}

/// The gradient of log q by the data rows, added to grad. It takes the place of the rows on the
/// other side.
template <class Compute, class Space>
void add_score_of_rows(Space const& exec, ReverseKlWorkspace<Compute, Space> const& workspace,
                       Flow<Compute, Space> const& flow, std::int64_t batch) {
  bool const generative = flow.direction() == Direction::generative;
  auto const score_rows = first_rows(generative ? workspace.rows() : workspace.latent(), batch);
  PlanarVjpCall<Compute, Compute> call;
  score(call, flow, single_stack("meander::reverse_kl", flow));
  call.undone    = true;
  call.from      = as_const(stack_rows(workspace, flow, batch));
  call.grad_from = score_rows;
  call.memory    = workspace.vjp().memory();
  planar_vjp(exec, call);
  add_rows<Space, Compute>(exec, as_const(score_rows), first_rows(workspace.grad(), batch));
}

}  // namespace impl

/// \brief An estimate of the KL divergence of the target p from the flow q (the reverse KL), up to
/// the logarithm of p's normalization, and of its gradients by the raw parameters.
///
/// The loss is the mean over rows of log q(x) - beta log p(x), in nats, in double. Row i is number
/// first_row + i of the sample that the seed names, as sample() draws it; the gradients are along
/// its path (reparametrisation), of this very mean with the latent rows fixed:
/// of -log|det dx/dz| - beta log p(x), or with ReverseKlOptions::path_gradient of
/// log q(x) - beta log p(x) by way of x alone. Nothing is rounded below the compute type on the
/// way. The same bits for any number of threads.
///
/// `target` is called in a kernel on `exec`, once per row, as
///     KOKKOS_FUNCTION T operator()(Row<Compute const> row, Row<Compute> grad_row) const
/// It returns log p(row) in nats, up to a constant, and writes the gradient of that into grad_row,
/// which holds anything before. This kernel is compiled in the caller's code.
///
/// Asynchronous with respect to the host: the work is queued on `exec`; nothing is allocated,
/// copied or fenced. The workspace is in use until it is done, and the flow's too, if it has one.
///
/// \param[in] exec the instance the work is queued on
/// \param[in] workspace made for the shape of the flow and for `batch` rows or more
/// \param[in] flow a flow on R^D of one stack of L layers, of either direction
/// \param[in] parameters w (L, D), u (L, D), b (L), as they were last given to the stack
/// \param[in] target the log-density and its gradient, to be copied into a kernel
/// \param[in] seed any number
/// \param[in] first_row the number of the first row in the sample
/// \param[in] batch how many rows, at least one
/// \param[in] options which gradient, and beta
/// \param[out] loss the mean, a View of rank 0 of double; must share no memory with other arguments
/// \param[out] grad_parameters w (L, D), u (L, D), b (L), the loss by the raw parameters; float or
/// double, whatever the other types; must share no memory with any other argument
/// \throws std::invalid_argument if extents disagree, the batch is empty or larger than the
/// workspace is for, first_row + batch exceeds 2^64, beta is not finite, the flow has another
/// number of stacks than one, outputs overlap, or the layers would have to run backwards (a
/// normalizing flow's, or a generative one's for the path gradient) and have not been checked to
/// have an inverse (PlanarOptions::invertible) \see Rezende & Mohamed 2015, eq. 15; Roeder, Wu &
/// Duvenaud 2017, "Sticking the landing", eq. 7; Vaitl, Nicoli, Nakajima & Kessel 2022, "Gradients
/// should stay on path", for flows
template <class ExecutionSpace, class WorkspaceSpace, class FlowSpace, class Compute, class WView,
          class UView, class BView, class Target, class LossView, class GradWView, class GradUView,
          class GradBView>
void reverse_kl(ExecutionSpace const& exec,
                ReverseKlWorkspace<Compute, WorkspaceSpace> const& workspace,
                Flow<Compute, FlowSpace> const& flow,
                PlanarParameters<WView, UView, BView> const& parameters, Target const& target,
                std::uint64_t seed, std::uint64_t first_row, std::int64_t batch,
                ReverseKlOptions const& options, LossView const& loss,
                PlanarParameters<GradWView, GradUView, GradBView> const& grad_parameters) {
  static_assert(
      std::is_same_v<ExecutionSpace, FlowSpace> && std::is_same_v<ExecutionSpace, WorkspaceSpace>,
      "meander::reverse_kl: exec must be an instance of the execution space that the flow and the "
      "workspace were made for.");
  static_assert(
      std::is_invocable_r_v<double, Target const&, Row<Compute const>, Row<Compute>>,
      "meander::reverse_kl: target must have KOKKOS_FUNCTION T operator()(meander::Row<Compute "
      "const> row, meander::Row<Compute> grad_row) const, with T float or double.");
  impl::check_loss_type<ExecutionSpace, LossView>();
  char const* const function = "meander::reverse_kl";
  auto const& stack          = impl::single_stack(function, flow);
  impl::check_vjp_shape(function, workspace, stack);
  impl::check_reverse_kl(batch, workspace.max_batch(), options.beta);
  impl::check_first_row(function, first_row, batch);
  impl::check_map_exists(function, flow, true);

  impl::PlanarVjpCall<Compute, Compute> call;
  call.stack           = stack.coefficients();
  call.direction       = flow.direction() == Direction::generative ? impl::MapDirection::forward
                                                                   : impl::MapDirection::inverse;
  call.undone          = true;
  call.from            = impl::as_const(impl::stack_rows(workspace, flow, batch));
  call.grad_to         = impl::as_const(impl::first_rows(workspace.grad(), batch));
  call.grad_log_det    = {workspace.grad_log_det(), batch, 1};
  call.memory          = workspace.vjp().memory();
  call.with_parameters = true;
  auto const loss_at   = impl::single_element(loss);
  auto strided         = impl::checked_vjp_parameters<ExecutionSpace>(
      function, stack.options(), call, parameters, grad_parameters, {{"loss", loss_at}});
  impl::check_disjoint_from_all(function, {"loss", loss_at},
                                {{"w", impl::elements(strided.w)},
                                 {"u", impl::elements(strided.u)},
                                 {"b", impl::elements(impl::strided_vector(parameters.b))}});
  strided.scale = 1 / double(batch);

  impl::run_flow(exec, impl::reverse_kl_sample(workspace, flow, seed, first_row, batch));
  impl::evaluate_target(
      exec, impl::EvaluateTarget<Compute, Target>{
                target, impl::as_const(impl::first_rows(workspace.rows(), batch)),
                impl::first_rows(workspace.grad(), batch), workspace.log_q_data(),
                workspace.grad_log_det(), workspace.log_weights_data(), workspace.row_losses(),
                options.beta, options.path_gradient ? Compute(0) : Compute(-1)});
  if (options.path_gradient) impl::add_score_of_rows(exec, workspace, flow, batch);
  impl::mean_of_rows(exec, workspace.row_losses(), batch, workspace.mean_parts(), loss.data());
  impl::planar_vjp(exec, call);
  impl::planar_vjp_parameters(exec, call.stack, call.memory, strided);
}

}  // namespace meander
