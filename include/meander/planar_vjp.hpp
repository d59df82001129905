// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include <Kokkos_Core.hpp>

#include <meander/impl/check.hpp>
#include <meander/impl/planar_prepare.hpp>
#include <meander/impl/planar_vjp.hpp>
#include <meander/impl/planar_vjp_check.hpp>
#include <meander/impl/strided.hpp>
#include <meander/impl/view_traits.hpp>
#include <meander/planar_parameters.hpp>
#include <meander/planar_stack.hpp>

namespace meander {

/// \brief The memory that vjp and inverse_vjp work in: the sums of chunks of rows, and on the host
/// D + L numbers for each row of a tile of each thread. On a device, stacks that no kernel takes at
/// once (L > 64, or many coordinates and layers) need 2 D + 3 L + 1 numbers a row besides, for at
/// most 32768 rows or one chunk.
///
/// Serves every stack of that shape. A copy shares the memory; calls that overlap in time (on
/// different instances) need workspaces of their own.
///
/// \tparam Compute the compute type of the stack
/// \tparam ExecutionSpace where the kernels run
template <class Compute, class ExecutionSpace = Kokkos::DefaultExecutionSpace>
class PlanarVjpWorkspace {
 public:
  using compute_type    = Compute;
  using execution_space = ExecutionSpace;
  using memory_space    = typename ExecutionSpace::memory_space;

  /// \brief Allocates on `exec`.
  /// \param[in] exec the instance that memory is allocated on
  /// \param[in] stack a stack of the shape (L, D) that the workspace is for
  /// \param[in] max_batch the largest batch it is for
  /// \throws std::invalid_argument if max_batch is negative
  PlanarVjpWorkspace(ExecutionSpace const& exec, PlanarStack<Compute, ExecutionSpace> const& stack,
                     std::int64_t max_batch)
      : dim_(stack.dim()), num_layers_(stack.num_layers()) {
    impl::check_vjp_max_batch(max_batch);
    memory_.max_batch = max_batch;
    if constexpr (impl::is_host_space<ExecutionSpace>) memory_.slots = exec.concurrency();
    auto const sizes =
        impl::planar_vjp_sizes<ExecutionSpace>(stack.coefficients(), max_batch, memory_.slots);
    rows_ = Kokkos::View<Compute*, memory_space>(
        Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, "meander::PlanarVjpWorkspace::rows"),
        sizes.rows);
    sums_ = Kokkos::View<double*, memory_space>(
        Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, "meander::PlanarVjpWorkspace::sums"),
        sizes.sums);
    memory_.rows = rows_.data();
    memory_.sums = sums_.data();
  }

  std::int64_t max_batch() const { return memory_.max_batch; }
  int dim() const { return dim_; }
  int num_layers() const { return num_layers_; }

  /// \cond internal
  impl::PlanarVjpMemory<Compute> const& memory() const { return memory_; }
  /// \endcond

 private:
  int dim_, num_layers_;
  impl::PlanarVjpMemory<Compute> memory_;
  Kokkos::View<Compute*, memory_space> rows_;
  Kokkos::View<double*, memory_space> sums_;
};

