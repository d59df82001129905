// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstdint>

#include <meander/trainer.hpp>

#include "refuse.hpp"

namespace meander {

namespace {

void check_count(char const* function, char const* name, std::int64_t came, std::int64_t least) {
  if (came < least) impl::refuse(function, name, " is ", came, ", expected a number >= ", least);
}

}  // namespace

void TrainerOptions::check() const {
  char const* const function = "meander::TrainerOptions";
  check_count(function, "steps", steps, 0);
  check_count(function, "batch", batch, 0);
  check_count(function, "validation_interval", validation_interval, 0);
  check_count(function, "patience", patience, 0);
  check_count(function, "checkpoint_interval", checkpoint_interval, 0);
  check_count(function, "report_interval", report_interval, 1);
  check_count(function, "give_up_after", give_up_after, 1);
  if (!(validation_fraction >= 0 && validation_fraction < 1))
    impl::refuse(function, "validation_fraction is ", validation_fraction,
                 ", expected a number in [0, 1)");
  if (checkpoint_interval > 0 && checkpoint.empty())
    impl::refuse(function, "checkpoint_interval is ", checkpoint_interval,
                 ", but checkpoint names no file");
  auto rate = learning_rate;
  if (rate.steps == 0) rate.steps = std::max(steps, rate.warmup_steps + 1);
  rate.check();
  adam.check();
}

void ReverseKlTraining::check() const {
  char const* const function = "meander::ReverseKlTraining";
  if (!(beta_start >= 0 && beta_start <= 1))
    impl::refuse(function, "beta_start is ", beta_start, ", expected a number in [0, 1]");
  check_count(function, "beta_steps", beta_steps, 0);
  check_count(function, "validation_batch", validation_batch, 0);
}

double ReverseKlTraining::beta(std::int64_t step) const {
  if (step >= beta_steps) return 1;
  return beta_start +
         (1 - beta_start) * (static_cast<double>(step) / static_cast<double>(beta_steps));
}

}  // namespace meander
