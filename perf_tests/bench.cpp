// SPDX-License-Identifier: BSD-3-Clause
#include "bench.hpp"

#include <cinttypes>
#include <cstdio>
#include <exception>
#include <stdexcept>

#include <meander/version.hpp>

#include "ceilings.hpp"

namespace bench {

namespace {

/// Takes --small and --shapes from the command line: Google Benchmark refuses flags that it does
/// not know. \throws std::invalid_argument
Options take_options(int& argc, char** argv) {
  Options options;
  std::string const shapes = "--shapes=";
  auto const ours          = [&](std::string const& word) {
    if (word == "--small") return options.small = true;
    if (word.compare(0, shapes.size(), shapes) != 0) return false;
    std::istringstream list(word.substr(shapes.size()));
    for (std::string text; std::getline(list, text, ',');) {
      Shape shape{};
      int end = 0;
      if (std::sscanf(text.c_str(), "%dx%dx%" SCNd64 "%n", &shape.dim, &shape.layers, &shape.batch,
                               &end) != 3 ||
          end != int(text.size()) || shape.dim < 1 || shape.layers < 0 || shape.batch < 0)
        throw std::invalid_argument("--shapes: expected DxLxB, got '" + text + "'");
      options.shapes.push_back(shape);
    }
    return true;
  };
  argc = int(std::remove_if(argv + 1, argv + argc, ours) - argv);
  return options;
}

}  // namespace

std::vector<Shape> Options::choose(std::vector<Shape> const& usual) const {
  auto chosen = shapes.empty() ? usual : shapes;
  if (small)
    for (Shape& shape : chosen)
      shape = {shape.dim, shape.layers, std::min<std::int64_t>(shape.batch, 100)};
  return chosen;
}

int run(int argc, char** argv,
        std::function<void(Ceilings const& ceilings, Options const& options)> const& add_all) try {
  Options const options = take_options(argc, argv);
  Kokkos::ScopeGuard const guard(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;

  Ceilings const measured =
      options.small ? Ceilings{1, 1, 1}
                    : Ceilings{ceilings::copy_bytes_per_second(), ceilings::float_fmas_per_second(),
                               ceilings::double_fmas_per_second()};
  std::ostringstream configuration;
  Kokkos::print_configuration(configuration);
  benchmark::AddCustomContext("meander", std::string(meander::version) + " " + MEANDER_REVISION);
  benchmark::AddCustomContext("space", space::name());
  benchmark::AddCustomContext("concurrency", std::to_string(space().concurrency()));
  benchmark::AddCustomContext("copy_GB/s", std::to_string(measured.copy * 1e-9));
  benchmark::AddCustomContext("float_GFMA/s", std::to_string(measured.float_fma * 1e-9));
  benchmark::AddCustomContext("double_GFMA/s", std::to_string(measured.double_fma * 1e-9));
  benchmark::AddCustomContext("kokkos", configuration.str());

  add_all(measured, options);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}

}  // namespace bench
