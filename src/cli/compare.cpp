// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "checks.hpp"
#include "commands.hpp"
#include "npy.hpp"

namespace meander::cli {

namespace {

struct CompareArguments {
  std::string a, b;
  bool absolute = false;
  std::optional<double> tolerance;
};

struct Largest {
  double error      = 0;
  std::uint64_t row = 0, col = 0;
};

double error_of(double a, double b, bool absolute) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  double const error = std::abs(a - b) / (absolute ? 1 : std::max(1.0, std::abs(b)));
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

Largest compare(NpyReader const& a, NpyReader const& b, bool absolute) {
  constexpr std::uint64_t values_per_chunk = std::uint64_t{1} << 20;
  auto const rows                          = a.rows();
  auto const cols                          = a.cols();
  Largest largest;
  if (rows == 0 || cols == 0) return largest;
  auto const chunk = std::min(rows, std::max<std::uint64_t>(1, values_per_chunk / cols));
  std::vector<double> x(chunk * cols);
  std::vector<double> y(chunk * cols);
  for (std::uint64_t first = 0; first < rows; first += chunk) {
    auto const count = std::min(chunk, rows - first);
    a.read(first, count, x.data());
    b.read(first, count, y.data());
    for (std::uint64_t i = 0; i < count; ++i) {
      for (std::uint64_t j = 0; j < cols; ++j) {
        auto const at = [&](NpyReader const& reader, std::vector<double> const& values) {
          return values[reader.column_major() ? j * count + i : i * cols + j];
        };
        auto const error = error_of(at(a, x), at(b, y), absolute);
        if (error > largest.error) largest = {error, first + i, j};
      }
    }
  }
  return largest;
}

std::string shape_text(NpyReader const& reader) {
  std::string text = "(" + std::to_string(reader.rows());
  return text + (reader.shape().size() == 2 ? ", " + std::to_string(reader.cols()) : ",") + ")";
}

void run(CompareArguments const& arguments) {
  NpyReader const a(arguments.a);
  NpyReader const b(arguments.b);
  if (a.shape() != b.shape()) {
    throw std::runtime_error(impl::path_in_quotes(arguments.a) + " has shape " + shape_text(a) +
                             ", " + impl::path_in_quotes(arguments.b) + " has " + shape_text(b));
  }
  auto const largest        = compare(a, b, arguments.absolute);
  std::array<char, 64> text = {};
  std::snprintf(text.data(), text.size(), "%.3g", largest.error);
  print(std::string(text.data()) + "\n");
  if (arguments.tolerance && !(largest.error <= *arguments.tolerance)) {
    std::array<char, 64> allowed = {};
    std::snprintf(allowed.data(), allowed.size(), "%g", *arguments.tolerance);
    throw std::runtime_error("the largest error is " + std::string(text.data()) + " (row " +
                             std::to_string(largest.row) + ", column " +
                             std::to_string(largest.col) + "), more than " + allowed.data());
  }
}

}  // namespace

Command add_compare(CLI::App& tool) {
  auto const arguments = std::make_shared<CompareArguments>();
  auto* const command =
      tool.add_subcommand("compare", "Print the largest difference between two .npy files");
  command->add_option("a", arguments->a, "Array to be judged (.npy)")
      ->required()
      ->check(file_name())
      ->type_name("FILE");
  command->add_option("b", arguments->b, "Array to be taken as right (.npy)")
      ->required()
      ->check(file_name())
      ->type_name("FILE");
  command->add_flag("--absolute", arguments->absolute, "|a - b| instead of |a - b| / max(1, |b|)");
  command
      ->add_option("--tolerance", arguments->tolerance,
                   "Fail (exit code 1) if the largest error is above T")
      ->check(non_negative())
      ->type_name("T");
  command->footer(R"(
Prints one number: the largest |a - b| / max(1, |b|). The types may differ, the shapes may not.
NaN agrees with NaN only, an infinity with itself only; anything else counts as inf.

Example:
  meander compare y.npy y64.npy --tolerance 1.2e-7)");
  return {command, [arguments] { run(*arguments); }};
}

}  // namespace meander::cli