namespace impl {

/// The function and what it calls its arguments.
struct VjpNames {
  char const *function, *from, *grad_to, *grad_from;
};
inline constexpr VjpNames vjp_names{"meander::vjp", "z", "grad_y", "grad_z"};
inline constexpr VjpNames inverse_vjp_names{"meander::inverse_vjp", "y", "grad_z", "grad_y"};

template <class ExecutionSpace, class WorkspaceSpace, class StackSpace, class Compute,
          class FromView, class GradToView, class GradLogDetView>
auto vjp_call(VjpNames const& names, MapDirection direction,
              PlanarVjpWorkspace<Compute, WorkspaceSpace> const& workspace,
              PlanarStack<Compute, StackSpace> const& stack, FromView const& from,
              GradToView const& grad_to, GradLogDetView const& grad_log_det) {
  static_assert(
      std::is_same_v<ExecutionSpace, StackSpace> && std::is_same_v<ExecutionSpace, WorkspaceSpace>,
      "meander::vjp, meander::inverse_vjp: exec must be an instance of the execution "
      "space that the stack and the workspace were made for.");
  static_assert(Kokkos::is_view_v<FromView> && Kokkos::is_view_v<GradToView> &&
                    Kokkos::is_view_v<GradLogDetView>,
                "meander::vjp, meander::inverse_vjp: z, y and the gradients must be Kokkos Views.");
  static_assert(FromView::rank() == 2 && GradToView::rank() == 2 && GradLogDetView::rank() == 1,
                "meander::vjp, meander::inverse_vjp: z, y and the gradients by them must have rank "
                "2 (batch, dimension), grad_log_det rank 1 (batch).");
  using Storage = value_t<FromView>;
  static_assert(std::is_same_v<Storage, value_t<GradToView>> &&
                    std::is_same_v<Storage, value_t<GradLogDetView>>,
                "meander::vjp, meander::inverse_vjp: the rows and the gradients by rows and "
                "log_det must have the same value type.");
  static_assert(is_supported_pair_v<Storage, Compute>,
                "meander::vjp, meander::inverse_vjp: the value type of the rows must be float or "
                "double and no wider than the stack's compute type.");
  static_assert(is_accessible_from_v<FromView, ExecutionSpace> &&
                    is_accessible_from_v<GradToView, ExecutionSpace> &&
                    is_accessible_from_v<GradLogDetView, ExecutionSpace>,
                "meander::vjp, meander::inverse_vjp: rows and gradients must lie in memory that "
                "the execution space can access.");
  std::string const rows = std::string("extent 0 of ") + names.from;
  check_extent(names.function, names.from, "extent 1", from.extent(1), stack.dim(),
               "the dimension of the stack");
  check_extent(names.function, names.grad_to, "extent 0", grad_to.extent(0), from.extent(0),
               rows.c_str());
  check_extent(names.function, names.grad_to, "extent 1", grad_to.extent(1), stack.dim(),
               "the dimension of the stack");
  check_extent(names.function, "grad_log_det", "extent 0", grad_log_det.extent(0), from.extent(0),
               rows.c_str());
  check_vjp_shape(names.function, workspace, stack);
  check_vjp_batch(names.function, names.from, from.extent(0), workspace.max_batch());
  PlanarVjpCall<Storage, Compute> call;
  call.stack        = stack.coefficients();
  call.direction    = direction;
  call.from         = as_const(strided_matrix(from));
  call.grad_to      = as_const(strided_matrix(grad_to));
  call.grad_log_det = as_const(strided_vector(grad_log_det));
  call.memory       = workspace.memory();
  return call;
}

template <class ExecutionSpace, class Storage, class Compute, class View>
void add_grad_from(VjpNames const& names, PlanarVjpCall<Storage, Compute>& call,
                   View const& grad_from) {
  static_assert(Kokkos::is_view_v<View> && View::rank() == 2 && is_writable_v<View> &&
                    std::is_same_v<value_t<View>, Storage>,
                "meander::vjp, meander::inverse_vjp: the gradient by the rows must be a View of "
                "rank 2 (batch, dimension), not const, with the value type of the rows.");
  static_assert(is_accessible_from_v<View, ExecutionSpace>,
                "meander::vjp, meander::inverse_vjp: the gradient by the rows must lie in memory "
                "that the execution space can access.");
  std::string const rows = std::string("extent 0 of ") + names.from;
  check_extent(names.function, names.grad_from, "extent 0", grad_from.extent(0), call.from.extent0,
               rows.c_str());
  check_extent(names.function, names.grad_from, "extent 1", grad_from.extent(1), call.from.extent1,
               "the dimension of the stack");
  call.grad_from     = strided_matrix(grad_from);
  auto const written = elements(call.grad_from);
  check_distinct(names.function, names.grad_from, written);
  check_same_or_disjoint(names.function, names.grad_from, names.from, written, elements(call.from));
  check_same_or_disjoint(names.function, names.grad_from, names.grad_to, written,
                         elements(call.grad_to));
  check_disjoint(names.function, names.grad_from, "grad_log_det", written,
                 elements(call.grad_log_det));
}

/// Checks the parameters, runs the call and then turns its sums into their gradients.
template <class ExecutionSpace, class Storage, class Compute, class WView, class UView, class BView,
          class GradWView, class GradUView, class GradBView>
void run_vjp(VjpNames const& names, ExecutionSpace const& exec, PlanarOptions const& options,
             PlanarVjpCall<Storage, Compute>& call,
             PlanarParameters<WView, UView, BView> const& parameters,
             PlanarParameters<GradWView, GradUView, GradBView> const& gradients) {
  auto const strided =
      checked_vjp_parameters<ExecutionSpace>(names.function, options, call, parameters, gradients,
                                             {{names.from, elements(call.from)},
                                              {names.grad_to, elements(call.grad_to)},
                                              {"grad_log_det", elements(call.grad_log_det)},
                                              {names.grad_from, elements(call.grad_from)}});
  call.with_parameters = true;
  planar_vjp(exec, call);
  planar_vjp_parameters(exec, call.stack, call.memory, strided);
}

}  // namespace impl

