// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace meander::cli {

/// \brief What a picture of a training run shows.
struct LossCurve {
  struct Point {
    double step, loss;
  };
  std::vector<Point> train, validation;  ///< in the order of steps
  std::optional<Point> best;             ///< the model that is kept
  double settled = 0;  ///< the axis shows where losses go from this step on, if there are any
  /// A loss that no flow can have less of, drawn as a line, and its name.
  std::optional<double> floor;
  std::string floor_name;
};

/// \brief Draws it, and writes a PNG under its name once it is complete.
///
/// The axis shows where the curves go in the end: a few large losses of the first steps do not
/// press the others flat, but leave the picture at its upper border. Points that are not finite are
/// left out.
/// \throws std::runtime_error
void draw_loss_curve(LossCurve curve, std::filesystem::path const& path);

}  // namespace meander::cli
