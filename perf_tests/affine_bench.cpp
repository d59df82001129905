// SPDX-License-Identifier: BSD-3-Clause
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include <Kokkos_Core.hpp>

#include <meander/affine.hpp>

#include "bench.hpp"

/// Time of an affine layer, which can only be that of reading and writing the rows.
namespace {

using bench::Shape;
using bench::space;

template <class Storage, class Layout>
void run(benchmark::State& state, bool forward, Shape const& shape,
         bench::Ceilings const& ceilings) {
  using Matrix = Kokkos::View<Storage**, Layout, space::memory_space>;
  space const exec;
  Kokkos::View<double**, space::memory_space> const parameters("bench::parameters", shape.dim, 2);
  bench::fill(parameters, 1);
  meander::AffineMap const layer(
      exec, meander::AffineParameters{Kokkos::subview(parameters, Kokkos::ALL, 0),
                                      Kokkos::subview(parameters, Kokkos::ALL, 1)});
  auto const uninitialised = [](std::string const& label) {
    return Kokkos::view_alloc(label, Kokkos::WithoutInitializing);
  };
  Matrix const z(uninitialised("bench::z"), shape.batch, shape.dim);
  Matrix const y(uninitialised("bench::y"), shape.batch, shape.dim);
  Kokkos::View<Storage*, space::memory_space> const log_det("bench::log_det", shape.batch);
  bench::fill(z, 1);
  meander::forward(exec, layer, z, y, log_det);
  bench::Work const work{double(shape.batch) * (2.0 * shape.dim + 1) * sizeof(Storage),
                         double(shape.batch) * shape.dim};
  bench::measure(state, exec, shape, work, ceilings.copy, ceilings.double_fma, [&] {
    forward ? meander::forward(exec, layer, z, y, log_det)
            : meander::inverse(exec, layer, y, z, log_det);
  });
}

template <class Storage, class Layout>
void add(char const* type, char const* layout, Shape const& shape,
         bench::Ceilings const& ceilings) {
  for (bool const forward : {true, false}) {
    char const* const group = forward ? "affine_forward" : "affine_inverse";
    benchmark::RegisterBenchmark(bench::name_of(group, type, layout, shape).c_str(),
                                 [forward, shape, ceilings](benchmark::State& state) {
                                   run<Storage, Layout>(state, forward, shape, ceilings);
                                 })
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }
}

constexpr std::int64_t Ki = 1024, Mi = Ki * Ki;

std::vector<Shape> shapes() {
  if (bench::on_host) return {{2, 1, 8 * Mi}, {32, 1, Mi}, {1024, 1, 32 * Ki}, {32, 1, 1, 1000}};
  return {{2, 1, 32 * Mi}, {32, 1, 4 * Mi}, {1024, 1, 128 * Ki}, {32, 1, 1, 1000}};
}

void add_all(bench::Ceilings const& ceilings, bench::Options const& options) {
  using Kokkos::LayoutLeft, Kokkos::LayoutRight;
  for (Shape const& shape : options.choose(shapes())) {
    add<float, LayoutRight>("float", "right", shape, ceilings);
    add<float, LayoutLeft>("float", "left", shape, ceilings);
    add<double, LayoutRight>("double", "right", shape, ceilings);
  }
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, add_all); }
