// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

namespace meander::cli {

/// \brief A subcommand: how it is called, and what it does once the command line has been read.
///
/// `run` throws std::exception for a failure (exit code 1) and CLI::ParseError for options that do
/// not go together (exit code 2).
struct Command {
  CLI::App* app = nullptr;
  std::function<void()> run;
};

Command add_forward(CLI::App& tool);
Command add_inverse(CLI::App& tool);
Command add_log_prob(CLI::App& tool);
Command add_sample(CLI::App& tool);
Command add_info(CLI::App& tool);
Command add_compare(CLI::App& tool);
Command add_density(CLI::App& tool);
Command add_train(CLI::App& tool);

/// \brief What `meander --version` prints.
std::string version_text();

/// \brief Prints to stdout and makes sure that it arrived (`> /dev/full`).
void print(std::string const& text);

}  // namespace meander::cli
