// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include <meander/model_file.hpp>

namespace meander::cli {

/// \brief The options by which a command line tells what a model file does not, or corrects it.
struct ModelArguments {
  std::optional<double> epsilon, slope;
  std::string activation, constraint, direction;

  void add_to(CLI::App& command);
  ModelReadOptions read_options() const;

  /// \brief Whether the activation is neither told by these options nor by the file read.
  bool assume_activation(Model const& model) const;
  /// \brief Says on stderr what was assumed about the model of this file. To be called when nothing
  /// is left to be refused.
  void note_assumptions(std::string const& path, Model const& model) const;
};

}  // namespace meander::cli
