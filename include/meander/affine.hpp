// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <type_traits>

#include <Kokkos_Core.hpp>

#include <meander/impl/affine.hpp>
#include <meander/impl/check.hpp>
#include <meander/impl/map_check.hpp>
#include <meander/impl/planar_prepare.hpp>
#include <meander/impl/strided.hpp>
#include <meander/impl/view_traits.hpp>

namespace meander {

/// \brief The parameters of an elementwise affine layer, f(z)_d = shift_d + exp(log_scale_d) z_d.
///
/// Holds Views and copies as they do. Values are float or double, in any layout.
///
/// \tparam ShiftView rank-1 View
/// \tparam LogScaleView rank-1 View
template <class ShiftView, class LogScaleView>
struct AffineParameters {
  ShiftView shift;         ///< (D)
  LogScaleView log_scale;  ///< (D), natural logarithms of the scales
};

template <class ShiftView, class LogScaleView>
AffineParameters(ShiftView, LogScaleView) -> AffineParameters<ShiftView, LogScaleView>;

/// \brief An elementwise affine layer on R^D, made ready for the kernels of one execution space.
///
/// As the first layer of a normalizing flow, or the last of a generative one, it lets the other
/// layers work on standardised rows while the flow speaks of the data's own units. Arithmetic is in
/// double whatever the type of the rows, and whatever the other layers of a flow compute in. A copy
/// shares the same memory, as Kokkos Views do.
///
/// \tparam ExecutionSpace where the kernels run
template <class ExecutionSpace = Kokkos::DefaultExecutionSpace>
class AffineMap {
  static_assert(Kokkos::is_execution_space_v<ExecutionSpace>,
                "meander::AffineMap: ExecutionSpace must be a Kokkos execution space.");

 public:
  using compute_type    = double;
  using execution_space = ExecutionSpace;
  using memory_space    = typename ExecutionSpace::memory_space;

  /// \brief Allocates on `exec` and prepares the layer; the preparation is asynchronous.
  /// \param[in] exec the instance the work is queued on
  /// \param[in] parameters shift (D), log_scale (D); 1 <= D <= max_dim()
  /// \throws std::invalid_argument if extents disagree or D is out of its range
  template <class ShiftView, class LogScaleView>
  AffineMap(ExecutionSpace const& exec,
            AffineParameters<ShiftView, LogScaleView> const& parameters) {
    check_types<ShiftView, LogScaleView>();
    impl::check_affine_dim(static_cast<std::int64_t>(parameters.shift.extent(0)), max_dim());
    auto const dim = static_cast<std::int32_t>(parameters.shift.extent(0));
    storage_       = storage_type(
              Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, "meander::AffineMap::coefficients"),
              impl::affine_storage_size(dim));
    coefficients_ = impl::affine_coefficients(dim, storage_.data());
    refresh(exec, parameters);
  }

  /// Copies share the memory; there is no moved-from state.
  AffineMap(AffineMap const&)            = default;
  AffineMap& operator=(AffineMap const&) = default;
  ~AffineMap()                           = default;

  /// \brief Takes new parameter values of the same extents, in place: no allocation, no fence.
  ///
  /// Asynchronous: work queued on `exec` afterwards sees the new values. Work on other instances
  /// that uses this layer must be ordered by the caller.
  /// \throws std::invalid_argument if extents differ from those the layer was made with
  template <class ShiftView, class LogScaleView>
  void refresh(ExecutionSpace const& exec,
               AffineParameters<ShiftView, LogScaleView> const& parameters) {
    check_types<ShiftView, LogScaleView>();
    check_extent(parameters.shift, "shift");
    check_extent(parameters.log_scale, "log_scale");
    impl::affine_prepare(exec, coefficients_.dim, storage_.data(),
                         impl::as_const(impl::strided_vector(parameters.shift)),
                         impl::as_const(impl::strided_vector(parameters.log_scale)));
  }

  /// \brief D, the number of coordinates of a row.
  int dim() const { return coefficients_.dim; }

  /// \brief The largest D the kernels of this execution space take.
  static constexpr int max_dim() { return impl::max_dim<ExecutionSpace>; }

  /// \cond internal
  impl::AffineCoefficients const& coefficients() const { return coefficients_; }
  /// \endcond

 private:
  using storage_type = Kokkos::View<double*, memory_space>;

  template <class ShiftView, class LogScaleView>
  static constexpr void check_types() {
    static_assert(Kokkos::is_view_v<ShiftView> && Kokkos::is_view_v<LogScaleView> &&
                      ShiftView::rank() == 1 && LogScaleView::rank() == 1,
                  "meander::AffineMap: shift and log_scale must be Kokkos Views of rank 1 (D).");
    static_assert(impl::is_real_v<impl::value_t<ShiftView>> &&
                      std::is_same_v<impl::value_t<ShiftView>, impl::value_t<LogScaleView>>,
                  "meander::AffineMap: shift and log_scale must both hold float or both hold "
                  "double.");
    static_assert(impl::is_accessible_from_v<ShiftView, ExecutionSpace> &&
                      impl::is_accessible_from_v<LogScaleView, ExecutionSpace>,
                  "meander::AffineMap: shift and log_scale must lie in memory that the execution "
                  "space can access.");
  }

