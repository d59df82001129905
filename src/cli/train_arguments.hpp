// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <meander/direction.hpp>
#include <meander/model.hpp>
#include <meander/planar_options.hpp>
#include <meander/trainer.hpp>

namespace meander::cli {

/// \brief What `meander train` was asked for, checked as far as the command line goes.
struct TrainArguments {
  // What is fitted to.
  std::string data, validation;
  double validation_fraction = 0;  ///< 0: no rows are set apart
  bool standardize           = false;
  int target                 = 0;  ///< of the energies U1 to U4; 0: rows of `data`
  ReverseKlTraining reverse_kl;
  std::int64_t estimate_rows = std::int64_t{1} << 20;

  // The flow.
  std::int64_t layers = 0;
  Direction direction = Direction::normalizing;
  PlanarOptions planar;

  // How, and where to.
  TrainerOptions trainer;  ///< of report_interval 0: to be chosen
  bool resume = false;
  std::string out, log, plot;
  ScalarType stored   = ScalarType::float32;
  std::string compute = "double";
  std::optional<int> threads;
  bool verbose = false;
};

/// \brief Fits a flow to rows, or to an energy: writes the model and prints a line.
/// \throws std::exception
void train_on_data(TrainArguments const& arguments);
void train_on_target(TrainArguments const& arguments);

}  // namespace meander::cli
