// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <Kokkos_Core.hpp>

#include <meander/impl/adam.hpp>
#include <meander/impl/check.hpp>
#include <meander/impl/strided.hpp>
#include <meander/impl/view_traits.hpp>
#include <meander/planar_parameters.hpp>

namespace meander {

/// \brief The options of Adam (Kingma & Ba 2015) and AdamW (Loshchilov & Hutter 2019), with the
/// defaults of PyTorch's Adam.
struct AdamOptions {
  double beta1        = 0.9;    ///< decay of the mean of the gradient; in [0, 1)
  double beta2        = 0.999;  ///< decay of the mean of its square; in [0, 1)
  double epsilon      = 1e-8;   ///< added to the root of the second moment; finite and > 0
  double weight_decay = 0;      ///< finite and >= 0
  /// AdamW: the decay is taken off the parameters. Else it is added to the (clipped) gradient.
  bool decoupled = false;
  /// Gradients whose norm over all parameters is larger are scaled by max_grad_norm / (norm +
  /// 1e-6), as PyTorch's clip_grad_norm_ does; > 0.
  double max_grad_norm = std::numeric_limits<double>::infinity();

  /// \brief Checks the members.
  /// \throws std::invalid_argument naming the one that is out of its range
  void check() const;

  friend bool operator==(AdamOptions const&, AdamOptions const&) = default;
};

/// \brief What became of the calls of Adam::step.
struct AdamProgress {
  std::int64_t taken   = 0;  ///< steps taken and not undone
  std::int64_t refused = 0;  ///< calls whose loss or gradient was not finite: no step was taken
  std::int64_t undone  = 0;  ///< steps undone because the call after them was refused
  /// Calls since `taken` was last larger than ever before: large when training no longer gets on.
  std::int64_t stalled = 0;
  double rate_factor   = 1;  ///< the learning rate of the next step is multiplied by it
  double gradient_norm = 0;  ///< of the last call, before clipping
};

/// \brief Adam or AdamW for the parameters of a stack of planar layers, its state in double in
/// device memory.
///
/// A call whose loss is not finite, or whose gradient has a norm that is not finite (or a square
/// of it that double cannot hold), takes no step. What made it so is most likely the step before:
/// that one is undone, parameters and moments are again those of before it. The next learning rates
/// are then multiplied by a factor, halved with every undone step and grown by a tenth, up to 1,
/// with every step taken: without that, training on the same rows would take the same step
/// again. Of several refused calls in a row only the first undoes a step. The number of steps in
/// the bias correction is that of steps taken and not undone, counted in device memory.
///
/// A copy shares the state, as Kokkos Views do.
///
/// \tparam ExecutionSpace where the kernels run
template <class ExecutionSpace = Kokkos::DefaultExecutionSpace>
class Adam {
  static_assert(Kokkos::is_execution_space_v<ExecutionSpace>,
                "meander::Adam: ExecutionSpace must be a Kokkos execution space.");

 public:
  using execution_space = ExecutionSpace;
  using memory_space    = typename ExecutionSpace::memory_space;

  /// \brief Allocates the state on `exec`, and sets it to that of no step taken: asynchronous.
  /// \param[in] exec the instance the work is queued on
  /// \param[in] num_layers L >= 0
  /// \param[in] dim D >= 1
  /// \param[in] options of every step
  /// \throws std::invalid_argument if an extent or an option is out of its range
  Adam(ExecutionSpace const& exec, std::int64_t num_layers, std::int64_t dim,
       AdamOptions const& options = {})
      : options_(options), layout_(checked_layout(num_layers, dim)) {
    options.check();
    state_ =
        state_type(Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, "meander::Adam::state"),
                   static_cast<std::size_t>(layout_.size));
    reset(exec);
  }

  /// \brief Forgets all steps. Asynchronous.
  void reset(ExecutionSpace const& exec) { impl::adam_reset(exec, layout_, state_.data()); }

  /// \brief Takes a step, or refuses and undoes one; see the class.
  ///
  /// One kernel for up to 4096 parameters, two for more. Asynchronous with respect to the host: the
  /// work is queued on `exec`; nothing is allocated, copied or fenced. The norm is summed in
  /// double in an order that depends on L and D alone: the same bits for any number of threads.
  ///
  /// \param[in] exec the instance the work is queued on
  /// \param[in] learning_rate of this step; finite and >= 0
  /// \param[in,out] parameters w (L, D), u (L, D), b (L); float or double, any layout
  /// \param[in] grad_parameters their gradients, of the same extents; float or double, any layout;
  /// share no memory with the parameters
  /// \param[in] loss a View<double> of rank 0
  /// \throws std::invalid_argument if extents differ from those of the constructor, parameters
  /// overlap anything, or the learning rate is out of its range
  template <class WView, class UView, class BView, class GradWView, class GradUView,
            class GradBView, class LossView>
  void step(ExecutionSpace const& exec, double learning_rate,
            PlanarParameters<WView, UView, BView> const& parameters,
            PlanarParameters<GradWView, GradUView, GradBView> const& grad_parameters,
            LossView const& loss) {
    static_assert(
        Kokkos::is_view_v<LossView> && LossView::rank() == 0 &&
            std::is_same_v<typename LossView::non_const_value_type, double> &&
            impl::is_accessible_from_v<LossView, ExecutionSpace>,
        "meander::Adam::step: loss must be a View<double> of rank 0 in memory that the execution "
        "space can access.");
    run(exec, learning_rate, parameters, grad_parameters, loss.data());
  }

