// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <Kokkos_Core.hpp>

#include <meander/impl/check.hpp>
#include <meander/impl/planar_prepare.hpp>
#include <meander/impl/view_traits.hpp>
#include <meander/planar_options.hpp>
#include <meander/planar_parameters.hpp>

namespace meander {

/// \brief A stack of L planar layers on R^D, made ready for the kernels of one execution space.
///
/// Holds what the kernels read: w, u_hat, s = 1 + w.u_hat and the Gram numbers of Rezende &
/// Mohamed's planar layers f(z) = z + u_hat h(w.z + b) (2015, eq. 10 and appendix A.1), derived in
/// double whatever the types. A copy shares the same memory, as Kokkos Views do.
///
/// \tparam Compute type of the arithmetic between load and store: float or double
/// \tparam ExecutionSpace where the kernels run
template <class Compute, class ExecutionSpace = Kokkos::DefaultExecutionSpace>
class PlanarStack {
  static_assert(impl::is_real_v<Compute>, "meander::PlanarStack: Compute must be float or double.");
  static_assert(Kokkos::is_execution_space_v<ExecutionSpace>,
                "meander::PlanarStack: ExecutionSpace must be a Kokkos execution space.");

 public:
  using compute_type    = Compute;
  using execution_space = ExecutionSpace;
  using memory_space    = typename ExecutionSpace::memory_space;

  /// \brief Allocates on `exec` and prepares the stack; the preparation is asynchronous, unless the
  /// options have it checked (PlanarOptions::invertible with Constraint::none).
  /// \param[in] exec the instance the work is queued on
  /// \param[in] parameters w (L, D), u (L, D), b (L); L >= 0, 1 <= D <= max_dim()
  /// \param[in] options activation, constraint, epsilon
  /// \throws std::invalid_argument if extents disagree, an option is out of its range, or a layer
  /// that is checked has no inverse
  template <class WView, class UView, class BView>
  PlanarStack(ExecutionSpace const& exec, PlanarParameters<WView, UView, BView> const& parameters,
              PlanarOptions const& options = {})
      : options_(options) {
    impl::check_options(options);
    check_types<WView, UView, BView>();
    impl::check_stack_extents(parameters.w.extent(0), parameters.w.extent(1), max_dim());
    coefficients_.dim    = static_cast<int>(parameters.w.extent(1));
    coefficients_.layers = static_cast<int>(parameters.w.extent(0));
    impl::lay_out<ExecutionSpace, Compute>(coefficients_, nullptr, options);
    storage_ = storage_type(
        Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, "meander::PlanarStack::coefficients"),
        impl::storage_size(coefficients_));
    impl::lay_out<ExecutionSpace, Compute>(coefficients_, storage_.data(), options);
    refresh(exec, parameters);
  }

  /// Copies share the memory; there is no moved-from state.
  PlanarStack(PlanarStack const&)            = default;
  PlanarStack& operator=(PlanarStack const&) = default;
  ~PlanarStack()                             = default;

  /// \brief Takes new parameter values of the same extents, in place: no allocation, no fence.
  ///
  /// Asynchronous: work queued on `exec` afterwards sees the new values. Work on other instances
  /// that uses this stack must be ordered by the caller. A stack that is checked for its inverse
  /// waits here, as in the constructor; when it throws it has taken the new values nevertheless.
  /// \throws std::invalid_argument if extents differ from those the stack was made with, or a layer
  /// that is checked has no inverse
  template <class WView, class UView, class BView>
  void refresh(ExecutionSpace const& exec,
               PlanarParameters<WView, UView, BView> const& parameters) {
    check_types<WView, UView, BView>();
    check_extents(parameters.w, "w");
    check_extents(parameters.u, "u");
    impl::check_extent("meander::PlanarStack", "b", "extent 0", parameters.b.extent(0),
                       num_layers(), "the number of layers");
    impl::planar_prepare(exec, coefficients_, options_.constraint,
                         impl::as_const(impl::strided_matrix(parameters.w)),
                         impl::as_const(impl::strided_matrix(parameters.u)),
                         impl::as_const(impl::strided_vector(parameters.b)));
    if (!options_.invertible || options_.constraint != Constraint::none) return;
    auto const found = impl::planar_find_singular(exec, coefficients_);
    if (found.layer < num_layers()) impl::refuse_layer(found.layer, found.w_dot_u, options_);
  }

  /// \brief D, the number of coordinates of a row.
  int dim() const { return coefficients_.dim; }
  /// \brief L, the number of layers.
  int num_layers() const { return coefficients_.layers; }
  PlanarOptions const& options() const { return options_; }

  /// \brief s = 1 + w.u_hat of each layer, (L): the determinant where h' = 1. In device memory.
  auto s() const {
    return Kokkos::View<Compute const*, memory_space, Kokkos::MemoryUnmanaged>(
        coefficients_.s, static_cast<std::size_t>(num_layers()));
  }

  /// \brief The largest D the kernels of this execution space take.
  static constexpr int max_dim() { return impl::max_dim<ExecutionSpace>; }

  /// \cond internal
  impl::PlanarCoefficients<Compute> const& coefficients() const { return coefficients_; }
  /// \endcond

 private:
  using storage_type = Kokkos::View<Compute*, memory_space>;

  template <class WView, class UView, class BView>
  static constexpr void check_types() {
    static_assert(Kokkos::is_view_v<WView> && Kokkos::is_view_v<UView> && Kokkos::is_view_v<BView>,
                  "meander::PlanarStack: w, u and b must be Kokkos Views.");
    static_assert(WView::rank() == 2 && UView::rank() == 2 && BView::rank() == 1,
                  "meander::PlanarStack: w and u must have rank 2 (L, D), b rank 1 (L).");
    static_assert(impl::is_real_v<impl::value_t<WView>> &&
                      std::is_same_v<impl::value_t<WView>, impl::value_t<UView>> &&
                      std::is_same_v<impl::value_t<WView>, impl::value_t<BView>>,
                  "meander::PlanarStack: w, u and b must all hold float or all hold double.");
    static_assert(
        impl::is_accessible_from_v<WView, ExecutionSpace> &&
            impl::is_accessible_from_v<UView, ExecutionSpace> &&
            impl::is_accessible_from_v<BView, ExecutionSpace>,
        "meander::PlanarStack: w, u and b must lie in memory that the execution space can "
        "access; copy them there with Kokkos::create_mirror_view_and_copy.");
  }

  template <class View>
  void check_extents(View const& view, char const* name) const {
    impl::check_extent("meander::PlanarStack", name, "extent 0", view.extent(0), num_layers(),
                       "the number of layers");
    impl::check_extent("meander::PlanarStack", name, "extent 1", view.extent(1), dim(),
                       "the dimension of the stack");
  }

  PlanarOptions options_;
  impl::PlanarCoefficients<Compute> coefficients_;
  storage_type storage_;
};

template <class ExecutionSpace, class WView, class UView, class BView>
PlanarStack(ExecutionSpace const&, PlanarParameters<WView, UView, BView> const&)
    -> PlanarStack<impl::value_t<WView>, ExecutionSpace>;
template <class ExecutionSpace, class WView, class UView, class BView>
PlanarStack(ExecutionSpace const&, PlanarParameters<WView, UView, BView> const&,
            PlanarOptions const&) -> PlanarStack<impl::value_t<WView>, ExecutionSpace>;

}  // namespace meander
