// SPDX-License-Identifier: BSD-3-Clause
// What a user of the forward map compiles.
#include <Kokkos_Core.hpp>

#include <meander/planar.hpp>

void push(Kokkos::DefaultExecutionSpace const& exec, Kokkos::View<float**> const& w,
          Kokkos::View<float**> const& u, Kokkos::View<float*> const& b,
          Kokkos::View<float**> const& z, Kokkos::View<float*> const& log_det) {
  meander::PlanarStack const stack(exec, meander::PlanarParameters{w, u, b});
  meander::forward(exec, stack, z, z, log_det);
}