/// \brief Gradients through `forward` (vector-Jacobian product): of a loss whose gradients by y and
/// log_det are given, the gradients by z and by the raw w, u, b.
///
/// The chain is kept in Gram form: L scalars a row, and nothing of size B D L. Sums over rows are
/// taken in chunks and an order that depend on B, D and L alone: the same bits for any number of
/// threads. They are kept in the compute type within a tile or a run of tiles (at most 512 rows),
/// in double from there on, and taken through the constraint in double.
///
/// A layer with w = 0 is a shift. Where the constraint is not `none` it has no derivative by w; its
/// gradient is given as zero. Where a determinant is zero the gradient is infinite or NaN, unless
/// grad_log_det is zero there. A row that holds a NaN makes the parameters' gradients NaN. At the
/// kink of leaky_relu the slope is that of the positive side.
///
/// Asynchronous with respect to the host: the work is queued on `exec`; nothing is allocated,
/// copied or fenced. The workspace is in use until it is done.
///
/// \param[in] exec the instance the work is queued on
/// \param[in] workspace made for the shape of the stack and for B rows or more
/// \param[in] stack L layers on R^D, as `parameters` were last given to it
/// \param[in] parameters w (L, D), u (L, D), b (L), which the stack does not keep
/// \param[in] z (B, D), any layout; float or double, no wider than the compute type of the stack
/// \param[in] grad_y (B, D), the loss by y, in the value type of z
/// \param[in] grad_log_det (B), the loss by log_det, in the value type of z
/// \param[out] grad_z (B, D), the loss by z, in the value type of z; the very same elements as z or
/// grad_y, or none of them
/// \param[out] grad_parameters w (L, D), u (L, D), b (L), the loss by the raw parameters; float or
/// double, whatever the other types; must share no memory with any other argument
/// \throws std::invalid_argument if extents disagree, the batch is larger than the workspace is
/// for, or outputs overlap
/// \see Rezende & Mohamed 2015, eq. 10 to 13 and appendix A.1, whose derivatives these are
template <class ExecutionSpace, class WorkspaceSpace, class StackSpace, class Compute, class WView,
          class UView, class BView, class ZView, class GradYView, class GradLogDetView,
          class GradZView, class GradWView, class GradUView, class GradBView>
void vjp(ExecutionSpace const& exec, PlanarVjpWorkspace<Compute, WorkspaceSpace> const& workspace,
         PlanarStack<Compute, StackSpace> const& stack,
         PlanarParameters<WView, UView, BView> const& parameters, ZView const& z,
         GradYView const& grad_y, GradLogDetView const& grad_log_det, GradZView const& grad_z,
         PlanarParameters<GradWView, GradUView, GradBView> const& grad_parameters) {
  constexpr auto names = impl::vjp_names;
  auto call = impl::vjp_call<ExecutionSpace>(names, impl::MapDirection::forward, workspace, stack,
                                             z, grad_y, grad_log_det);
  impl::add_grad_from<ExecutionSpace>(names, call, grad_z);
  impl::run_vjp(names, exec, stack.options(), call, parameters, grad_parameters);
}

/// \brief The same without the gradient by z.
template <class ExecutionSpace, class WorkspaceSpace, class StackSpace, class Compute, class WView,
          class UView, class BView, class ZView, class GradYView, class GradLogDetView,
          class GradWView, class GradUView, class GradBView>
void vjp(ExecutionSpace const& exec, PlanarVjpWorkspace<Compute, WorkspaceSpace> const& workspace,
         PlanarStack<Compute, StackSpace> const& stack,
         PlanarParameters<WView, UView, BView> const& parameters, ZView const& z,
         GradYView const& grad_y, GradLogDetView const& grad_log_det,
         PlanarParameters<GradWView, GradUView, GradBView> const& grad_parameters) {
  constexpr auto names = impl::vjp_names;
  auto call = impl::vjp_call<ExecutionSpace>(names, impl::MapDirection::forward, workspace, stack,
                                             z, grad_y, grad_log_det);
  impl::run_vjp(names, exec, stack.options(), call, parameters, grad_parameters);
}

/// \brief The same without the gradients by the parameters.
template <class ExecutionSpace, class WorkspaceSpace, class StackSpace, class Compute, class ZView,
          class GradYView, class GradLogDetView, class GradZView>
void vjp(ExecutionSpace const& exec, PlanarVjpWorkspace<Compute, WorkspaceSpace> const& workspace,
         PlanarStack<Compute, StackSpace> const& stack, ZView const& z, GradYView const& grad_y,
         GradLogDetView const& grad_log_det, GradZView const& grad_z) {
  constexpr auto names = impl::vjp_names;
  auto call = impl::vjp_call<ExecutionSpace>(names, impl::MapDirection::forward, workspace, stack,
                                             z, grad_y, grad_log_det);
  impl::add_grad_from<ExecutionSpace>(names, call, grad_z);
  impl::planar_vjp(exec, call);
}

