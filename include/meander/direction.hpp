// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace meander {

/// \brief Which way a stored stack of layers maps.
enum class Direction {
  generative,  ///< the stack maps latent rows z to data rows x
  normalizing  ///< the stack maps data rows x to latent rows z
};

/// \brief The word used for a direction in model files and messages.
constexpr char const* to_string(Direction direction) {
  switch (direction) {
    case Direction::generative: return "generative";
    case Direction::normalizing: return "normalizing";
  }
  return "unknown";
}

}  // namespace meander
