// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <Kokkos_Core.hpp>

#include <meander/affine.hpp>
#include <meander/base.hpp>
#include <meander/direction.hpp>
#include <meander/impl/check.hpp>
#include <meander/impl/flow.hpp>
#include <meander/impl/flow_check.hpp>
#include <meander/impl/strided.hpp>
#include <meander/impl/view_traits.hpp>
#include <meander/planar_stack.hpp>

namespace meander {

struct Model;

/// \brief A normalizing flow on R^D: a base distribution and a list of layers, made ready for the
/// kernels of one execution space.
///
/// Latent rows z follow the base distribution, data rows x the flow's. The layers were fitted in
/// one direction, from latent to data rows (generative) or from data to latent rows (normalizing);
/// what a flow can be asked for does not depend on which.
///
/// A copy shares the same memory, as Kokkos Views do; so does a stack with the flow it was given
/// to, which sees the new values after PlanarStack::refresh. On a device, a flow of several layers
/// of the list, with an affine one, or of rows too long for registers (uses_workspace()) works in
/// memory of its own: calls on different instances then need flows of their own, not copies, or
/// must be ordered by the caller.
///
/// \tparam Compute type of the arithmetic between load and store: float or double
/// \tparam ExecutionSpace where the kernels run
template <class Compute, class ExecutionSpace = Kokkos::DefaultExecutionSpace>
class Flow {
  static_assert(impl::is_real_v<Compute>, "meander::Flow: Compute must be float or double.");
  static_assert(Kokkos::is_execution_space_v<ExecutionSpace>,
                "meander::Flow: ExecutionSpace must be a Kokkos execution space.");

 public:
  using compute_type    = Compute;
  using execution_space = ExecutionSpace;
  using memory_space    = typename ExecutionSpace::memory_space;
  /// The layers of one family. A further flow family adds an alternative.
  using layer_type = std::variant<PlanarStack<Compute, ExecutionSpace>, AffineMap<ExecutionSpace>>;

  /// \brief A flow with the base N(0, I).
  /// \param[in] exec the instance that memory is allocated on
  /// \param[in] base says so
  /// \param[in] layers at least one, in the order they were fitted in; all of one dimension
  /// \param[in] direction which way the layers map
  /// \throws std::invalid_argument if there is no layer or their dimensions disagree
  Flow(ExecutionSpace const& exec, StandardNormal /*base*/, std::vector<layer_type> layers,
       Direction direction)
      : Flow(std::move(layers), direction) {
    impl::check_has_layers(shared_->layers.size());
    allocate_workspace(exec);
  }

  /// \brief A flow with the base N(loc, diag(exp(log_scale))^2), which is copied: asynchronous.
  /// \param[in] exec the instance the work is queued on
  /// \param[in] base loc (D), log_scale (D)
  /// \param[in] layers in the order they were fitted in; may be empty
  /// \param[in] direction which way the layers map
  /// \throws std::invalid_argument if dimensions disagree
  template <class LocView, class LogScaleView>
  Flow(ExecutionSpace const& exec, DiagonalNormalParameters<LocView, LogScaleView> const& base,
       std::vector<layer_type> layers, Direction direction)
      : Flow(std::move(layers), direction) {
    static_assert(Kokkos::is_view_v<LocView> && Kokkos::is_view_v<LogScaleView> &&
                      LocView::rank() == 1 && LogScaleView::rank() == 1,
                  "meander::Flow: loc and log_scale must be Kokkos Views of rank 1 (D).");
    static_assert(impl::is_real_v<impl::value_t<LocView>> &&
                      std::is_same_v<impl::value_t<LocView>, impl::value_t<LogScaleView>>,
                  "meander::Flow: loc and log_scale must both hold float or both hold double.");
    static_assert(impl::is_accessible_from_v<LocView, ExecutionSpace> &&
                      impl::is_accessible_from_v<LogScaleView, ExecutionSpace>,
                  "meander::Flow: loc and log_scale must lie in memory that the execution space "
                  "can access.");
    auto& state = shared_->state;
    if (shared_->layers.empty())
      state.dim = impl::checked_dim(base.loc.extent(0), impl::max_dim<ExecutionSpace>);
    impl::check_extent("meander::Flow", "loc", "extent 0", base.loc.extent(0), state.dim,
                       "the dimension of the layers");
    impl::check_extent("meander::Flow", "log_scale", "extent 0", base.log_scale.extent(0),
                       state.dim, "the dimension of the flow");
    shared_->base =
        storage_type(Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, "meander::Flow::base"),
                     3 * std::size_t(state.dim) + 1);
    impl::prepare_base(exec, state.dim, shared_->base.data(), state.base,
                       impl::as_const(impl::strided_vector(base.loc)),
                       impl::as_const(impl::strided_vector(base.log_scale)));
    allocate_workspace(exec);
  }

