// SPDX-License-Identifier: BSD-3-Clause
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <Kokkos_Core.hpp>

#include <meander/flow.hpp>
#include <meander/random.hpp>

#include "bench.hpp"

/// Time of what a flow is asked for, with the floors it can be compared to. The flow is generative:
/// forward and sample run the layers as they were fitted, inverse and log_prob backwards.
namespace {

using bench::on_host;
using bench::Shape;
using bench::space;

enum class Task { forward, inverse, log_prob, sample, draw };

char const* name_of(Task task) {
  switch (task) {
    case Task::forward: return "flow_forward";
    case Task::inverse: return "flow_inverse";
    case Task::log_prob: return "flow_log_prob";
    case Task::sample: return "flow_sample";
    case Task::draw: return "fill_normal";
  }
  return "unknown";
}

template <class Storage, class Compute, class Layout>
void run(benchmark::State& state, Task task, Shape const& shape, bench::Ceilings const& ceilings) {
  using Matrix     = Kokkos::View<Storage**, Layout, space::memory_space>;
  using Parameters = Kokkos::View<double**, space::memory_space>;
  space const exec;
  Parameters const w("bench::w", shape.layers, shape.dim), u("bench::u", shape.layers, shape.dim);
  Kokkos::View<double*, space::memory_space> const b("bench::b", shape.layers);
  bench::fill(w, 1 / std::sqrt(double(shape.dim)));
  bench::fill(u, -1 / std::sqrt(double(shape.dim)));
  meander::Flow const flow(
      exec, meander::StandardNormal{},
      meander::PlanarStack<Compute, space>(exec, meander::PlanarParameters{w, u, b}),
      meander::Direction::generative);
  auto const uninitialised = [](std::string const& label) {
    return Kokkos::view_alloc(label, Kokkos::WithoutInitializing);
  };
  Matrix const z(uninitialised("bench::z"), shape.batch, shape.dim);
  Matrix const x(uninitialised("bench::x"), shape.batch, shape.dim);
  Kokkos::View<Storage*, space::memory_space> const log("bench::log", shape.batch);
  meander::fill_normal<Compute>(exec, 1, 0, z);
  meander::sample(exec, flow, 1, 0, x);

  // What is read and written of rows: forward and inverse both, the others one of the two.
  double const matrices = task == Task::forward || task == Task::inverse ? 2 : 1;
  double const vectors  = task == Task::draw ? 0 : 1;
  double const layers   = task == Task::draw ? 0 : shape.layers;
  bench::Work const work{double(shape.batch) * (matrices * shape.dim + vectors) * sizeof(Storage),
                         2.0 * double(shape.batch) * shape.dim * layers};
  bench::measure(state, exec, shape, work, ceilings.copy,
                 sizeof(Compute) == 4 ? ceilings.float_fma : ceilings.double_fma, [&] {
                   switch (task) {
                     case Task::forward: return meander::forward(exec, flow, z, x, log);
                     case Task::inverse: return meander::inverse(exec, flow, x, z, log);
                     case Task::log_prob: return meander::log_prob(exec, flow, x, log);
                     case Task::sample: return meander::sample(exec, flow, 1, 0, x, log);
                     case Task::draw: return meander::fill_normal<Compute>(exec, 1, 0, x);
                   }
                 });
}

template <class Storage, class Compute, class Layout>
void add(Task task, char const* types, char const* layout, Shape const& shape,
         bench::Ceilings const& ceilings) {
  benchmark::RegisterBenchmark(bench::name_of(name_of(task), types, layout, shape).c_str(),
                               [task, shape, ceilings](benchmark::State& state) {
                                 run<Storage, Compute, Layout>(state, task, shape, ceilings);
                               })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

constexpr std::int64_t Ki = 1024, Mi = Ki * Ki;

std::vector<Shape> shapes() {
  if (on_host)
    return {{32, 8, Mi},       {2, 32, Mi},        {32, 32, Mi},
            {64, 8, 512 * Ki}, {1024, 64, 8 * Ki}, {32, 8, 1, 1000}};
  return {{32, 8, 4 * Mi},  {64, 8, 2 * Mi},      {256, 16, 512 * Ki}, {2, 32, 32 * Mi},
          {32, 32, 4 * Mi}, {1024, 64, 128 * Ki}, {32, 8, 1, 1000},    {32, 8, 1024, 1000}};
}

void add_all(bench::Ceilings const& ceilings, bench::Options const& options) {
  using Kokkos::LayoutLeft, Kokkos::LayoutRight;
  for (Shape const& shape : options.choose(shapes()))
    for (Task const task :
         {Task::forward, Task::inverse, Task::log_prob, Task::sample, Task::draw}) {
      add<float, float, LayoutRight>(task, "float", "right", shape, ceilings);
      add<float, float, LayoutLeft>(task, "float", "left", shape, ceilings);
      add<float, double, LayoutRight>(task, "mixed", "right", shape, ceilings);
      add<double, double, LayoutRight>(task, "double", "right", shape, ceilings);
    }
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, add_all); }
