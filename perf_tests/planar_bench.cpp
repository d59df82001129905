// SPDX-License-Identifier: BSD-3-Clause
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <Kokkos_Core.hpp>

#include <meander/planar.hpp>

#include "bench.hpp"

/// Time of the planar forward map and its inverse, both with log-det, with the floors they can be
/// compared to.
namespace {

using bench::on_host;
using bench::Shape;
using bench::space;

enum class Map { forward, inverse };

template <class Storage, class Compute, class Layout>
void run(benchmark::State& state, Map map, Shape const& shape, bench::Ceilings const& ceilings) {
  using Matrix     = Kokkos::View<Storage**, Layout, space::memory_space>;
  using Parameters = Kokkos::View<double**, space::memory_space>;
  space const exec;
  Parameters const w("bench::w", shape.layers, shape.dim), u("bench::u", shape.layers, shape.dim);
  Kokkos::View<double*, space::memory_space> const b("bench::b", shape.layers);
  bench::fill(w, 1 / std::sqrt(double(shape.dim)));
  bench::fill(u, -1 / std::sqrt(double(shape.dim)));
  meander::PlanarStack<Compute, space> const stack(exec, meander::PlanarParameters{w, u, b});
  auto const uninitialised = [](std::string const& label) {
    return Kokkos::view_alloc(label, Kokkos::WithoutInitializing);
  };
  Matrix const z(uninitialised("bench::z"), shape.batch, shape.dim);
  Matrix const y(uninitialised("bench::y"), shape.batch, shape.dim);
  Kokkos::View<Storage*, space::memory_space> const log_det("bench::log_det", shape.batch);
  bench::fill(z, 1);
  meander::forward(exec, stack, z, y, log_det);

  bench::Work const work{double(shape.batch) * (2.0 * shape.dim + 1) * sizeof(Storage),
                         2.0 * double(shape.batch) * shape.dim * shape.layers};
  bench::measure(state, exec, shape, work, ceilings.copy,
                 sizeof(Compute) == 4 ? ceilings.float_fma : ceilings.double_fma, [&] {
                   switch (map) {
                     case Map::forward: return meander::forward(exec, stack, z, y, log_det);
                     case Map::inverse: return meander::inverse(exec, stack, y, z, log_det);
                   }
                 });
}

template <class Storage, class Compute, class Layout>
benchmark::internal::Benchmark* add(Map map, std::string const& group, char const* types,
                                    char const* layout, Shape const& shape,
                                    bench::Ceilings const& ceilings) {
  return benchmark::RegisterBenchmark(bench::name_of(group, types, layout, shape).c_str(),
                                      [map, shape, ceilings](benchmark::State& state) {
                                        run<Storage, Compute, Layout>(state, map, shape, ceilings);
                                      })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

constexpr std::int64_t Ki = 1024, Mi = Ki * Ki;

std::vector<Shape> shapes() {
  if (on_host)
    return {{32, 8, Mi},         {2, 32, Mi},        {32, 32, Mi},     {64, 8, 512 * Ki},
            {256, 16, 128 * Ki}, {1024, 64, 8 * Ki}, {32, 8, 1, 1000}, {32, 8, 1024, 100}};
  return {{32, 8, 4 * Mi},  {64, 8, 2 * Mi},      {256, 16, 512 * Ki}, {2, 32, 32 * Mi},
          {32, 32, 4 * Mi}, {1024, 64, 128 * Ki}, {32, 8, 1, 1000},    {32, 8, 1024, 1000}};
}

/// How the cost grows with each of B, L and D, the bytes of the other two sweeps held where memory
/// and not a cache sets the time. Read by plot_growth.py.
void add_growth(bench::Ceilings const& ceilings, bench::Options const& options) {
  auto const add_both = [&](char const* group, Shape const& usual) {
    constexpr double seconds = 0.2;  // they are many
    for (Shape const& shape : options.choose({usual})) {
      for (auto* benchmark : {add<float, float, Kokkos::LayoutRight>(Map::forward, group, "float",
                                                                     "right", shape, ceilings),
                              add<float, float, Kokkos::LayoutLeft>(Map::forward, group, "float",
                                                                    "left", shape, ceilings)})
        if (!options.small) benchmark->MinTime(seconds);
    }
  };
  constexpr std::int64_t elements = on_host ? 8 * Mi : 128 * Mi;
  for (std::int64_t size = 64 * Ki; size <= (on_host ? 16 * Mi : 256 * Mi); size *= 2)
    add_both("forward_growth_B", {32, 8, size / 32});
  for (int layers = 1; layers <= 128; layers *= 2)
    add_both("forward_growth_L", {32, layers, elements / 32});
  for (int dim = 1; dim <= 1024; dim *= 2) add_both("forward_growth_D", {dim, 8, elements / dim});
  // Neither powers of two nor multiples of a vector.
  for (int const dim : {3, 33, 100, 513}) add_both("forward_growth_D", {dim, 8, elements / dim});
}

void add_all(bench::Ceilings const& ceilings, bench::Options const& options) {
  using Kokkos::LayoutLeft, Kokkos::LayoutRight;
  for (Shape const& shape : options.choose(shapes())) {
    for (auto const& [map, group] :
         {std::pair{Map::forward, "forward"}, std::pair{Map::inverse, "inverse"}}) {
      add<float, float, LayoutRight>(map, group, "float", "right", shape, ceilings);
      add<float, float, LayoutLeft>(map, group, "float", "left", shape, ceilings);
      add<float, double, LayoutRight>(map, group, "mixed", "right", shape, ceilings);
      add<double, double, LayoutRight>(map, group, "double", "right", shape, ceilings);
    }
  }
  if (options.shapes.empty()) add_growth(ceilings, options);
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, add_all); }
