// SPDX-License-Identifier: BSD-3-Clause
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include <Kokkos_Core.hpp>

#include <meander/planar.hpp>
#include <meander/version.hpp>

#include "ceilings.hpp"

/// Time of the planar forward map with log-det, with the floors it can be compared to.
namespace {

using space = Kokkos::DefaultExecutionSpace;
constexpr bool on_host =
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, space::memory_space>::accessible;

struct Ceilings {
  double copy, float_fma, double_fma;
};

struct Shape {
  int dim, layers;
  std::int64_t batch;
  int calls = 1;  ///< back to back between two fences
};

/// Order-one values without a generator's state: what they are does not matter, that they vary
/// does.
struct Fill {
  template <class View>
  struct Functor {
    View view;
    double scale;
    KOKKOS_FUNCTION void operator()(std::int64_t i) const {
      for (std::int64_t j = 0; j < std::int64_t(view.extent(1)); ++j)
        view(i, j) = typename View::value_type(scale * Kokkos::sin(double(i * 7919 + j * 104729)));
    }
  };
  template <class View>
  static void run(View const& view, double scale) {
    Kokkos::parallel_for(
        "bench::fill",
        Kokkos::RangePolicy<space, Kokkos::IndexType<std::int64_t>>(0, view.extent(0)),
        Functor<View>{view, scale});
  }
};

template <class Storage, class Compute, class Layout>
void forward(benchmark::State& state, Shape const& shape, Ceilings const& ceilings) {
  using Matrix     = Kokkos::View<Storage**, Layout, space::memory_space>;
  using Parameters = Kokkos::View<double**, space::memory_space>;
  space const exec;
  Parameters const w("bench::w", shape.layers, shape.dim), u("bench::u", shape.layers, shape.dim);
  Kokkos::View<double*, space::memory_space> const b("bench::b", shape.layers);
  Fill::run(w, 1 / std::sqrt(double(shape.dim)));
  Fill::run(u, -1 / std::sqrt(double(shape.dim)));
  meander::PlanarStack<Compute, space> const stack(exec, meander::PlanarParameters{w, u, b});
  auto const uninitialised = [](std::string const& label) {
    return Kokkos::view_alloc(label, Kokkos::WithoutInitializing);
  };
  Matrix const z(uninitialised("bench::z"), shape.batch, shape.dim);
  Matrix const y(uninitialised("bench::y"), shape.batch, shape.dim);
  Kokkos::View<Storage*, space::memory_space> const log_det("bench::log_det", shape.batch);
  Fill::run(z, 1);
  Fill::run(y, 1);

  meander::forward(exec, stack, z, y, log_det);
  exec.fence();
  double best = 1e30;
  for (auto _ : state) {
    Kokkos::Timer const timer;
    for (int call = 0; call < shape.calls; ++call) meander::forward(exec, stack, z, y, log_det);
    exec.fence();
    double const seconds = timer.seconds();
    best                 = std::min(best, seconds / shape.calls);
    state.SetIterationTime(seconds);
  }

  double const bytes        = double(shape.batch) * (2.0 * shape.dim + 1) * sizeof(Storage);
  double const fmas         = 2.0 * double(shape.batch) * shape.dim * shape.layers;
  double const fma          = sizeof(Compute) == 4 ? ceilings.float_fma : ceilings.double_fma;
  state.counters["best_ms"] = best * 1e3;
  state.counters["rows/s"]  = double(shape.batch) / best;
  state.counters["GB/s"]    = bytes / best * 1e-9;
  state.counters["of_copy"] = bytes / best / ceilings.copy;
  state.counters["GFMA/s"]  = fmas / best * 1e-9;
  state.counters["of_fma"]  = fmas / best / fma;
  state.counters["x_floor"] = best / std::max(bytes / ceilings.copy, fmas / fma);
}

template <class Storage, class Compute, class Layout>
void add(char const* types, char const* layout, Shape const& shape, Ceilings const& ceilings) {
  std::ostringstream name;
  name << "forward/" << types << '/' << layout << "/D:" << shape.dim << "/L:" << shape.layers
       << "/B:" << shape.batch;
  if (shape.calls > 1) name << "/calls:" << shape.calls;
  benchmark::RegisterBenchmark(name.str().c_str(),
                               [shape, ceilings](benchmark::State& state) {
                                 forward<Storage, Compute, Layout>(state, shape, ceilings);
                               })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

std::vector<Shape> shapes(bool small) {
  constexpr std::int64_t Ki = 1024, Mi = Ki * Ki;
  std::vector<Shape> all =
      on_host ? std::vector<Shape>{{32, 8, Mi},       {2, 32, Mi},         {32, 32, Mi},
                                   {64, 8, 512 * Ki}, {256, 16, 128 * Ki}, {1024, 64, 8 * Ki},
                                   {32, 8, 1, 1000},  {32, 8, 1024, 100}}
              : std::vector<Shape>{{32, 8, 4 * Mi},  {64, 8, 2 * Mi},    {256, 16, 512 * Ki},
                                   {2, 32, 32 * Mi}, {32, 32, 4 * Mi},   {1024, 64, 128 * Ki},
                                   {32, 8, 1, 1000}, {32, 8, 1024, 1000}};
  // How the cost grows with each of the three.
  for (std::int64_t batch = 64 * Ki; batch <= (on_host ? 4 * Mi : 256 * Mi); batch *= 4)
    all.push_back({8, 8, batch});
  for (int const layers : {1, 2, 4, 16, 64, 256}) all.push_back({32, layers, 256 * Ki});
  for (int const dim : {1, 3, 8, 16, 33, 100, 128, 513, 2048})
    all.push_back({dim, 16, 16 * Mi / 16 / std::max(dim, 16)});
  if (small)
    for (Shape& shape : all)
      shape = {shape.dim, shape.layers, std::min<std::int64_t>(shape.batch, 100), 1};
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  // Before Google Benchmark, which refuses flags it does not know.
  bool small = false;
  argc       = int(std::remove_if(argv + 1, argv + argc,
                                  [&small](char const* word) {
                              bool const ours = std::strcmp(word, "--small") == 0;
                              small |= ours;
                              return ours;
                            }) -
             argv);
  Kokkos::ScopeGuard const guard(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;

  Ceilings const measured =
      small ? Ceilings{1, 1, 1}
            : Ceilings{ceilings::copy_bytes_per_second(), ceilings::float_fmas_per_second(),
                       ceilings::double_fmas_per_second()};
  std::ostringstream configuration;
  Kokkos::print_configuration(configuration);
  benchmark::AddCustomContext("meander", std::string(meander::version) + " " + MEANDER_REVISION);
  benchmark::AddCustomContext("space", space::name());
  benchmark::AddCustomContext("concurrency", std::to_string(space().concurrency()));
  benchmark::AddCustomContext("copy_GB/s", std::to_string(measured.copy * 1e-9));
  benchmark::AddCustomContext("float_GFMA/s", std::to_string(measured.float_fma * 1e-9));
  benchmark::AddCustomContext("double_GFMA/s", std::to_string(measured.double_fma * 1e-9));
  benchmark::AddCustomContext("kokkos", configuration.str());

  for (Shape const& shape : shapes(small)) {
    add<float, float, Kokkos::LayoutRight>("float", "right", shape, measured);
    add<float, float, Kokkos::LayoutLeft>("float", "left", shape, measured);
    add<float, double, Kokkos::LayoutRight>("mixed", "right", shape, measured);
    add<double, double, Kokkos::LayoutRight>("double", "right", shape, measured);
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
