// SPDX-License-Identifier: BSD-3-Clause
#include <meander/learning_rate.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "refuse.hpp"

namespace meander {

namespace {

constexpr char const* function = "meander::LearningRate";

}  // namespace

void LearningRate::check() const {
  if (!(std::isfinite(initial) && initial > 0))
    impl::refuse(function, "initial is ", initial, ", expected a finite number > 0");
  if (warmup_steps < 0)
    impl::refuse(function, "warmup_steps is ", warmup_steps, ", expected a number >= 0");
  switch (decay) {
    case Decay::constant: return;
    case Decay::cosine:
      if (!(std::isfinite(final) && final >= 0))
        impl::refuse(function, "final is ", final, ", expected a finite number >= 0");
      break;
    case Decay::exponential:
      if (!(std::isfinite(final) && final > 0))
        impl::refuse(function, "final is ", final,
                     ", expected a finite number > 0 with exponential decay");
      break;
    default: impl::refuse(function, "decay is none of the enumeration");
  }
  if (steps <= warmup_steps)
    impl::refuse(function, "steps is ", steps, ", expected more than the ", warmup_steps,
                 " of the warm-up with ", to_string(decay), " decay");
}

double LearningRate::at(std::int64_t step) const {
  check();
  if (step < 0) impl::refuse(function, "argument step is ", step, ", expected a number >= 0");
  if (step < warmup_steps)
    return initial * (static_cast<double>(step + 1) / static_cast<double>(warmup_steps));
  if (decay == Decay::constant) return initial;
  double const done = std::min(
      1.0, static_cast<double>(step - warmup_steps) / static_cast<double>(steps - warmup_steps));
  if (decay == Decay::cosine)
    return final + (initial - final) * 0.5 * (1 + std::cos(std::numbers::pi * done));
  return initial * std::pow(final / initial, done);
}

}  // namespace meander