  /// \brief The same for a single stack of planar layers.
  template <class Base>
  Flow(ExecutionSpace const& exec, Base const& base,
       PlanarStack<Compute, ExecutionSpace> const& stack, Direction direction)
      : Flow(exec, base, std::vector<layer_type>{stack}, direction) {}

  /// Copies share the memory; there is no moved-from state.
  Flow(Flow const&)            = default;
  Flow& operator=(Flow const&) = default;
  ~Flow()                      = default;

  /// \brief D, the number of coordinates of a row.
  int dim() const { return shared_->state.dim; }
  /// \brief Which way the layers were fitted.
  Direction direction() const { return shared_->direction; }
  std::vector<layer_type> const& layers() const { return shared_->layers; }
  bool has_standard_normal_base() const { return shared_->state.base.loc == nullptr; }
  /// \brief Whether calls work in memory of the flow, so that they must not overlap.
  bool uses_workspace() const { return shared_->state.workspace != nullptr; }

  /// \cond internal
  impl::FlowState<Compute> const& state() const { return shared_->state; }
  /// \endcond

 private:
  using storage_type = Kokkos::View<Compute*, memory_space>;

  struct Shared {
    std::vector<layer_type> layers;
    std::vector<impl::FlowLayer<Compute>> kernel_layers;
    Direction direction;
    storage_type base, workspace;
    impl::FlowState<Compute> state;
  };

  Flow(std::vector<layer_type> layers, Direction direction) : shared_(std::make_shared<Shared>()) {
    impl::check_direction(direction);
    shared_->layers    = std::move(layers);
    shared_->direction = direction;
    auto& state        = shared_->state;
    state.generative   = direction == Direction::generative;
    std::size_t number = 0;
    for (auto const& layer : shared_->layers) {
      std::visit(
          [&](auto const& stack) {
            if (number == 0) state.dim = stack.dim();
            impl::check_layer_dim(number, stack.dim(), state.dim);
            shared_->kernel_layers.emplace_back(stack.coefficients());
          },
          layer);
      ++number;
    }
    state.layers     = shared_->kernel_layers.data();
    state.num_layers = static_cast<std::int32_t>(number);
  }

  void allocate_workspace(ExecutionSpace const& exec) {
    auto const needed = impl::workspace<ExecutionSpace>(shared_->state);
    if (needed.size == 0) return;
    shared_->workspace = storage_type(
        Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, "meander::Flow::workspace"),
        needed.size);
    shared_->state.workspace      = shared_->workspace.data();
    shared_->state.workspace_rows = needed.rows;
  }

  std::shared_ptr<Shared> shared_;
};

template <class ExecutionSpace, class Base, class Compute>
Flow(ExecutionSpace const&, Base const&, PlanarStack<Compute, ExecutionSpace> const&, Direction)
    -> Flow<Compute, ExecutionSpace>;

/// \brief Makes a flow of what a model file holds: allocates on `exec`, copies and prepares.
///
/// Waits for the copies. Layers without a constraint are checked for an inverse
/// (PlanarOptions::invertible); where one has none, the flow can still be asked for what its own
/// direction gives (`sample` and `forward` of a generative flow, `log_prob` and `inverse` of a
/// normalizing one).
///
/// \tparam Compute type of the arithmetic: float or double
/// \param[in] exec the instance the work is queued on
/// \param[in] model from read_model, for one
/// \throws std::invalid_argument if the model is inconsistent or has neither a layer nor a base
/// that says its dimension
template <class Compute, class ExecutionSpace>
Flow<Compute, ExecutionSpace> make_flow(ExecutionSpace const& exec, Model const& model);

