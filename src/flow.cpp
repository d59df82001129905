// SPDX-License-Identifier: BSD-3-Clause
#include <meander/impl/flow.hpp>

#include <cstdint>
#include <variant>

#include <Kokkos_Core.hpp>

#include <meander/impl/affine.hpp>
#include <meander/impl/map_direction.hpp>
#include <meander/impl/planar_forward.hpp>
#include <meander/impl/planar_inverse.hpp>
#include <meander/impl/planar_prepare.hpp>

#include "host/flow.hpp"
#include "instantiate.hpp"
#include "map_on_host.hpp"

#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
#include "device/flow.hpp"
#else
namespace meander::impl::device {

template <class ExecutionSpace, class Storage, class Compute>
void run_flow(ExecutionSpace const&, FlowCall<Storage, Compute> const&);
template <class Compute>
Workspace chunk_memory(FlowState<Compute> const&);

}  // namespace meander::impl::device
#endif

namespace meander::impl {

namespace {

/// One layer of the list, and nothing to draw or score: the map of the stack is all of it.
template <class ExecutionSpace, class Storage, class Compute>
void map_stack(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& stack,
               FlowCall<Storage, Compute> const& call) {
  if (call.to_data == call.flow.generative)
    planar_forward(exec, stack, call.from, call.to, call.log);
  else
    planar_inverse(exec, stack, call.from, call.to, call.log);
}

template <class ExecutionSpace, class Storage, class Compute>
void map_stack(ExecutionSpace const& exec, AffineCoefficients const& layer,
               FlowCall<Storage, Compute> const& call) {
  affine_map(exec, layer,
             call.to_data == call.flow.generative ? MapDirection::forward : MapDirection::inverse,
             call.from, call.to, call.log);
}

/// The identity.
template <class Compute>
PlanarCoefficients<Compute> no_layers(FlowState<Compute> const& flow) {
  PlanarCoefficients<Compute> stack;
  stack.dim = flow.dim;
  return stack;
}

template <class Storage, class Compute>
char const* label_of(FlowCall<Storage, Compute> const& call) {
  if (call.from.data == nullptr) return "meander::flow::sample[tiles]";
  if (call.scored) return "meander::flow::log_prob[tiles]";
  return call.to_data ? "meander::flow::forward[tiles]" : "meander::flow::inverse[tiles]";
}

template <class Compute, class Parameter>
struct PrepareBase {
  Compute *loc, *scale, *inverse_scale, *log_volume;
  StridedVector<Parameter const> from_loc, from_log_scale;

  /// Index D is the sum.
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    auto const log_scale = [&](std::int64_t d) {
      return double(from_log_scale.data[d * from_log_scale.stride0]);
    };
    std::int64_t const dim = from_loc.extent0;
    if (i < dim) {
      loc[i]           = Compute(from_loc.data[i * from_loc.stride0]);
      scale[i]         = Compute(Kokkos::exp(log_scale(i)));
      inverse_scale[i] = Compute(Kokkos::exp(-log_scale(i)));
      return;
    }
    double sum = 0;
    for (std::int64_t d = 0; d < dim; ++d) sum += log_scale(d);
    *log_volume = Compute(sum);
  }
};

}  // namespace

template <class ExecutionSpace, class Storage, class Compute>
void run_flow(ExecutionSpace const& exec, FlowCall<Storage, Compute> const& call) {
  if (call.rows == 0) return;
  if (call.from.data != nullptr && !call.scored && call.flow.num_layers <= 1) {
    if (call.flow.num_layers == 1)
      std::visit([&](auto const& stack) { map_stack(exec, stack, call); }, call.flow.layers[0]);
    else
      map_stack(exec, no_layers(call.flow), call);
    return;
  }
  if constexpr (is_host_space<ExecutionSpace>)
    map_on_host(exec, label_of(call), host::FlowTiles<Storage, Compute>{call});
  else
    device::run_flow(exec, call);
}

template <class ExecutionSpace, class Compute>
Workspace workspace(FlowState<Compute> const& flow) {
  if constexpr (is_host_space<ExecutionSpace>) {
    (void)flow;
    return {};
  } else {
    return device::chunk_memory(flow);
  }
}

template <class ExecutionSpace, class Compute, class Parameter>
void prepare_base(ExecutionSpace const& exec, std::int32_t dim, Compute* storage,
                  NormalBase<Compute>& base, StridedVector<Parameter const> loc,
                  StridedVector<Parameter const> log_scale) {
  PrepareBase<Compute, Parameter> const prepare{
      storage, storage + dim, storage + 2 * std::size_t(dim), storage + 3 * std::size_t(dim),
      loc,     log_scale};
  base = {prepare.loc, prepare.scale, prepare.inverse_scale, prepare.log_volume};
  Kokkos::parallel_for(
      "meander::flow::prepare[base]",
      Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(exec, 0, dim + 1),
      prepare);
}

#define MEANDER_FLOW(Space, Storage, Compute) \
  template void run_flow<Space, Storage, Compute>(Space const&, FlowCall<Storage, Compute> const&);
#define MEANDER_BASE(Space, Compute, Parameter)                                                   \
  template void prepare_base<Space, Compute, Parameter>(                                          \
      Space const&, std::int32_t, Compute*, NormalBase<Compute>&, StridedVector<Parameter const>, \
      StridedVector<Parameter const>);
#define MEANDER_FLOW_ALL(Space)                                        \
  MEANDER_FLOW(Space, float, float)                                    \
  MEANDER_FLOW(Space, double, double)                                  \
  MEANDER_FLOW(Space, float, double)                                   \
  MEANDER_BASE(Space, float, float)                                    \
  MEANDER_BASE(Space, float, double)                                   \
  MEANDER_BASE(Space, double, float)                                   \
  MEANDER_BASE(Space, double, double)                                  \
  template Workspace workspace<Space, float>(FlowState<float> const&); \
  template Workspace workspace<Space, double>(FlowState<double> const&);
MEANDER_FOR_EACH_SPACE(MEANDER_FLOW_ALL)

}  // namespace meander::impl
