// SPDX-License-Identifier: BSD-3-Clause
// Exits with 0 if a parallel reduction is right, and an exception thrown here is caught here.
#include <Kokkos_Core.hpp>
#include <cstdio>
#include <exception>
#include <stdexcept>

int main(int argc, char** argv) {
  Kokkos::ScopeGuard guard(argc, argv);
  double sum = 0;
  Kokkos::parallel_reduce(
      "meander::check", 1000, KOKKOS_LAMBDA(int i, double& partial) { partial += i; }, sum);
  std::printf("%s: sum %g\n", Kokkos::DefaultExecutionSpace::name(), sum);
  try {
    throw std::runtime_error("thrown");
  } catch (std::exception const&) {
    return sum == 499500 ? 0 : 1;
  }
  return 1;
}
