// SPDX-License-Identifier: BSD-3-Clause
// Exits with 0 if KokkosBlas::gemm agrees with a plain loop, for a type and layout that Debian's
// package has compiled (double, left) and for one that it has not (float, right).
#include <KokkosBlas3_gemm.hpp>
#include <Kokkos_Core.hpp>
#include <cmath>
#include <cstdio>

template <class T, class Layout>
double gemm_error(int rows, int columns, int inner) {
  using Matrix = Kokkos::View<T**, Layout, Kokkos::HostSpace>;
  Matrix a("meander::check_a", rows, inner);
  Matrix b("meander::check_b", inner, columns);
  Matrix c("meander::check_c", rows, columns);
  for (int k = 0; k < inner; ++k) {
    for (int i = 0; i < rows; ++i) a(i, k) = T(i + 2 * k) / T(16);
    for (int j = 0; j < columns; ++j) b(k, j) = T(j - k) / T(16);
  }

  Kokkos::DefaultHostExecutionSpace exec;
  KokkosBlas::gemm(exec, "N", "N", T(1), a, b, T(0), c);
  exec.fence("meander::check");

  double error = 0;
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) {
      double sum = 0;
      for (int k = 0; k < inner; ++k) sum += double(a(i, k)) * double(b(k, j));
      error = std::fmax(error, std::fabs(sum - double(c(i, j))));
    }
  }
  return error;
}

int main(int argc, char** argv) {
  Kokkos::ScopeGuard guard(argc, argv);
  double const left  = gemm_error<double, Kokkos::LayoutLeft>(7, 5, 13);
  double const right = gemm_error<float, Kokkos::LayoutRight>(7, 5, 13);
  std::printf("gemm: largest error %g (double, left), %g (float, right)\n", left, right);
  return left < 1e-12 && right < 1e-4 ? 0 : 1;
}
