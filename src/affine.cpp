// SPDX-License-Identifier: BSD-3-Clause
#include <meander/impl/affine.hpp>

#include <cstddef>
#include <cstdint>

#include <Kokkos_Core.hpp>

#include <meander/impl/planar_prepare.hpp>

#include "host/affine.hpp"
#include "instantiate.hpp"
#include "map_on_host.hpp"
#include "refuse.hpp"

#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
#include "device/affine.hpp"
#else
namespace meander::impl::device {

template <class ExecutionSpace, class Storage>
void affine_map(ExecutionSpace const&, AffineCoefficients const&, MapDirection,
                StridedMatrix<Storage const> const&, StridedMatrix<Storage> const&,
                StridedVector<Storage> const&);

}  // namespace meander::impl::device
#endif

namespace meander::impl {

namespace {

template <class Parameter>
struct PrepareAffine {
  double *shift, *scale, *inverse_scale, *log_volume;
  StridedVector<Parameter const> from_shift, from_log_scale;

  /// Index D is the sum.
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    auto const log_scale = [&](std::int64_t d) {
      return double(from_log_scale.data[d * from_log_scale.stride0]);
    };
    std::int64_t const dim = from_shift.extent0;
    if (i < dim) {
      shift[i]         = double(from_shift.data[i * from_shift.stride0]);
      scale[i]         = Kokkos::exp(log_scale(i));
      inverse_scale[i] = Kokkos::exp(-log_scale(i));
      return;
    }
    // What rounding took off each partial sum is summed as well (Knuth's TwoSum).
    double sum = 0, lost = 0;
    for (std::int64_t d = 0; d < dim; ++d) {
      double const next = log_scale(d), total = sum + next, came = total - sum;
      lost += (sum - (total - came)) + (next - came);
      sum = total;
    }
    *log_volume = Kokkos::isfinite(lost) ? sum + lost : sum;
  }
};

}  // namespace

void check_affine_dim(std::int64_t dim, std::int64_t max_dim) {
  if (dim < 1 || dim > max_dim)
    refuse("meander::AffineMap", "extent 0 of argument shift (the dimension) is ", dim,
           ", expected 1 to ", max_dim);
}

AffineCoefficients affine_coefficients(std::int32_t dim, double const* storage) {
  return {storage, storage + dim, storage + 2 * std::size_t(dim), storage + 3 * std::size_t(dim),
          dim};
}

template <class ExecutionSpace, class Parameter>
// NOLINTNEXTLINE(readability-non-const-parameter): it is written to, by the kernel
void affine_prepare(ExecutionSpace const& exec, std::int32_t dim, double* storage,
                    StridedVector<Parameter const> shift,
                    StridedVector<Parameter const> log_scale) {
  Kokkos::parallel_for(
      "meander::affine::prepare",
      Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(exec, 0, dim + 1),
      PrepareAffine<Parameter>{storage, storage + dim, storage + 2 * std::size_t(dim),
                               storage + 3 * std::size_t(dim), shift, log_scale});
}

template <class ExecutionSpace, class Storage>
void affine_map(ExecutionSpace const& exec, AffineCoefficients const& layer, MapDirection direction,
                StridedMatrix<Storage const> from, StridedMatrix<Storage> to,
                StridedVector<Storage> log_det) {
  if (from.extent0 == 0) return;
  if constexpr (is_host_space<ExecutionSpace>)
    map_on_host(exec,
                direction == MapDirection::forward ? "meander::affine::forward[tiles]"
                                                   : "meander::affine::inverse[tiles]",
                host::AffineTiles<Storage>{layer, direction, from, to, log_det});
  else
    device::affine_map(exec, layer, direction, from, to, log_det);
}

#define MEANDER_AFFINE(Space, Value)                                                            \
  template void affine_map<Space, Value>(Space const&, AffineCoefficients const&, MapDirection, \
                                         StridedMatrix<Value const>, StridedMatrix<Value>,      \
                                         StridedVector<Value>);                                 \
  template void affine_prepare<Space, Value>(Space const&, std::int32_t, double*,               \
                                             StridedVector<Value const>,                        \
                                             StridedVector<Value const>);
#define MEANDER_AFFINE_ALL(Space) \
  MEANDER_AFFINE(Space, float)    \
  MEANDER_AFFINE(Space, double)
MEANDER_FOR_EACH_SPACE(MEANDER_AFFINE_ALL)

}  // namespace meander::impl
