// SPDX-License-Identifier: BSD-3-Clause
#include <meander/impl/random.hpp>

#include <cstdint>

#include <meander/impl/planar_prepare.hpp>

#include "host/flow.hpp"
#include "instantiate.hpp"
#include "map_on_host.hpp"
#include "refuse.hpp"

#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
#include "device/normal.hpp"
#else
namespace meander::impl::device {

template <class Compute, class ExecutionSpace, class Storage>
void fill_normal(ExecutionSpace const&, char const*, std::uint64_t, std::uint64_t,
                 StridedMatrix<Storage> const&);

}  // namespace meander::impl::device
#endif

namespace meander::impl {

template <class Compute, class ExecutionSpace, class Storage>
void fill_normal(ExecutionSpace const& exec, std::uint64_t seed, std::uint64_t first_row,
                 StridedMatrix<Storage> x) {
  char const* const label = "meander::random::fill_normal";
  if (x.extent0 == 0 || x.extent1 == 0) return;
  if constexpr (is_host_space<ExecutionSpace>) {
    if (x.extent1 > max_dim<ExecutionSpace>)
      refuse("meander::fill_normal", "extent 1 of argument x is ", x.extent1, ", expected at most ",
             max_dim<ExecutionSpace>);
    // A sample of the flow without layers.
    FlowCall<Storage, Compute> call;
    call.flow.dim  = static_cast<std::int32_t>(x.extent1);
    call.rows      = x.extent0;
    call.seed      = seed;
    call.first_row = first_row;
    call.to        = x;
    map_on_host(exec, label, host::FlowTiles<Storage, Compute>{call});
  } else {
    device::fill_normal<Compute>(exec, label, seed, first_row, x);
  }
}

#define MEANDER_FILL_NORMAL(Space, Storage, Compute)                                             \
  template void fill_normal<Compute, Space, Storage>(Space const&, std::uint64_t, std::uint64_t, \
                                                     StridedMatrix<Storage>);
#define MEANDER_FILL_NORMAL_ALL(Space)       \
  MEANDER_FILL_NORMAL(Space, float, float)   \
  MEANDER_FILL_NORMAL(Space, double, double) \
  MEANDER_FILL_NORMAL(Space, float, double)
MEANDER_FOR_EACH_SPACE(MEANDER_FILL_NORMAL_ALL)

}  // namespace meander::impl
