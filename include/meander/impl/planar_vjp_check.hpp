// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <initializer_list>
#include <type_traits>

#include <Kokkos_Core.hpp>

#include <meander/impl/check.hpp>
#include <meander/impl/planar_vjp.hpp>
#include <meander/impl/strided.hpp>
#include <meander/impl/view_traits.hpp>
#include <meander/planar_parameters.hpp>

/// What vjp, inverse_vjp and the losses check alike.
namespace meander::impl {

/// The workspace is for the stack's shape.
template <class Workspace, class Stack>
void check_vjp_shape(char const* function, Workspace const& workspace, Stack const& stack) {
  check_extent(function, "workspace", "the dimension", workspace.dim(), stack.dim(),
               "the dimension of the stack");
  check_extent(function, "workspace", "the number of layers", workspace.num_layers(),
               stack.num_layers(), "the number of layers of the stack");
}

template <class ExecutionSpace, class WView, class UView, class BView, class GradWView,
          class GradUView, class GradBView>
constexpr void check_vjp_parameter_types() {
  static_assert(Kokkos::is_view_v<WView> && Kokkos::is_view_v<UView> && Kokkos::is_view_v<BView> &&
                    Kokkos::is_view_v<GradWView> && Kokkos::is_view_v<GradUView> &&
                    Kokkos::is_view_v<GradBView>,
                "meander::vjp, inverse_vjp, negative_log_likelihood and reverse_kl: w, u and b of "
                "the parameters and of their "
                "gradients must be Kokkos Views.");
  static_assert(WView::rank() == 2 && UView::rank() == 2 && BView::rank() == 1 &&
                    GradWView::rank() == 2 && GradUView::rank() == 2 && GradBView::rank() == 1,
                "meander::vjp, inverse_vjp, negative_log_likelihood and reverse_kl: w and u must "
                "have rank 2 (L, D), b rank 1 "
                "(L), and so must their gradients.");
  static_assert(is_real_v<value_t<WView>> && std::is_same_v<value_t<WView>, value_t<UView>> &&
                    std::is_same_v<value_t<WView>, value_t<BView>>,
                "meander::vjp, inverse_vjp, negative_log_likelihood and reverse_kl: w, u and b "
                "must all hold float or all hold "
                "double.");
  static_assert(is_real_v<value_t<GradWView>> &&
                    std::is_same_v<value_t<GradWView>, value_t<GradUView>> &&
                    std::is_same_v<value_t<GradWView>, value_t<GradBView>>,
                "meander::vjp, inverse_vjp, negative_log_likelihood and reverse_kl: the gradients "
                "by w, u and b must all hold "
                "float or all hold double.");
  static_assert(is_writable_v<GradWView> && is_writable_v<GradUView> && is_writable_v<GradBView>,
                "meander::vjp, inverse_vjp, negative_log_likelihood and reverse_kl: the gradients "
                "by w, u and b must not be "
                "Views of const.");
  static_assert(is_accessible_from_v<WView, ExecutionSpace> &&
                    is_accessible_from_v<UView, ExecutionSpace> &&
                    is_accessible_from_v<BView, ExecutionSpace> &&
                    is_accessible_from_v<GradWView, ExecutionSpace> &&
                    is_accessible_from_v<GradUView, ExecutionSpace> &&
                    is_accessible_from_v<GradBView, ExecutionSpace>,
                "meander::vjp, inverse_vjp, negative_log_likelihood and reverse_kl: parameters and "
                "gradients must lie in memory that the "
                "execution space can access.");
}

/// An argument and where it lies; nowhere if it was not given.
struct NamedElements {
  char const* name;
  Elements elements;
};

inline void check_disjoint_from_all(char const* function, NamedElements const& written,
                                    std::initializer_list<NamedElements> others) {
  for (auto const& other : others)
    check_disjoint(function, written.name, other.name, written.elements, other.elements);
}

/// The parameters and their gradients, each of which is written to memory of its own: it shares
/// none with the others, nor with `others`.
template <class ExecutionSpace, class Storage, class Compute, class WView, class UView, class BView,
          class GradWView, class GradUView, class GradBView>
auto checked_vjp_parameters(char const* function, PlanarOptions const& options,
                            PlanarVjpCall<Storage, Compute> const& call,
                            PlanarParameters<WView, UView, BView> const& parameters,
                            PlanarParameters<GradWView, GradUView, GradBView> const& gradients,
                            std::initializer_list<NamedElements> others) {
  check_vjp_parameter_types<ExecutionSpace, WView, UView, BView, GradWView, GradUView, GradBView>();
  auto const check_matrix = [&](auto const& view, char const* name) {
    check_extent(function, name, "extent 0", view.extent(0), call.stack.layers,
                 "the number of layers");
    check_extent(function, name, "extent 1", view.extent(1), call.stack.dim,
                 "the dimension of the stack");
  };
  check_matrix(parameters.w, "w");
  check_matrix(parameters.u, "u");
  check_extent(function, "b", "extent 0", parameters.b.extent(0), call.stack.layers,
               "the number of layers");
  check_matrix(gradients.w, "grad_parameters.w");
  check_matrix(gradients.u, "grad_parameters.u");
  check_extent(function, "grad_parameters.b", "extent 0", gradients.b.extent(0), call.stack.layers,
               "the number of layers");
  PlanarVjpParameters<value_t<WView>, value_t<GradWView>> const strided{
      options.constraint,
      call.direction,
      as_const(strided_matrix(parameters.w)),
      as_const(strided_matrix(parameters.u)),
      strided_matrix(gradients.w),
      strided_matrix(gradients.u),
      strided_vector(gradients.b)};
  NamedElements const own[] = {{"w", elements(strided.w)},
                               {"u", elements(strided.u)},
                               {"b", elements(strided_vector(parameters.b))},
                               {"grad_parameters.w", elements(strided.grad_w)},
                               {"grad_parameters.u", elements(strided.grad_u)},
                               {"grad_parameters.b", elements(strided.grad_b)}};
  for (int i = 3; i < 6; ++i) {
    check_distinct(function, own[i].name, own[i].elements);
    for (int j = 0; j < i; ++j)
      check_disjoint(function, own[i].name, own[j].name, own[i].elements, own[j].elements);
    check_disjoint_from_all(function, own[i], others);
  }
  return strided;
}

}  // namespace meander::impl
