// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace meander {

/// \brief How a learning rate goes from its initial to its final value.
enum class Decay { constant, cosine, exponential };

/// \brief The word used for a decay in messages and files.
constexpr char const* to_string(Decay decay) {
  switch (decay) {
    case Decay::constant: return "constant";
    case Decay::cosine: return "cosine";
    case Decay::exponential: return "exponential";
  }
  return "unknown";
}

/// \brief A learning rate as a function of the step: a linear warm-up, then a decay.
///
/// With p = (step - warmup_steps) / (steps - warmup_steps), at most 1, the decay is
///   constant:     initial
///   cosine:       final + (initial - final) (1 + cos(pi p)) / 2  (Loshchilov & Hutter 2017, eq. 5)
///   exponential:  initial (final / initial)^p
struct LearningRate {
  double initial            = 1e-3;  ///< the rate after the warm-up; finite and > 0
  Decay decay               = Decay::constant;
  double final              = 0;  ///< the rate at step `steps`; `constant` does not look at it
  std::int64_t warmup_steps = 0;  ///< step i of them has the rate initial (i + 1) / warmup_steps
  /// When the decay ends, warm-up included; `constant` does not look at it. A Trainer takes 0 to
  /// mean its own number of steps.
  std::int64_t steps = 0;

  /// \brief The rate of a step; host arithmetic only.
  /// \param[in] step counted from 0
  /// \throws std::invalid_argument if the step is negative or a member is out of its range
  double at(std::int64_t step) const;

  /// \brief Checks the members.
  /// \throws std::invalid_argument naming the one that is out of its range, what it is and what it
  /// should be
  void check() const;

  friend bool operator==(LearningRate const&, LearningRate const&) = default;
};

}  // namespace meander
