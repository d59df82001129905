// SPDX-License-Identifier: BSD-3-Clause
// The energies that the tool fits to: formulas, gradients, normalizations.
#include <cmath>
#include <utility>

#include <gtest/gtest.h>

#include <meander/row.hpp>

#include "cli/energies.hpp"

namespace meander::test {

namespace {

using cli::Energy;
using real = long double;

/// -U of the paper's table 1, as it is written there, and the envelope.
real log_density(int number, real z1, real z2) {
  real const pi      = std::acos(real(-1));
  auto const squared = [](real x) { return x * x; };
  real const w1      = std::sin(2 * pi * z1 / 4);
  real const w2      = 3 * std::exp(-squared((z1 - 1) / 0.6L) / 2);
  real const w3      = 3 / (1 + std::exp(-(z1 - 1) / 0.3L));
  real const beyond  = number == 1 ? 0 : std::max<real>(std::abs(z1) - 4, 0);
  real const outside = squared(beyond / 0.25L) / 2;
  auto const gauss   = [&](real x, real width) { return std::exp(-squared(x / width) / 2); };
  switch (number) {
    case 1:
      return -squared((std::hypot(z1, z2) - 2) / 0.4L) / 2 +
             std::log(gauss(z1 - 2, 0.6L) + gauss(z1 + 2, 0.6L));
    case 2: return -squared((z2 - w1) / 0.4L) / 2 - outside;
    case 3: return std::log(gauss(z2 - w1, 0.35L) + gauss(z2 - w1 + w2, 0.35L)) - outside;
    default: return std::log(gauss(z2 - w1, 0.4L) + gauss(z2 - w1 + w3, 0.35L)) - outside;
  }
}

template <class T>
T evaluate(int number, T z1, T z2, T (&gradient)[2]) {
  T const z[2] = {z1, z2};
  return Energy{number}(Row<T const>(z, 2, 1), Row<T>(gradient, 2, 1));
}

TEST(Energies, ValuesAndGradientsAreThoseOfThePaper) {
  for (int number = 1; number <= 4; ++number)
    for (double z1 = -4.9; z1 < 5; z1 += 0.61)
      for (double z2 = -3.7; z2 < 4; z2 += 0.53) {
        double gradient[2];
        double const value = evaluate(number, z1, z2, gradient);
        real const exact   = log_density(number, z1, z2);
        ASSERT_NEAR(value, double(exact), 1e-12 * (1 + std::abs(double(exact))))
            << number << " " << z1 << " " << z2;
        real const h = 1e-5L;
        real const by_1 =
            (log_density(number, z1 + h, z2) - log_density(number, z1 - h, z2)) / (2 * h);
        real const by_2 =
            (log_density(number, z1, z2 + h) - log_density(number, z1, z2 - h)) / (2 * h);
        ASSERT_NEAR(gradient[0], double(by_1), 1e-6 * (1 + std::abs(double(by_1))))
            << number << " " << z1 << " " << z2;
        ASSERT_NEAR(gradient[1], double(by_2), 1e-6 * (1 + std::abs(double(by_2))))
            << number << " " << z1 << " " << z2;
        float single[2];
        ASSERT_NEAR(evaluate(number, float(z1), float(z2), single), value,
                    2e-5 * (1 + std::abs(value)));
        ASSERT_NEAR(single[0], gradient[0], 1e-4 * (1 + std::abs(gradient[0])));
      }
}

TEST(Energies, AreFiniteFarOut) {
  for (int number = 1; number <= 4; ++number)
    for (auto const& [z1, z2] : {std::pair{0.0F, 0.0F}, std::pair{1e4F, -1e4F},
                                 std::pair{-1e4F, 1e4F}, std::pair{0.0F, 1e6F}}) {
      float gradient[2];
      EXPECT_TRUE(std::isfinite(evaluate(number, z1, z2, gradient))) << number << " " << z1;
      EXPECT_TRUE(std::isfinite(gradient[0]) && std::isfinite(gradient[1])) << number << " " << z1;
    }
}

/// The trapezoidal rule, which is exact to rounding for what vanishes at both ends.
TEST(Energies, NormalizationsAreTheIntegrals) {
  for (int number = 1; number <= 4; ++number) {
    // The envelope has a jump in its second derivative at +-4: fall on it.
    double const step = 1.0 / 128, end = 9;
    real sum = 0;
    for (double z1 = -end; z1 <= end; z1 += step)
      for (double z2 = -end; z2 <= end; z2 += 4 * step) {
        double gradient[2];
        sum += std::exp(real(evaluate(number, z1, z2, gradient)));
      }
    EXPECT_NEAR(Energy{number}.log_z(), double(std::log(sum * step * 4 * step)), 1e-5) << number;
  }
  EXPECT_NEAR(Energy{1}.log_z(), 1.8775016, 1e-7);
}

}  // namespace

}  // namespace meander::test
