// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>

#include <CLI/CLI.hpp>
#include <Kokkos_Core.hpp>

namespace meander::cli {

/// \brief Where the tool's kernels run.
using Space = Kokkos::DefaultExecutionSpace;

/// \brief Accepts a number of threads that a machine like this one can have.
CLI::Validator number_of_threads();

/// \brief Adds --threads, which all commands that compute have in common.
void add_threads_to(CLI::App& command, std::optional<int>& threads);

/// \brief Kokkos, from here to the end of the scope.
class Runtime {
 public:
  /// \throws std::runtime_error if the environment asks for what Kokkos would abort on
  explicit Runtime(std::optional<int> threads) : guard_(settings(threads)) {}

 private:
  static Kokkos::InitializationSettings settings(std::optional<int> threads);

  Kokkos::ScopeGuard guard_;
};

}  // namespace meander::cli