/// \brief Gradients through `inverse`, of a loss by z and by the log_det that inverse gives.
///
/// By implicit differentiation: y is inverted once, and then one triangular system is solved with
/// the transposed Jacobian of the forward map, layer by layer. All else is as with vjp.
///
/// \param[in] exec the instance the work is queued on
/// \param[in] workspace made for the shape of the stack and for B rows or more
/// \param[in] stack L layers on R^D; with Constraint::none prepared as PlanarOptions::invertible
/// \param[in] parameters w (L, D), u (L, D), b (L), which the stack does not keep
/// \param[in] y (B, D), any layout; float or double, no wider than the compute type of the stack
/// \param[in] grad_z (B, D), the loss by z, in the value type of y
/// \param[in] grad_log_det (B), the loss by log_det = log|det dz/dy|, in the value type of y
/// \param[out] grad_y (B, D), the loss by y, in the value type of y; the very same elements as y or
/// grad_z, or none of them
/// \param[out] grad_parameters w (L, D), u (L, D), b (L), the loss by the raw parameters
/// \throws std::invalid_argument as vjp does, or if the stack has not been checked to have an
/// inverse (PlanarOptions::invertible)
template <class ExecutionSpace, class WorkspaceSpace, class StackSpace, class Compute, class WView,
          class UView, class BView, class YView, class GradZView, class GradLogDetView,
          class GradYView, class GradWView, class GradUView, class GradBView>
void inverse_vjp(ExecutionSpace const& exec,
                 PlanarVjpWorkspace<Compute, WorkspaceSpace> const& workspace,
                 PlanarStack<Compute, StackSpace> const& stack,
                 PlanarParameters<WView, UView, BView> const& parameters, YView const& y,
                 GradZView const& grad_z, GradLogDetView const& grad_log_det,
                 GradYView const& grad_y,
                 PlanarParameters<GradWView, GradUView, GradBView> const& grad_parameters) {
  constexpr auto names = impl::inverse_vjp_names;
  auto call = impl::vjp_call<ExecutionSpace>(names, impl::MapDirection::inverse, workspace, stack,
                                             y, grad_z, grad_log_det);
  impl::check_invertible(names.function, stack.options());
  impl::add_grad_from<ExecutionSpace>(names, call, grad_y);
  impl::run_vjp(names, exec, stack.options(), call, parameters, grad_parameters);
}

/// \brief The same without the gradient by y.
template <class ExecutionSpace, class WorkspaceSpace, class StackSpace, class Compute, class WView,
          class UView, class BView, class YView, class GradZView, class GradLogDetView,
          class GradWView, class GradUView, class GradBView>
void inverse_vjp(ExecutionSpace const& exec,
                 PlanarVjpWorkspace<Compute, WorkspaceSpace> const& workspace,
                 PlanarStack<Compute, StackSpace> const& stack,
                 PlanarParameters<WView, UView, BView> const& parameters, YView const& y,
                 GradZView const& grad_z, GradLogDetView const& grad_log_det,
                 PlanarParameters<GradWView, GradUView, GradBView> const& grad_parameters) {
  constexpr auto names = impl::inverse_vjp_names;
  auto call = impl::vjp_call<ExecutionSpace>(names, impl::MapDirection::inverse, workspace, stack,
                                             y, grad_z, grad_log_det);
  impl::check_invertible(names.function, stack.options());
  impl::run_vjp(names, exec, stack.options(), call, parameters, grad_parameters);
}

/// \brief The same without the gradients by the parameters.
template <class ExecutionSpace, class WorkspaceSpace, class StackSpace, class Compute, class YView,
          class GradZView, class GradLogDetView, class GradYView>
void inverse_vjp(ExecutionSpace const& exec,
                 PlanarVjpWorkspace<Compute, WorkspaceSpace> const& workspace,
                 PlanarStack<Compute, StackSpace> const& stack, YView const& y,
                 GradZView const& grad_z, GradLogDetView const& grad_log_det,
                 GradYView const& grad_y) {
  constexpr auto names = impl::inverse_vjp_names;
  auto call = impl::vjp_call<ExecutionSpace>(names, impl::MapDirection::inverse, workspace, stack,
                                             y, grad_z, grad_log_det);
  impl::check_invertible(names.function, stack.options());
  impl::add_grad_from<ExecutionSpace>(names, call, grad_y);
  impl::planar_vjp(exec, call);
}

}  // namespace meander