/// \brief Maps latent rows to data rows, whichever way the layers were fitted.
///
/// Asynchronous with respect to the host: the work is queued on `exec`; nothing is allocated,
/// copied or fenced. Each row is computed on its own, so results depend neither on the number of
/// threads nor on how a batch is split into calls. A row that holds a NaN or an infinity comes out
/// NaN.
///
/// \param[in] exec the instance the work is queued on
/// \param[in] flow a flow on R^D
/// \param[in] z (B, D), any layout; float or double, no wider than the compute type of the flow
/// \param[out] x (B, D), any layout; the very same elements as z, or none of them
/// \param[out] log_det (B), natural log of |det dx/dz| per row; must share no memory with z and x
/// \throws std::invalid_argument if extents disagree, outputs overlap, or the layers would have to
/// run backwards and have not been checked to have an inverse (PlanarOptions::invertible)
template <class ExecutionSpace, class FlowSpace, class Compute, class ZView, class XView,
          class LogDetView>
void forward(ExecutionSpace const& exec, Flow<Compute, FlowSpace> const& flow, ZView const& z,
             XView const& x, LogDetView const& log_det) {
  auto call = impl::flow_map<ExecutionSpace>("meander::forward", flow, true, "z", z, "x", x);
  impl::add_log_det<ExecutionSpace>("meander::forward", call, "z", "x", log_det);
  impl::run_flow(exec, call);
}

/// \brief The same without the log-determinant.
template <class ExecutionSpace, class FlowSpace, class Compute, class ZView, class XView>
void forward(ExecutionSpace const& exec, Flow<Compute, FlowSpace> const& flow, ZView const& z,
             XView const& x) {
  impl::run_flow(exec,
                 impl::flow_map<ExecutionSpace>("meander::forward", flow, true, "z", z, "x", x));
}

/// \brief Maps data rows to latent rows, whichever way the layers were fitted: forward backwards.
///
/// \param[in] exec the instance the work is queued on
/// \param[in] flow a flow on R^D
/// \param[in] x (B, D), any layout; float or double, no wider than the compute type of the flow
/// \param[out] z (B, D), any layout; the very same elements as x, or none of them
/// \param[out] log_det (B), natural log of |det dz/dx| per row; must share no memory with x and z
/// \throws std::invalid_argument as forward does
template <class ExecutionSpace, class FlowSpace, class Compute, class XView, class ZView,
          class LogDetView>
void inverse(ExecutionSpace const& exec, Flow<Compute, FlowSpace> const& flow, XView const& x,
             ZView const& z, LogDetView const& log_det) {
  auto call = impl::flow_map<ExecutionSpace>("meander::inverse", flow, false, "x", x, "z", z);
  impl::add_log_det<ExecutionSpace>("meander::inverse", call, "x", "z", log_det);
  impl::run_flow(exec, call);
}

/// \brief The same without the log-determinant.
template <class ExecutionSpace, class FlowSpace, class Compute, class XView, class ZView>
void inverse(ExecutionSpace const& exec, Flow<Compute, FlowSpace> const& flow, XView const& x,
             ZView const& z) {
  impl::run_flow(exec,
                 impl::flow_map<ExecutionSpace>("meander::inverse", flow, false, "x", x, "z", z));
}

