// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <meander/activation.hpp>
#include <meander/constraint.hpp>

namespace meander {

/// \brief What a stack of planar layers is, apart from its parameters.
struct PlanarOptions {
  Activation activation = Activation::tanh;
  Constraint constraint = Constraint::softplus;
  /// Slope of leaky_relu on the negative side, in [0, 1]; tanh does not look at it, and model files
  /// do not hold it for tanh.
  double negative_slope = 0.2;
  /// Reproduces codes that compute log(|det| + epsilon) per layer; finite and >= 0.
  double log_det_epsilon = 0.0;
  /// Promises that the stack can be inverted, and has that checked: `inverse` asks for it where the
  /// constraint is `none`, which alone allows a layer that cannot. Preparing the stack, and every
  /// refresh, then waits for the device, and throws std::invalid_argument naming the first layer
  /// whose determinant can vanish or be negative. Model files do not hold this.
  bool invertible = false;

  friend bool operator==(PlanarOptions const&, PlanarOptions const&) = default;
};

}  // namespace meander
