// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <meander/model_file.hpp>

#include "model_arguments.hpp"

namespace meander::cli {

/// \brief What a flow is asked for.
enum class Map {
  forward,   ///< latent rows to data rows
  inverse,   ///< data rows to latent rows
  log_prob,  ///< data rows to their log-densities
  sample     ///< row numbers to data rows
};

/// \brief One run through a flow, chunk by chunk: where rows come from, where results go, and how.
///
/// The options that all commands share are here; each command adds its own.
struct FlowJob {
  explicit FlowJob(Map wanted) : map(wanted) {}

  Map map;
  std::string model;
  std::string in;       ///< rows; not for sample
  std::string out;      ///< rows; not for log_prob
  std::string out_log;  ///< log-dets or log-densities, one per row; may be empty
  std::string out_option = "--out", out_log_option;  ///< what the last two are called in messages
  /// What sample draws.
  std::uint64_t rows = 0, seed = 0, first_row = 0;
  ScalarType type = ScalarType::float32;  ///< of the drawn rows; otherwise results have the input's

  std::string compute = "double";
  std::optional<int> threads;
  std::optional<std::uint64_t> chunk_rows;
  bool verbose = false;
  ModelArguments options;

  /// \brief Adds --model, which is the first option of all these commands.
  void add_model_to(CLI::App& command);
  /// \brief Adds the shared options that come last.
  void add_rest_to(CLI::App& command);

  /// \brief Does it. The results get their names when all of them are on the disk.
  /// \throws std::exception, CLI::ValidationError
  void run() const;
};

/// \brief Log-densities of rows in memory, in double.
/// \param[in] name the model's file, for messages
/// \param[in] rows (B, D), row by row
/// \throws std::exception
std::vector<double> log_prob_of(Model const& model, std::string const& name,
                                std::vector<double> const& rows);

}  // namespace meander::cli
