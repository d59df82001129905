// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace meander {

/// \brief How u-hat is derived from the unconstrained u, so that the layer stays invertible.
///
/// Each map fixes s = 1 + w.u_hat from x = w.u; then u_hat = u + (s - 1 - x) w / |w|^2
/// (Rezende & Mohamed 2015, appendix A.1). softplus(x) = max(x, 0) + log1p(exp(-|x|)).
enum class Constraint {
  softplus,      ///< s = softplus(x); Rezende & Mohamed and the PyTorch codes
  log_softplus,  ///< s = log(1 + softplus(x)); FlowJAX
  none           ///< u_hat = u, s = 1 + x; the layer may be singular
};

/// \brief The word used for a constraint in model files and messages.
constexpr char const* to_string(Constraint constraint) {
  switch (constraint) {
    case Constraint::softplus: return "softplus";
    case Constraint::log_softplus: return "log_softplus";
    case Constraint::none: return "none";
  }
  return "unknown";
}

}  // namespace meander
