// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include <Kokkos_Core.hpp>

/// What the benchmarks share: shapes, timing with a closing fence, and the floors to compare with.
namespace bench {

using space = Kokkos::DefaultExecutionSpace;
constexpr bool on_host =
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, space::memory_space>::accessible;

/// What the machine reaches at most, measured in the same run.
struct Ceilings {
  double copy, float_fma, double_fma;  ///< bytes and multiply-adds per second
};

struct Shape {
  int dim, layers;
  std::int64_t batch;
  int calls = 1;  ///< back to back between two fences
};

/// What a call cannot do without.
struct Work {
  double bytes, fmas;
};

/// A benchmark's name as the scripts read it: GROUP/TYPES/LAYOUT/D:1/L:2/B:3.
inline std::string name_of(std::string const& group, std::string const& types,
                           std::string const& layout, Shape const& shape) {
  std::ostringstream name;
  name << group << '/' << types << '/' << layout << "/D:" << shape.dim << "/L:" << shape.layers
       << "/B:" << shape.batch;
  if (shape.calls > 1) name << "/calls:" << shape.calls;
  return name.str();
}

/// Order-one values without a generator's state: what they are does not matter, that they vary
/// does.
template <class View>
struct Fill {
  View view;
  double scale;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    for (std::int64_t j = 0; j < std::int64_t(view.extent(1)); ++j)
      view(i, j) = typename View::value_type(scale * Kokkos::sin(double(i * 7919 + j * 104729)));
  }
};

template <class View>
void fill(View const& view, double scale) {
  Kokkos::parallel_for(
      "bench::fill", Kokkos::RangePolicy<space, Kokkos::IndexType<std::int64_t>>(0, view.extent(0)),
      Fill<View>{view, scale});
}

/// Times shape.calls calls between two fences, again and again, and reports the best.
template <class Call>
void measure(benchmark::State& state, space const& exec, Shape const& shape, Work const& work,
             double copy, double fma, Call const& call) {
  call();
  exec.fence();
  double best = 1e30;
  for (auto _ : state) {
    Kokkos::Timer const timer;
    for (int i = 0; i < shape.calls; ++i) call();
    exec.fence();
    double const seconds = timer.seconds();
    best                 = std::min(best, seconds / shape.calls);
    state.SetIterationTime(seconds);
  }
  double const bytes_floor         = work.bytes / copy;
  double const fma_floor           = work.fmas / fma;
  state.counters["D"]              = shape.dim;
  state.counters["L"]              = shape.layers;
  state.counters["B"]              = double(shape.batch);
  state.counters["best_ms"]        = best * 1e3;
  state.counters["bytes_floor_ms"] = bytes_floor * 1e3;
  state.counters["fma_floor_ms"]   = fma_floor * 1e3;
  state.counters["rows/s"]         = double(shape.batch) / best;
  state.counters["GB/s"]           = work.bytes / best * 1e-9;
  state.counters["of_copy"]        = bytes_floor / best;
  state.counters["GFMA/s"]         = work.fmas / best * 1e-9;
  state.counters["of_fma"]         = fma_floor / best;
  state.counters["x_floor"]        = best / std::max(bytes_floor, fma_floor);
}

/// What the command line asked for.
struct Options {
  bool small = false;  ///< --small: run at all, on small batches; ceilings are not measured
  std::vector<Shape>
      shapes;  ///< --shapes=32x8x1024,...: D, L, B of these instead of the usual ones

  /// `usual`, or the shapes asked for; small ones if so asked.
  std::vector<Shape> choose(std::vector<Shape> const& usual) const;
};

/// The main() of a benchmark: starts Kokkos, measures the ceilings, lets `add_all` register the
/// benchmarks, runs them.
int run(int argc, char** argv,
        std::function<void(Ceilings const& ceilings, Options const& options)> const& add_all);

}  // namespace bench
