// SPDX-License-Identifier: BSD-3-Clause
#include <Kokkos_Core.hpp>
#include <meander/planar.hpp>

int main(int argc, char** argv) {
  Kokkos::ScopeGuard guard(argc, argv);
  Kokkos::DefaultExecutionSpace exec;
  // 8 layers on R^32, 1000 rows.
  Kokkos::View<float**> w("w", 8, 32), u("u", 8, 32), z("z", 1000, 32);
  Kokkos::View<float*> b("b", 8), log_det("log_det", 1000);
  Kokkos::deep_copy(w, 0.1f), Kokkos::deep_copy(u, 0.2f), Kokkos::deep_copy(z, 0.5f);
  meander::PlanarStack stack(exec, meander::PlanarParameters{w, u, b});
  // Asynchronous; here in place. log_det becomes log |det dy/dz| of each row.
  meander::forward(exec, stack, z, z, log_det);
  exec.fence();
}
