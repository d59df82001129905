// SPDX-License-Identifier: BSD-3-Clause
#include <string>

#include <Kokkos_Core.hpp>

#include <meander/version.hpp>

#include "../host/planar_map.hpp"
#include "commands.hpp"

namespace meander::cli {

namespace {

std::string backends() {
  std::string names;
  auto const add = [&](std::string const& name) { names += (names.empty() ? "" : ", ") + name; };
#ifdef KOKKOS_ENABLE_CUDA
  add("Cuda");
#endif
#ifdef KOKKOS_ENABLE_HIP
  add("HIP");
#endif
#ifdef KOKKOS_ENABLE_SYCL
  add("SYCL");
#endif
#ifdef KOKKOS_ENABLE_OPENMP
  add("OpenMP");
#endif
#ifdef KOKKOS_ENABLE_THREADS
  add("Threads");
#endif
#ifdef KOKKOS_ENABLE_SERIAL
  add("Serial");
#endif
  return names + " (used: " + Kokkos::DefaultExecutionSpace::name() + ")";
}

}  // namespace

std::string version_text() {
  constexpr int kokkos = KOKKOS_VERSION;
  return std::string("meander ") + version + "\nKokkos " + std::to_string(kokkos / 10000) + "." +
         std::to_string(kokkos / 100 % 100) + "." + std::to_string(kokkos % 100) +
         "\nbackends: " + backends() + "\nhost kernels: " + impl::host::instruction_set();
}

}  // namespace meander::cli
