// SPDX-License-Identifier: BSD-3-Clause
#include "runtime.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "checks.hpp"

namespace meander::cli {

namespace {

/// \brief Far more threads than cores is a slip of the keyboard, and would exhaust the machine.
int most_threads() {
  constexpr int always = 256;
  return std::max(always, 4 * static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

CLI::Validator number_of_threads() {
  return whole_number(1, static_cast<std::uint64_t>(most_threads()));
}

void add_threads_to(CLI::App& command, std::optional<int>& threads) {
  command.add_option("--threads", threads, "Number of host threads (default: all)")
      ->transform(number_of_threads())
      ->type_name("N");
}

Kokkos::InitializationSettings Runtime::settings(std::optional<int> threads) {
  // Kokkos aborts on a number that it does not like.
  char const* const variable = "KOKKOS_NUM_THREADS";
  if (char const* const text = std::getenv(variable)) {
    auto const problem = number_of_threads()(text);
    if (!problem.empty()) throw std::runtime_error(std::string(variable) + ": " + problem);
  }
  // Its warnings are about thread binding, which is the caller's business.
  auto result = Kokkos::InitializationSettings().set_disable_warnings(true);
  if (threads) result.set_num_threads(*threads);
  return result;
}

}  // namespace meander::cli
