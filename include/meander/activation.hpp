// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace meander {

/// \brief The scalar nonlinearity h of a planar layer.
enum class Activation {
  tanh,       ///< h(a) = tanh(a)
  leaky_relu  ///< h(a) = a for a >= 0, negative_slope * a for a < 0
};

/// \brief The word used for an activation in model files and messages.
constexpr char const* to_string(Activation activation) {
  switch (activation) {
    case Activation::tanh: return "tanh";
    case Activation::leaky_relu: return "leaky_relu";
  }
  return "unknown";
}

}  // namespace meander
