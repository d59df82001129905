// SPDX-License-Identifier: BSD-3-Clause
#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>

#include "../file.hpp"
#include "commands.hpp"
#include "interrupts.hpp"

namespace meander::cli {

void print(std::string const& text) {
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot write to the standard output");
  }
}

namespace {

enum ExitCode { success = 0, failed = 1, usage = 2 };

constexpr char const* footer = R"(Examples:
  meander train --data train.npy --flow planar:16 --standardize --steps 3000 --lr 5e-3 --seed 1 \
                --out model.safetensors
  meander info model.safetensors
  meander sample --model model.safetensors -n 1000000 --seed 1 --out x.npy
  meander log-prob --model model.safetensors --in x.npy --out logq.npy

'meander COMMAND --help' explains a command. Exit codes: 0 done, 1 failed, 2 wrong usage.)";

int complain(std::string const& text) {
  std::fprintf(stderr, "meander: %s\n", text.c_str());
  return failed;
}

int wrong_usage(CLI::App const& tool, std::string const& text) {
  auto const used = tool.get_subcommands();
  complain(text);
  std::fprintf(stderr, "Try 'meander%s --help'.\n",
               used.empty() ? "" : (" " + used.front()->get_name()).c_str());
  return usage;
}

int run(int argc, char** argv) {
  CLI::App tool("Normalizing flows: training, samples, densities, and maps of rows in files.",
                "meander");
  tool.footer(footer);
  tool.set_help_flag("-h,--help", "Print this help and exit");
  tool.set_version_flag("--version", version_text, "Print the versions and backends and exit");
  constexpr std::size_t help_column = 32;
  tool.get_formatter()->column_width(help_column);
  std::vector<Command> const commands = {add_forward(tool), add_inverse(tool), add_log_prob(tool),
                                         add_sample(tool),  add_info(tool),    add_compare(tool),
                                         add_density(tool), add_train(tool)};
  try {
    tool.parse(argc, argv);
    if (tool.get_subcommands().size() != 1) throw CLI::RequiredError("one command");
    for (auto const& command : commands) {
      if (command.app->parsed()) command.run();
    }
  } catch (CLI::CallForVersion const& version) {
    print(std::string(version.what()) + "\n");
  } catch (CLI::Success const& help) {
    std::ostringstream text;  // not std::cout, which does not say that it failed
    tool.exit(help, text, text);
    print(text.str());
  } catch (CLI::ExtrasError const& error) {
    if (!tool.get_subcommands().empty()) return wrong_usage(tool, error.what());
    return wrong_usage(tool, "there is no command " + impl::in_quotes(tool.remaining().front()));
  } catch (CLI::ParseError const& error) {
    return wrong_usage(tool, error.what());
  }
  return success;
}

}  // namespace

}  // namespace meander::cli

int main(int argc, char** argv) {
  using meander::cli::complain;
  try {
    meander::cli::install_signal_handlers();
    return meander::cli::run(argc, argv);
  } catch (std::bad_alloc const&) {
    return complain("out of memory");
  } catch (std::exception const& error) {
    return complain(error.what());
  }
}
