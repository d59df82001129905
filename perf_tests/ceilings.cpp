// SPDX-License-Identifier: BSD-3-Clause
#include "ceilings.hpp"

#include <algorithm>
#include <cstddef>

#include <Kokkos_Core.hpp>

namespace ceilings {

namespace {

using space = Kokkos::DefaultExecutionSpace;
constexpr bool on_host =
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, space::memory_space>::accessible;

template <class Work>
double best_seconds(Work const& work) {
  double best = 1e30;
  for (int i = 0; i < 10; ++i) {
    Kokkos::fence();
    Kokkos::Timer const timer;
    work();
    Kokkos::fence();
    best = std::min(best, timer.seconds());
  }
  return best;
}

/// Independent chains x = x * m + c, enough of them to fill the pipelines; on the host the inner
/// loop is one the compiler turns into whole vectors held in registers.
template <class T>
struct Chains {
  static constexpr int lanes  = on_host ? 128 / int(sizeof(T)) * 4 : 8;
  static constexpr int rounds = on_host ? 100000 : 4096;
  Kokkos::View<T*, space::memory_space> sink;

  KOKKOS_FUNCTION void operator()(int i) const {
    T x[lanes];
    T const m = T(0.999) + T(i) * T(1e-9);
    T const c = T(1e-3);
    for (int k = 0; k < lanes; ++k) x[k] = T(k);
    for (int round = 0; round < rounds; ++round)
      for (int k = 0; k < lanes; ++k) x[k] = x[k] * m + c;
    T sum = 0;
    for (int k = 0; k < lanes; ++k) sum += x[k];
    sink(i) = sum;
  }
};

template <class T>
double fmas_per_second() {
  int const items = on_host ? space().concurrency() * 4 : 132 * 2048;
  Chains<T> const chains{Kokkos::View<T*, space::memory_space>("ceilings::sink", items)};
  double const seconds = best_seconds(
      [&] { Kokkos::parallel_for("ceilings::fma", Kokkos::RangePolicy<space>(0, items), chains); });
  return double(items) * Chains<T>::lanes * Chains<T>::rounds / seconds;
}

}  // namespace

double copy_bytes_per_second() {
  std::size_t const bytes = std::size_t(1) << (on_host ? 28 : 32);
  Kokkos::View<char*, space::memory_space> const from("ceilings::from", bytes);
  Kokkos::View<char*, space::memory_space> const to("ceilings::to", bytes);
  return 2.0 * double(bytes) / best_seconds([&] { Kokkos::deep_copy(space(), to, from); });
}

double float_fmas_per_second() { return fmas_per_second<float>(); }
double double_fmas_per_second() { return fmas_per_second<double>(); }

}  // namespace ceilings