  template <class View>
  void check_extent(View const& view, char const* name) const {
    impl::check_extent("meander::AffineMap", name, "extent 0",
                       static_cast<std::int64_t>(view.extent(0)), dim(),
                       "the dimension of the layer");
  }

  impl::AffineCoefficients coefficients_;
  storage_type storage_;
};

template <class ExecutionSpace, class ShiftView, class LogScaleView>
AffineMap(ExecutionSpace const&, AffineParameters<ShiftView, LogScaleView> const&)
    -> AffineMap<ExecutionSpace>;

namespace impl {

/// What forward and inverse of an affine layer ask of the rows.
template <class ExecutionSpace, class MapSpace, class FromView, class ToView>
void check_affine(char const* function, AffineMap<MapSpace> const& layer, char const* from_name,
                  FromView const& from, char const* to_name, ToView const& to) {
  check_map<ExecutionSpace>(function, layer, from_name, from, to_name, to,
                            "the dimension of the affine layer");
}

}  // namespace impl

/// \brief Maps a batch of rows through an affine layer: y_d = shift_d + exp(log_scale_d) z_d.
///
/// Asynchronous with respect to the host: the work is queued on `exec`; nothing is allocated,
/// copied or fenced. Each row is computed on its own, so results depend neither on the number of
/// threads nor on how a batch is split into calls. A coordinate that is a NaN or an infinity comes
/// out as such, and leaves the others alone.
///
/// \param[in] exec the instance the work is queued on
/// \param[in] layer on R^D
/// \param[in] z (B, D), any layout; float or double
/// \param[out] y (B, D), any layout, the value type of z; the very same elements as z, or none of
/// them
/// \param[out] log_det (B), natural log of |det dy/dz| per row, which is the sum of log_scale; must
/// share no memory with z and y
/// \throws std::invalid_argument if extents disagree, y overlaps z without being z, or log_det
/// overlaps either
template <class ExecutionSpace, class MapSpace, class ZView, class YView, class LogDetView>
void forward(ExecutionSpace const& exec, AffineMap<MapSpace> const& layer, ZView const& z,
             YView const& y, LogDetView const& log_det) {
  impl::check_affine<ExecutionSpace>("meander::forward", layer, "z", z, "y", y);
  impl::check_log_det<ExecutionSpace>("meander::forward", "z", z, "y", y, log_det);
  impl::affine_map(exec, layer.coefficients(), impl::MapDirection::forward,
                   impl::as_const(impl::strided_matrix(z)), impl::strided_matrix(y),
                   impl::strided_vector(log_det));
}

/// \brief The same without the log-determinant.
template <class ExecutionSpace, class MapSpace, class ZView, class YView>
void forward(ExecutionSpace const& exec, AffineMap<MapSpace> const& layer, ZView const& z,
             YView const& y) {
  impl::check_affine<ExecutionSpace>("meander::forward", layer, "z", z, "y", y);
  impl::affine_map(exec, layer.coefficients(), impl::MapDirection::forward,
                   impl::as_const(impl::strided_matrix(z)), impl::strided_matrix(y),
                   impl::StridedVector<impl::value_t<ZView>>{});
}

/// \brief Takes a batch of rows back through an affine layer: z_d = (y_d - shift_d) /
/// exp(log_scale_d).
///
/// Asynchronous, and as independent of threads and splits, as forward is.
///
/// \param[in] exec the instance the work is queued on
/// \param[in] layer on R^D
/// \param[in] y (B, D), any layout; float or double
/// \param[out] z (B, D), any layout, the value type of y; the very same elements as y, or none of
/// them
/// \param[out] log_det (B), natural log of |det dz/dy| per row, which is minus the sum of
/// log_scale; must share no memory with y and z
/// \throws std::invalid_argument if extents disagree, z overlaps y without being y, or log_det
/// overlaps either
template <class ExecutionSpace, class MapSpace, class YView, class ZView, class LogDetView>
void inverse(ExecutionSpace const& exec, AffineMap<MapSpace> const& layer, YView const& y,
             ZView const& z, LogDetView const& log_det) {
  impl::check_affine<ExecutionSpace>("meander::inverse", layer, "y", y, "z", z);
  impl::check_log_det<ExecutionSpace>("meander::inverse", "y", y, "z", z, log_det);
  impl::affine_map(exec, layer.coefficients(), impl::MapDirection::inverse,
                   impl::as_const(impl::strided_matrix(y)), impl::strided_matrix(z),
                   impl::strided_vector(log_det));
}

/// \brief The same without the log-determinant.
template <class ExecutionSpace, class MapSpace, class YView, class ZView>
void inverse(ExecutionSpace const& exec, AffineMap<MapSpace> const& layer, YView const& y,
             ZView const& z) {
  impl::check_affine<ExecutionSpace>("meander::inverse", layer, "y", y, "z", z);
  impl::affine_map(exec, layer.coefficients(), impl::MapDirection::inverse,
                   impl::as_const(impl::strided_matrix(y)), impl::strided_matrix(z),
                   impl::StridedVector<impl::value_t<YView>>{});
}

}  // namespace meander
