// SPDX-License-Identifier: BSD-3-Clause
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <Kokkos_Core.hpp>

#include <meander/flow.hpp>
#include <meander/flow_gradient.hpp>
#include <meander/negative_log_likelihood.hpp>
#include <meander/planar_vjp.hpp>
#include <meander/random.hpp>
#include <meander/trainer.hpp>

#include "bench.hpp"

/// Time of gradients, with the floors they can be compared to: every row read once, and a product
/// of D x L for each of the pre-activations, the rows behind the layers, their gradient's products
/// with u_hat, and the gradients by w and u_hat.
namespace {

using bench::on_host;
using bench::Shape;
using bench::space;

enum class Task {
  likelihood,          ///< loss and gradients by w, u, b; layers as fitted, from data to latent
  likelihood_inverse,  ///< the same of a generative flow
  vjp,                 ///< gradients by z, w, u, b from given ones
  grad_log_prob        ///< by x alone, of a generative flow
};

char const* name_of(Task task) {
  switch (task) {
    case Task::likelihood: return "likelihood";
    case Task::likelihood_inverse: return "likelihood_inverse";
    case Task::vjp: return "vjp";
    case Task::grad_log_prob: return "grad_log_prob";
  }
  return "unknown";
}

double matrices(Task task) {
  switch (task) {
    case Task::vjp: return 3;
    case Task::grad_log_prob: return 2;
    default: return 1;
  }
}

template <class Storage, class Compute, class Layout>
void run(benchmark::State& state, Task task, Shape const& shape, bench::Ceilings const& ceilings) {
  using Matrix     = Kokkos::View<Storage**, Layout, space::memory_space>;
  using Parameters = Kokkos::View<double**, Kokkos::LayoutRight, space::memory_space>;
  using Vector     = Kokkos::View<double*, space::memory_space>;
  space const exec;
  meander::PlanarParameters const parameters{Parameters("bench::w", shape.layers, shape.dim),
                                             Parameters("bench::u", shape.layers, shape.dim),
                                             Vector("bench::b", shape.layers)};
  meander::PlanarParameters const gradients{Parameters("bench::grad_w", shape.layers, shape.dim),
                                            Parameters("bench::grad_u", shape.layers, shape.dim),
                                            Vector("bench::grad_b", shape.layers)};
  bench::fill(parameters.w, 1 / std::sqrt(double(shape.dim)));
  bench::fill(parameters.u, -1 / std::sqrt(double(shape.dim)));
  meander::PlanarStack<Compute, space> const stack(exec, parameters);
  meander::Flow const flow(
      exec, meander::StandardNormal{}, stack,
      task == Task::likelihood ? meander::Direction::normalizing : meander::Direction::generative);
  meander::PlanarVjpWorkspace const workspace(exec, stack, shape.batch);
  auto const uninitialised = [](std::string const& label) {
    return Kokkos::view_alloc(label, Kokkos::WithoutInitializing);
  };
  Matrix const x(uninitialised("bench::x"), shape.batch, shape.dim);
  Matrix const grad_x(uninitialised("bench::grad_x"), matrices(task) > 1 ? shape.batch : 0,
                      shape.dim);
  Matrix const grad_y(uninitialised("bench::grad_y"), task == Task::vjp ? shape.batch : 0,
                      shape.dim);
  Kokkos::View<Storage*, space::memory_space> const grad_log_det(uninitialised("bench::grad_log"),
                                                                 shape.batch);
  Kokkos::View<double, space::memory_space> const loss("bench::loss");
  meander::fill_normal<Compute>(exec, 1, 0, x);
  if (task == Task::vjp) meander::fill_normal<Compute>(exec, 2, 0, grad_y);
  Kokkos::deep_copy(exec, grad_log_det, Storage(-1));

  double const products = task == Task::grad_log_prob ? 3 : 5;
  bench::Work const work{double(shape.batch) * matrices(task) * shape.dim * sizeof(Storage),
                         products * double(shape.batch) * shape.dim * shape.layers};
  bench::measure(state, exec, shape, work, ceilings.copy,
                 sizeof(Compute) == 4 ? ceilings.float_fma : ceilings.double_fma, [&] {
                   switch (task) {
                     case Task::likelihood:
                     case Task::likelihood_inverse:
                       return meander::negative_log_likelihood(exec, workspace, flow, parameters, x,
                                                               loss, gradients);
                     case Task::vjp:
                       return meander::vjp(exec, workspace, stack, parameters, x, grad_y,
                                           grad_log_det, grad_x, gradients);
                     case Task::grad_log_prob:
                       return meander::grad_log_prob(exec, workspace, flow, x, grad_x);
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

/// A whole step of training on all rows: preparing the stack, loss and gradients, Adam.
template <class Compute>
void train(benchmark::State& state, Shape const& shape, bench::Ceilings const& ceilings) {
  space const exec;
  Kokkos::View<Compute**, Kokkos::LayoutRight, space::memory_space> const x("bench::x", shape.batch,
                                                                            shape.dim);
  meander::fill_normal(exec, 1, 0, x);
  meander::Trainer<Compute, space> trainer(
      exec,
      meander::initial_planar_model(shape.layers, shape.dim, meander::Direction::normalizing, 1));
  bench::Work const work{double(shape.batch) * shape.dim * sizeof(Compute),
                         5.0 * double(shape.batch) * shape.dim * shape.layers};
  bench::measure(state, exec, shape, work, ceilings.copy,
                 sizeof(Compute) == 4 ? ceilings.float_fma : ceilings.double_fma,
                 [&] { trainer.step(x); });
}

template <class Compute>
void add_training(char const* types, Shape const& shape, bench::Ceilings const& ceilings) {
  benchmark::RegisterBenchmark(
      bench::name_of("training_step", types, "right", shape).c_str(),
      [shape, ceilings](benchmark::State& state) { train<Compute>(state, shape, ceilings); })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

constexpr std::int64_t Ki = 1024, Mi = Ki * Ki;

std::vector<Shape> shapes() {
  if (on_host)
    return {{32, 8, 256 * Ki},
            {2, 32, 256 * Ki},
            {64, 32, 64 * Ki},
            {30, 16, 455, 100},
            {64, 16, 1437, 30}};
  return {{32, 8, Mi},  {64, 32, 256 * Ki}, {256, 16, 128 * Ki}, {2, 32, 4 * Mi},
          {32, 32, Mi}, {1024, 64, 8 * Ki}, {30, 16, 455, 1000}};
}

void add_all(bench::Ceilings const& ceilings, bench::Options const& options) {
  using Kokkos::LayoutLeft, Kokkos::LayoutRight;
  for (Shape const& shape : options.choose(shapes())) {
    add_training<float>("float", shape, ceilings);
    add_training<double>("double", shape, ceilings);
    for (Task const task :
         {Task::likelihood, Task::likelihood_inverse, Task::vjp, Task::grad_log_prob}) {
      add<float, float, LayoutRight>(task, "float", "right", shape, ceilings);
      add<float, float, LayoutLeft>(task, "float", "left", shape, ceilings);
      add<float, double, LayoutRight>(task, "mixed", "right", shape, ceilings);
      add<double, double, LayoutRight>(task, "double", "right", shape, ceilings);
    }
  }
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, add_all); }
