// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <Kokkos_Core.hpp>

#include <meander/impl/affine.hpp>

/// An affine layer on a device: one value a thread.
namespace meander::impl::device {

template <class Storage>
struct AffineElements {
  AffineCoefficients layer;
  bool is_forward;
  bool by_columns;  ///< neighbours are neighbours along a column
  StridedMatrix<Storage const> from;
  StridedMatrix<Storage> to;
  StridedVector<Storage> log_det;  ///< null: not wanted

  KOKKOS_FUNCTION void operator()(std::int64_t n) const {
    std::int64_t const i = by_columns ? n % to.extent0 : n / to.extent1;
    std::int64_t const d = by_columns ? n / to.extent0 : n % to.extent1;
    double const x       = double(from.data[i * from.stride0 + d * from.stride1]);
    double const y       = is_forward ? Kokkos::fma(layer.scale[d], x, layer.shift[d])
                                      : (x - layer.shift[d]) * layer.inverse_scale[d];
    to.data[i * to.stride0 + d * to.stride1] = Storage(y);
    if (d == 0 && log_det.data != nullptr)
      log_det.data[i * log_det.stride0] =
          Storage(is_forward ? *layer.log_volume : -*layer.log_volume);
  }
};

template <class ExecutionSpace, class Storage>
void affine_map(ExecutionSpace const& exec, AffineCoefficients const& layer, MapDirection direction,
                StridedMatrix<Storage const> const& from, StridedMatrix<Storage> const& to,
                StridedVector<Storage> const& log_det) {
  bool const is_forward = direction == MapDirection::forward;
  Kokkos::parallel_for(
      is_forward ? "meander::affine::forward[elements]" : "meander::affine::inverse[elements]",
      Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(exec, 0,
                                                                           to.extent0 * to.extent1),
      AffineElements<Storage>{layer, is_forward, to.stride0 < to.stride1, from, to, log_det});
}

}  // namespace meander::impl::device
