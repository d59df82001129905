// SPDX-License-Identifier: BSD-3-Clause
#include <meander/impl/planar_forward.hpp>

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
void planar_forward(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& stack,
                    StridedMatrix<Storage const> z, StridedMatrix<Storage> y,
                    StridedVector<Storage> log_det) {
  if (z.extent0 == 0) return;
  if constexpr (is_host_space<ExecutionSpace>)
    map_on_host(exec, "meander::planar::forward[tiles]",
                host::PlanarForward<Storage, Compute>{stack, z, y, log_det});
  else
    device::planar_map<MapDirection::forward>(exec, stack, z, y, log_det, device::Path::automatic);
}

#define MEANDER_FORWARD(Space, Storage, Compute)                                      \
  template void planar_forward<Space, Storage, Compute>(                              \
      Space const&, PlanarCoefficients<Compute> const&, StridedMatrix<Storage const>, \
      StridedMatrix<Storage>, StridedVector<Storage>);
#define MEANDER_FORWARD_ALL(Space)       \
  MEANDER_FORWARD(Space, float, float)   \
  MEANDER_FORWARD(Space, double, double) \
  MEANDER_FORWARD(Space, float, double)
MEANDER_FOR_EACH_SPACE(MEANDER_FORWARD_ALL)

// For tests that force a path.
#define MEANDER_MAP(Space, Storage, Compute)                                          \
  template void device::planar_map<MapDirection::forward, Space, Storage, Compute>(   \
      Space const&, PlanarCoefficients<Compute> const&, StridedMatrix<Storage const>, \
      StridedMatrix<Storage>, StridedVector<Storage>, device::Path);
#define MEANDER_MAP_ALL(Space)       \
  MEANDER_MAP(Space, float, float)   \
  MEANDER_MAP(Space, double, double) \
  MEANDER_MAP(Space, float, double)
MEANDER_FOR_EACH_DEVICE(MEANDER_MAP_ALL)

}  // namespace meander::impl
