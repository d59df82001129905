// SPDX-License-Identifier: BSD-3-Clause
#include <cstdio>

#include <Kokkos_Core.hpp>
#include <meander/flow.hpp>
#include <meander/model_file.hpp>

int main(int argc, char** argv) {
  Kokkos::ScopeGuard guard(argc, argv);
  if (argc != 2) return std::fprintf(stderr, "usage: sample MODEL.safetensors\n"), 2;
  Kokkos::DefaultExecutionSpace exec;
  auto flow = meander::make_flow<float>(exec, meander::read_model(argv[1]));
  Kokkos::View<float**> x("x", 1000, flow.dim());
  Kokkos::View<float*> log_q("log_q", 1000), again("again", 1000);
  // Rows 0 to 999 of the sample that seed 42 names, and their log-densities.
  meander::sample(exec, flow, 42, 0, x, log_q);
  // The log-density of rows from anywhere.
  meander::log_prob(exec, flow, x, again);
  auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), log_q);
  std::printf("log q of the first row: %g\n", host(0));
}
