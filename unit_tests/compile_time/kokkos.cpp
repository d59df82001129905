// SPDX-License-Identifier: BSD-3-Clause
// What user.cpp is measured against: Kokkos and one kernel.
#include <Kokkos_Core.hpp>

void scale(Kokkos::View<float**> const& x) {
  Kokkos::parallel_for(
      "scale", Kokkos::RangePolicy<>(0, x.extent_int(0)), KOKKOS_LAMBDA(int i) { x(i, 0) *= 2; });
}