/// \brief The log-density of data rows: log q(x) = log base(z) + log|det dz/dx|, z = inverse(x).
///
/// Asynchronous, and as independent of threads and splits, as forward is. The latent rows are
/// nowhere stored (nor rounded to the value type of x). A row that holds a NaN or an infinity gets
/// NaN (an infinity in a flow without layers: minus infinity).
///
/// \param[in] exec the instance the work is queued on
/// \param[in] flow a flow on R^D
/// \param[in] x (B, D), any layout; float or double, no wider than the compute type of the flow
/// \param[out] log_prob (B), natural logarithm of the density, in nats; must share no memory with x
/// \throws std::invalid_argument as forward does
template <class ExecutionSpace, class FlowSpace, class Compute, class XView, class LogProbView>
void log_prob(ExecutionSpace const& exec, Flow<Compute, FlowSpace> const& flow, XView const& x,
              LogProbView const& log_prob) {
  impl::check_row_types<ExecutionSpace, FlowSpace, Compute, XView>();
  impl::check_log_types<ExecutionSpace, impl::value_t<XView>, LogProbView>();
  char const* const function = "meander::log_prob";
  auto const rows            = impl::checked_rows(function, "x", x, flow.dim());
  impl::check_map_exists(function, flow, false);
  impl::FlowCall<impl::value_t<XView>, Compute> call;
  call.flow    = flow.state();
  call.to_data = false;
  call.scored  = true;
  call.rows    = rows.extent0;
  call.from    = impl::as_const(rows);
  call.log     = impl::checked_log(function, "log_prob", log_prob, "x", rows);
  impl::run_flow(exec, call);
}

/// \brief Draws rows from the flow: x = forward(z) of latent rows z drawn from the base.
///
/// Row i of x is number first_row + i of the sample that the seed names: any batch, thread or rank
/// that asks for that number gets the same row, bit for bit on one backend and build of the
/// library, up to rounding elsewhere. The latent row is loc + exp(log_scale) n, with n the row that
/// fill_normal<Compute> gives.
///
/// log_prob is computed on the way, of the row before it is rounded to the value type of x: it
/// agrees with log_prob() of what is stored up to that rounding times the gradient of log q, and up
/// to the rounding of both computations.
///
/// Asynchronous, and as independent of threads and splits, as forward is.
///
/// \param[in] exec the instance the work is queued on
/// \param[in] flow a flow on R^D
/// \param[in] seed any number
/// \param[in] first_row the number of the first row of x in the sample
/// \param[out] x (B, D), any layout; float or double, no wider than the compute type of the flow
/// \param[out] log_prob (B), log q(x) in nats; must share no memory with x
/// \param[out] z (B, D), any layout, the value type of x: the latent rows, for gradients along the
/// path (reparametrisation); must share no memory with x and log_prob
/// \throws std::invalid_argument as forward does, or if first_row + B exceeds 2^64
template <class ExecutionSpace, class FlowSpace, class Compute, class XView, class LogProbView,
          class ZView>
void sample(ExecutionSpace const& exec, Flow<Compute, FlowSpace> const& flow, std::uint64_t seed,
            std::uint64_t first_row, XView const& x, LogProbView const& log_prob, ZView const& z) {
  auto call = impl::flow_sample<ExecutionSpace>(flow, seed, first_row, x);
  impl::add_log_prob<ExecutionSpace>(call, log_prob);
  impl::add_latent<ExecutionSpace, FlowSpace>(call, z);
  impl::run_flow(exec, call);
}

/// \brief The same without the latent rows: writes nothing but x and log_prob.
template <class ExecutionSpace, class FlowSpace, class Compute, class XView, class LogProbView>
void sample(ExecutionSpace const& exec, Flow<Compute, FlowSpace> const& flow, std::uint64_t seed,
            std::uint64_t first_row, XView const& x, LogProbView const& log_prob) {
  auto call = impl::flow_sample<ExecutionSpace>(flow, seed, first_row, x);
  impl::add_log_prob<ExecutionSpace>(call, log_prob);
  impl::run_flow(exec, call);
}

/// \brief The same without the latent rows and the log-density.
template <class ExecutionSpace, class FlowSpace, class Compute, class XView>
void sample(ExecutionSpace const& exec, Flow<Compute, FlowSpace> const& flow, std::uint64_t seed,
            std::uint64_t first_row, XView const& x) {
  impl::run_flow(exec, impl::flow_sample<ExecutionSpace>(flow, seed, first_row, x));
}

}  // namespace meander
