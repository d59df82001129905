// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include <meander/learning_rate.hpp>

#include "message_of.hpp"

namespace {

using meander::Decay;
using meander::LearningRate;

TEST(LearningRate, IsConstant) {
  LearningRate const rate{.initial = 0.25};
  EXPECT_EQ(rate.at(0), 0.25);
  EXPECT_EQ(rate.at(1'000'000'000'000), 0.25);
}

TEST(LearningRate, WarmsUpLinearly) {
  LearningRate const rate{.initial = 0.5, .warmup_steps = 4};
  EXPECT_EQ(rate.at(0), 0.125);
  EXPECT_EQ(rate.at(1), 0.25);
  EXPECT_EQ(rate.at(3), 0.5);
  EXPECT_EQ(rate.at(4), 0.5);
}

TEST(LearningRate, FallsAsACosine) {
  LearningRate const rate{
      .initial = 1, .decay = Decay::cosine, .final = 0.2, .warmup_steps = 10, .steps = 110};
  EXPECT_EQ(rate.at(10), 1);
  EXPECT_NEAR(rate.at(60), 0.6, 1e-15);
  EXPECT_NEAR(rate.at(35), 0.6 + 0.4 * std::sqrt(0.5), 1e-15);
  EXPECT_EQ(rate.at(110), 0.2);
  EXPECT_EQ(rate.at(5000), 0.2);
}

TEST(LearningRate, FallsExponentially) {
  LearningRate const rate{.initial = 1, .decay = Decay::exponential, .final = 0.01, .steps = 100};
  EXPECT_EQ(rate.at(0), 1);
  EXPECT_NEAR(rate.at(50), 0.1, 1e-15);
  EXPECT_NEAR(rate.at(51) / rate.at(50), std::pow(0.01, 0.01), 1e-14);
  EXPECT_NEAR(rate.at(100), 0.01, 1e-16);
  EXPECT_NEAR(rate.at(101), 0.01, 1e-16);
}

TEST(LearningRate, RefusesWhatIsOutOfRange) {
  auto const refusal = [](LearningRate const& rate, long step = 0) {
    return message_of([&] { static_cast<void>(rate.at(step)); });
  };
  EXPECT_EQ(refusal({.initial = 0}),
            "meander::LearningRate: initial is 0, expected a finite number > 0");
  EXPECT_EQ(refusal({.initial = std::numeric_limits<double>::quiet_NaN()}),
            "meander::LearningRate: initial is nan, expected a finite number > 0");
  EXPECT_EQ(refusal({.warmup_steps = -1}),
            "meander::LearningRate: warmup_steps is -1, expected a number >= 0");
  EXPECT_EQ(
      refusal({.decay = Decay::exponential, .steps = 10}),
      "meander::LearningRate: final is 0, expected a finite number > 0 with exponential decay");
  EXPECT_EQ(refusal({.decay = Decay::cosine, .final = -1, .steps = 10}),
            "meander::LearningRate: final is -1, expected a finite number >= 0");
  EXPECT_EQ(refusal({.decay = Decay::cosine, .warmup_steps = 10, .steps = 10}),
            "meander::LearningRate: steps is 10, expected more than the 10 of the warm-up with "
            "cosine decay");
  EXPECT_EQ(refusal({}, -1), "meander::LearningRate: argument step is -1, expected a number >= 0");
}

}  // namespace
