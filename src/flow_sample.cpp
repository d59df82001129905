// SPDX-License-Identifier: BSD-3-Clause
// The device kernels of sample, in a source of their own: they are many.
#include <Kokkos_Core.hpp>

#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)

#include <meander/impl/map_direction.hpp>

#include "device/flow_in_registers.hpp"
#include "device/flow_registers.hpp"
#include "instantiate.hpp"

namespace meander::impl::device {

template <class ExecutionSpace, class Storage, class Compute>
void sample_in_registers(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& stack,
                         FlowCall<Storage, Compute> const& call) {
  if (call.to_data == call.flow.generative)
    run_flow_in_registers<FlowTask::sample, MapDirection::forward>(exec, stack, call);
  else
    run_flow_in_registers<FlowTask::sample, MapDirection::inverse>(exec, stack, call);
}

#define MEANDER_FLOW(Space, Storage, Compute)                 \
  template void sample_in_registers<Space, Storage, Compute>( \
      Space const&, PlanarCoefficients<Compute> const&, FlowCall<Storage, Compute> const&);
#define MEANDER_FLOW_ALL(Space)       \
  MEANDER_FLOW(Space, float, float)   \
  MEANDER_FLOW(Space, double, double) \
  MEANDER_FLOW(Space, float, double)
MEANDER_FOR_EACH_DEVICE(MEANDER_FLOW_ALL)

}  // namespace meander::impl::device

#endif
