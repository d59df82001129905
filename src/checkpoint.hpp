// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace meander::impl {

/// Where a run stands.
struct TrainingProgress {
  std::int64_t step                   = 0;
  std::int64_t best_step              = 0;
  std::int64_t validations_since_best = 0;
  double best_validation_loss, validation_loss;  ///< NaN: there is none
  double point_validation_loss;  ///< the validation loss of the next point of the history

  TrainingProgress();
};

/// All that resuming needs. Matrices are row-major.
struct Checkpoint {
  std::int64_t layers = 0, dim = 0;
  /// What the run that resumes must have in common with the one that wrote it: name and value.
  std::map<std::string, std::string> settings;
  TrainingProgress progress;
  std::vector<double> parameters, best;  ///< w, u, b; `best` is empty where nothing was validated
  std::vector<double> base;              ///< loc and log_scale; empty: standard normal
  std::vector<double> adam;
  std::vector<double> losses;   ///< of the steps since the last point of the history
  std::vector<double> history;  ///< four numbers a point
};

inline constexpr std::int64_t history_columns = 4;

/// The shortest text that reads back as the same number.
std::string setting(double value);
std::string setting(std::int64_t value);
std::string setting(std::uint64_t value);

/// \throws ModelFileError if it cannot be written
void write_checkpoint(std::filesystem::path const& path, Checkpoint const& checkpoint);

/// Takes the file as untrusted: every size is checked against (layers, dim), adam_size and the
/// file's own; step counts are whole numbers in range.
/// \throws ModelFileError if it is no checkpoint or malformed; TrainingError if it is one of a
/// model of another shape
Checkpoint read_checkpoint(std::filesystem::path const& path, std::int64_t layers, std::int64_t dim,
                           std::int64_t adam_size);

/// \throws TrainingError naming the first setting that differs, and both values
void compare_settings(std::string const& where, std::map<std::string, std::string> const& file,
                      std::map<std::string, std::string> const& own, std::string const& prefix);

}  // namespace meander::impl
