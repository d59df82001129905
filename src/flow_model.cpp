// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include <Kokkos_Core.hpp>

#include <meander/flow.hpp>
#include <meander/model.hpp>

#include "instantiate.hpp"
#include "refuse.hpp"

namespace meander {

namespace {

/// Host values in the memory of the space; `extents` are those of the View.
template <class View, class ExecutionSpace, class... Extents>
View on_device(ExecutionSpace const& exec, std::vector<double> const& values, char const* name,
               Extents... extents) {
  auto const expected = (std::size_t(extents) * ...);
  if (values.size() != expected)
    impl::refuse("meander::make_flow", "the model holds ", values.size(), " numbers of ", name,
                 ", expected ", expected);
  View view(Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, "meander::make_flow"),
            std::size_t(extents)...);
  using HostView = Kokkos::View<typename View::const_data_type, typename View::array_layout,
                                Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
  Kokkos::deep_copy(exec, view, HostView(values.data(), std::size_t(extents)...));
  return view;
}

template <class Compute, class ExecutionSpace>
PlanarStack<Compute, ExecutionSpace> make_layer(ExecutionSpace const& exec,
                                                PlanarLayers const& planar) {
  using Matrix = Kokkos::View<double**, Kokkos::LayoutRight, typename ExecutionSpace::memory_space>;
  using Vector = Kokkos::View<double*, typename ExecutionSpace::memory_space>;
  if (planar.count < 0 || planar.dim < 0)
    impl::refuse("meander::make_flow", "the model holds planar layers of negative extents");
  PlanarParameters const parameters{
      on_device<Matrix>(exec, planar.w, "w", planar.count, planar.dim),
      on_device<Matrix>(exec, planar.u, "u", planar.count, planar.dim),
      on_device<Vector>(exec, planar.b, "b", planar.count)};
  using Stack = PlanarStack<Compute, ExecutionSpace>;
  if (planar.options.constraint == Constraint::none) {
    auto options       = planar.options;
    options.invertible = true;
    try {
      return Stack(exec, parameters, options);  // which waits
    } catch (std::invalid_argument const&) {
      // A layer has no inverse: the direction they were fitted in is what remains.
    }
  }
  Stack const stack(exec, parameters, planar.options);
  exec.fence("meander::make_flow: the parameters are about to be freed");
  return stack;
}

template <class Compute, class ExecutionSpace>
AffineMap<ExecutionSpace> make_layer(ExecutionSpace const& exec, AffineLayer const& affine) {
  using Vector = Kokkos::View<double*, typename ExecutionSpace::memory_space>;
  if (affine.dim < 0)
    impl::refuse("meander::make_flow", "the model holds an affine layer of negative dimension");
  AffineParameters const parameters{
      on_device<Vector>(exec, affine.shift, "shift", affine.dim),
      on_device<Vector>(exec, affine.log_scale, "log_scale", affine.dim)};
  AffineMap const layer(exec, parameters);
  exec.fence("meander::make_flow: the parameters are about to be freed");
  return layer;
}

}  // namespace

template <class Compute, class ExecutionSpace>
Flow<Compute, ExecutionSpace> make_flow(ExecutionSpace const& exec, Model const& model) {
  using Result = Flow<Compute, ExecutionSpace>;
  using Vector = Kokkos::View<double*, typename ExecutionSpace::memory_space>;
  std::vector<typename Result::layer_type> layers;
  for (auto const& layer : model.layers)
    std::visit([&](auto const& l) { layers.push_back(make_layer<Compute>(exec, l)); }, layer);
  if (std::holds_alternative<StandardNormal>(model.base))
    return Result(exec, StandardNormal{}, std::move(layers), model.direction);
  auto const& base = std::get<DiagonalNormal>(model.base);
  DiagonalNormalParameters const parameters{
      on_device<Vector>(exec, base.loc, "base.loc", base.loc.size()),
      on_device<Vector>(exec, base.log_scale, "base.log_scale", base.log_scale.size())};
  Result const flow(exec, parameters, std::move(layers), model.direction);
  exec.fence("meander::make_flow: the parameters are about to be freed");
  return flow;
}

#define MEANDER_MAKE_FLOW(Space)                                                   \
  template Flow<float, Space> make_flow<float, Space>(Space const&, Model const&); \
  template Flow<double, Space> make_flow<double, Space>(Space const&, Model const&);
MEANDER_FOR_EACH_SPACE(MEANDER_MAKE_FLOW)

}  // namespace meander
