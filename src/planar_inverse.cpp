// SPDX-License-Identifier: BSD-3-Clause
#include <meander/impl/planar_inverse.hpp>

#include <meander/impl/planar_prepare.hpp>

#include "device/path.hpp"
#include "host/planar_map.hpp"
#include "instantiate.hpp"
#include "map_on_host.hpp"

#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
#include "device/planar_forward.hpp"
#endif

namespace meander::impl {

template <class ExecutionSpace, class Storage, class Compute>
void planar_inverse(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& stack,
                    StridedMatrix<Storage const> y, StridedMatrix<Storage> z,
                    StridedVector<Storage> log_det) {
  if (y.extent0 == 0) return;
  if constexpr (is_host_space<ExecutionSpace>)
    map_on_host(exec, "meander::planar::inverse[tiles]",
                host::PlanarInverse<Storage, Compute>{stack, y, z, log_det});
  else
    device::planar_map<MapDirection::inverse>(exec, stack, y, z, log_det, device::Path::automatic);
}

#define MEANDER_INVERSE(Space, Storage, Compute)                                      \
  template void planar_inverse<Space, Storage, Compute>(                              \
      Space const&, PlanarCoefficients<Compute> const&, StridedMatrix<Storage const>, \
      StridedMatrix<Storage>, StridedVector<Storage>);
#define MEANDER_INVERSE_ALL(Space)       \
  MEANDER_INVERSE(Space, float, float)   \
  MEANDER_INVERSE(Space, double, double) \
  MEANDER_INVERSE(Space, float, double)
MEANDER_FOR_EACH_SPACE(MEANDER_INVERSE_ALL)

// For tests that force a path.
#define MEANDER_MAP(Space, Storage, Compute)                                          \
  template void device::planar_map<MapDirection::inverse, Space, Storage, Compute>(   \
      Space const&, PlanarCoefficients<Compute> const&, StridedMatrix<Storage const>, \
      StridedMatrix<Storage>, StridedVector<Storage>, device::Path);
#define MEANDER_MAP_ALL(Space)       \
  MEANDER_MAP(Space, float, float)   \
  MEANDER_MAP(Space, double, double) \
  MEANDER_MAP(Space, float, double)
MEANDER_FOR_EACH_DEVICE(MEANDER_MAP_ALL)

}  // namespace meander::impl
