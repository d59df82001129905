// SPDX-License-Identifier: BSD-3-Clause
// Prints a digest of every bit of forward's y and log_det, of what inverse makes of z, and of the
// parameters after training, for a list of cases, one line each: same_digest.cmake compares what
// different numbers of threads print. The first line says how many the host has.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <type_traits>
#include <utility>

#include <Kokkos_Core.hpp>

#include <meander/planar.hpp>
#include <meander/trainer.hpp>

namespace {

using space = Kokkos::DefaultExecutionSpace;

/// FNV-1a, 64 bits.
class Digest {
 public:
  template <class View>
  void add(View const& view) {
    auto const host        = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
    auto const* const data = reinterpret_cast<unsigned char const*>(host.data());
    for (std::size_t i = 0; i < host.span() * sizeof(typename View::value_type); ++i)
      value_ = (value_ ^ data[i]) * 1099511628211U;
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 14695981039346656037U;
};

template <class View>
void fill(View const& view, double scale, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0, scale);
  auto const host = Kokkos::create_mirror_view(view);
  for (std::size_t i = 0; i < host.span(); ++i)
    host.data()[i] = typename View::value_type(normal(generator));
  Kokkos::deep_copy(view, host);
}

struct Case {
  int layers, dim, batch;
};

template <class Storage, class Compute, class Layout>
void digest(char const* name, Case const& c, meander::PlanarOptions const& options) {
  space const exec;
  Kokkos::View<Storage**, Layout, space> const w("w", c.layers, c.dim), u("u", c.layers, c.dim);
  Kokkos::View<Storage*, space> const b("b", c.layers), log_det("log_det", c.batch);
  Kokkos::View<Storage**, Layout, space> const z("z", c.batch, c.dim), y("y", c.batch, c.dim);
  fill(w, 0.5, 1);
  fill(u, 0.5, 2);
  fill(b, 0.5, 3);
  fill(z, 1.0, 4);
  meander::PlanarStack<Compute> const stack(exec, meander::PlanarParameters{w, u, b}, options);
  meander::forward(exec, stack, z, y, log_det);
  exec.fence();
  Digest digest;
  digest.add(y);
  digest.add(log_det);
  meander::inverse(exec, stack, z, y, log_det);
  exec.fence();
  digest.add(y);
  digest.add(log_det);
  std::printf("%s %s L=%d D=%d B=%d %s %016llx\n", name,
              std::is_same_v<Layout, Kokkos::LayoutLeft> ? "left" : "right", c.layers, c.dim,
              c.batch, to_string(options.activation),
              static_cast<unsigned long long>(digest.value()));
}

constexpr Case cases[] = {{8, 32, 100003}, {32, 2, 65536}, {3, 5, 1},     {5, 1, 63},
                          {9, 33, 257},    {1, 600, 1000}, {200, 17, 999}};

template <class Storage, class Compute>
void digest_all(char const* name) {
  meander::PlanarOptions leaky;
  leaky.activation = meander::Activation::leaky_relu;
  leaky.constraint = meander::Constraint::log_softplus;
  for (Case const& c : cases)
    for (auto const& options : {meander::PlanarOptions(), leaky}) {
      digest<Storage, Compute, Kokkos::LayoutLeft>(name, c, options);
      digest<Storage, Compute, Kokkos::LayoutRight>(name, c, options);
    }
}

/// The parameters after some steps in minibatches, several chunks long, and on all rows.
template <class Compute>
void digest_training(char const* name) {
  space const exec;
  constexpr int layers = 7, dim = 5, rows = 3001;
  Kokkos::View<float**, Kokkos::LayoutLeft, space> const train("train", rows, dim);
  fill(train, 1.5, 5);
  for (int const batch : {700, 0}) {
    meander::TrainerOptions options;
    options.steps               = 20;
    options.batch               = batch;
    options.validation_fraction = 0.2;
    options.adam.max_grad_norm  = 1;
    meander::Trainer<Compute> trainer(
        exec, meander::initial_planar_model(layers, dim, meander::Direction::normalizing, 6),
        options);
    trainer.maximum_likelihood(train);
    Digest digest;
    digest.add(trainer.parameters().w);
    digest.add(trainer.parameters().u);
    digest.add(trainer.parameters().b);
    std::printf("training %s L=%d D=%d B=%d of %d %016llx\n", name, layers, dim, batch, rows,
                static_cast<unsigned long long>(digest.value()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Kokkos::ScopeGuard const guard(argc, argv);
  std::printf("threads %d\n", Kokkos::DefaultHostExecutionSpace().concurrency());
  digest_all<float, float>("float/float");
  digest_all<double, double>("double/double");
  digest_all<float, double>("float/double");
  digest_training<float>("float/float");
  digest_training<double>("float/double");
}