  /// \brief The same where nothing but the gradient says whether the step is to be taken.
  template <class WView, class UView, class BView, class GradWView, class GradUView,
            class GradBView>
  void step(ExecutionSpace const& exec, double learning_rate,
            PlanarParameters<WView, UView, BView> const& parameters,
            PlanarParameters<GradWView, GradUView, GradBView> const& grad_parameters) {
    run(exec, learning_rate, parameters, grad_parameters, nullptr);
  }

  /// \brief What became of the calls so far. Waits for `exec`.
  AdamProgress progress(ExecutionSpace const& exec) const;

  AdamOptions const& options() const { return options_; }

  /// \cond internal
  using state_type = Kokkos::View<double*, memory_space>;
  state_type const& state() const { return state_; }
  impl::AdamLayout const& layout() const { return layout_; }
  /// \endcond

 private:
  static impl::AdamLayout checked_layout(std::int64_t num_layers, std::int64_t dim) {
    impl::check_adam_extents(num_layers, dim);
    return {num_layers, dim};
  }

  template <class WView, class UView, class BView>
  static constexpr void check_types() {
    static_assert(Kokkos::is_view_v<WView> && Kokkos::is_view_v<UView> && Kokkos::is_view_v<BView>,
                  "meander::Adam::step: w, u and b of the parameters and of their gradients must "
                  "be Kokkos Views.");
    static_assert(WView::rank() == 2 && UView::rank() == 2 && BView::rank() == 1,
                  "meander::Adam::step: w and u must have rank 2 (L, D), b rank 1 (L), and so must "
                  "their gradients.");
    static_assert(impl::is_real_v<impl::value_t<WView>> &&
                      std::is_same_v<impl::value_t<WView>, impl::value_t<UView>> &&
                      std::is_same_v<impl::value_t<WView>, impl::value_t<BView>>,
                  "meander::Adam::step: w, u and b must all hold float or all hold double, and so "
                  "must their gradients.");
    static_assert(impl::is_accessible_from_v<WView, ExecutionSpace> &&
                      impl::is_accessible_from_v<UView, ExecutionSpace> &&
                      impl::is_accessible_from_v<BView, ExecutionSpace>,
                  "meander::Adam::step: parameters and gradients must lie in memory that the "
                  "execution space can access.");
  }

  template <class View>
  void check_matrix(View const& view, char const* name) const {
    impl::check_extent("meander::Adam::step", name, "extent 0", view.extent(0), layout_.layers,
                       "the number of layers");
    impl::check_extent("meander::Adam::step", name, "extent 1", view.extent(1), layout_.dim,
                       "the dimension");
  }

  template <class View>
  void check_vector(View const& view, char const* name) const {
    impl::check_extent("meander::Adam::step", name, "extent 0", view.extent(0), layout_.layers,
                       "the number of layers");
  }

  template <class WView, class UView, class BView, class GradWView, class GradUView,
            class GradBView>
  void run(ExecutionSpace const& exec, double learning_rate,
           PlanarParameters<WView, UView, BView> const& parameters,
           PlanarParameters<GradWView, GradUView, GradBView> const& gradients, double const* loss) {
    check_types<WView, UView, BView>();
    check_types<GradWView, GradUView, GradBView>();
    static_assert(
        impl::is_writable_v<WView> && impl::is_writable_v<UView> && impl::is_writable_v<BView>,
        "meander::Adam::step: the parameters must not be Views of const.");
    check_matrix(parameters.w, "w");
    check_matrix(parameters.u, "u");
    check_vector(parameters.b, "b");
    check_matrix(gradients.w, "grad_parameters.w");
    check_matrix(gradients.u, "grad_parameters.u");
    check_vector(gradients.b, "grad_parameters.b");
    using Parameter = impl::value_t<WView>;
    using Gradient  = impl::value_t<GradWView>;
    impl::AdamCall<Parameter, Gradient> const call{
        layout_,
        {learning_rate, options_.beta1, options_.beta2, options_.epsilon, options_.weight_decay,
         options_.max_grad_norm, options_.decoupled},
        impl::strided_matrix(parameters.w),
        impl::strided_matrix(parameters.u),
        impl::strided_vector(parameters.b),
        impl::as_const(impl::strided_matrix(gradients.w)),
        impl::as_const(impl::strided_matrix(gradients.u)),
        impl::as_const(impl::strided_vector(gradients.b)),
        loss,
        state_.data()};
    impl::check_adam_call(
        learning_rate,
        {impl::elements(call.w), impl::elements(call.u), impl::elements(call.b),
         impl::elements(call.grad_w), impl::elements(call.grad_u), impl::elements(call.grad_b)},
        loss);
    impl::adam_step(exec, call);
  }

  AdamOptions options_;
  impl::AdamLayout layout_;
  state_type state_;
};

}  // namespace meander
