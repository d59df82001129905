// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include <Kokkos_Core.hpp>

#include <meander/importance.hpp>

#include "message_of.hpp"
#include "planar_fixture.hpp"

/// The estimates against their definitions in long double.
namespace {

using fixture::space;
using real                = long double;
constexpr double infinity = std::numeric_limits<double>::infinity();

struct Exact {
  real effective_sample_size, log_z, log_z_error, largest_fraction;
};

Exact exact_of(std::vector<double> const& log_weights) {
  auto const n       = real(log_weights.size());
  real const largest = *std::max_element(log_weights.begin(), log_weights.end());
  real sum = 0, squares = 0, deviation = 0;
  for (double const x : log_weights) {
    real const w = std::exp(x - largest);
    sum += w;
    squares += w * w;
  }
  for (double const x : log_weights) {
    real const off = std::exp(x - largest) - sum / n;
    deviation += off * off;
  }
  return {sum * sum / squares, largest + std::log(sum / n),
          std::sqrt(deviation / (n - 1) / n) / (sum / n), 1 / sum};
}

template <class T>
meander::ImportanceEstimate estimate(std::vector<double> const& log_weights,
                                     space const& exec = space()) {
  return meander::importance_estimate(exec, fixture::vector<T>(log_weights));
}

template <class T>
class Importance : public ::testing::Test {
 protected:
  /// Float values, so that both types see the same numbers.
  static std::vector<double> normals(int rows, double mean, double spread) {
    std::mt19937 generator(7);
    std::normal_distribution<double> normal(mean, spread);
    std::vector<double> result(rows);
    for (double& x : result) x = double(float(normal(generator)));
    return result;
  }

  static void check(std::vector<double> const& log_weights) {
    auto const got   = estimate<T>(log_weights);
    auto const exact = exact_of(log_weights);
    EXPECT_EQ(got.rows, std::int64_t(log_weights.size()));
    auto const near = [](double value, real truth) {
      EXPECT_NEAR(value, double(truth), 1e-12 * std::max(1e-3, std::abs(double(truth))));
    };
    near(got.effective_sample_size, exact.effective_sample_size);
    near(got.effective_fraction, exact.effective_sample_size / real(log_weights.size()));
    near(got.log_z, exact.log_z);
    near(got.log_z_error, exact.log_z_error);
    near(got.largest_fraction, exact.largest_fraction);
  }
};

using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Importance, Types);

TYPED_TEST(Importance, AgreesWithTheDefinitions) {
  for (int const rows : {2, 3, 255, 4096, 4097, 10000, 100003})
    for (double const spread : {1e-3, 1.0, 5.0}) this->check(this->normals(rows, 0.3, spread));
}

TYPED_TEST(Importance, IsNotBoundByTheRangeOfExp) {
  for (double const mean : {-1e5, -800.0, 800.0, 1e5}) this->check(this->normals(5000, mean, 2));
  // Parts that are nothing beside others.
  auto weights = this->normals(9000, 0, 1);
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = double(float(weights[i] - double(i)));
  this->check(weights);
  std::reverse(weights.begin(), weights.end());
  this->check(weights);
}

TYPED_TEST(Importance, WeightsOfZeroCount) {
  auto weights = this->normals(5000, 0, 1);
  for (std::size_t i = 0; i < weights.size(); i += 3) weights[i] = -infinity;
  this->check(weights);
  std::fill(weights.begin() + 5, weights.end(), -infinity);
  this->check(weights);
}

TYPED_TEST(Importance, EqualWeights) {
  for (int const rows : {2, 5, 10000}) {
    auto const got = estimate<TypeParam>(std::vector<double>(rows, -2.5));
    EXPECT_EQ(got.effective_sample_size, rows);
    EXPECT_EQ(got.effective_fraction, 1);
    EXPECT_EQ(got.log_z, -2.5);
    EXPECT_EQ(got.log_z_error, 0);
    EXPECT_NEAR(got.largest_fraction, 1.0 / rows, 1e-16);
  }
}

TYPED_TEST(Importance, Edges) {
  auto const one = estimate<TypeParam>({3});
  EXPECT_EQ(one.rows, 1);
  EXPECT_EQ(one.effective_sample_size, 1);
  EXPECT_EQ(one.log_z, 3);
  EXPECT_EQ(one.log_z_error, infinity);
  EXPECT_EQ(one.largest_fraction, 1);

  auto const nothing = estimate<TypeParam>(std::vector<double>(10, -infinity));
  EXPECT_EQ(nothing.effective_sample_size, 0);
  EXPECT_EQ(nothing.effective_fraction, 0);
  EXPECT_EQ(nothing.log_z, -infinity);
  EXPECT_EQ(nothing.log_z_error, infinity);
  EXPECT_EQ(nothing.largest_fraction, 0);

  for (double const bad : {std::nan(""), infinity})
    for (int const rows : {1, 10, 9000}) {
      std::vector<double> weights(rows, 0.5);
      weights[std::size_t(rows) / 2] = bad;
      auto const got                 = estimate<TypeParam>(weights);
      EXPECT_EQ(got.rows, rows);
      for (double const x : {got.effective_sample_size, got.effective_fraction, got.log_z,
                             got.log_z_error, got.largest_fraction})
        EXPECT_TRUE(std::isnan(x)) << x;
    }

  EXPECT_EQ(message_of([] { estimate<TypeParam>({}); }),
            "meander::importance_estimate: argument log_weights has no rows, expected at least "
            "one: there is no mean of none");
}

TYPED_TEST(Importance, TakesAnyStride) {
  auto const weights = this->normals(5000, 0, 1);
  Kokkos::View<TypeParam**, Kokkos::LayoutRight, space::memory_space> const many("test::many", 5000,
                                                                                 3);
  auto const column = Kokkos::subview(many, Kokkos::ALL, Kokkos::pair<int, int>(1, 2));
  fixture::assign(column, weights);
  auto const got = meander::importance_estimate(space(), Kokkos::subview(many, Kokkos::ALL, 1));
  EXPECT_EQ(got.log_z, estimate<TypeParam>(weights).log_z);
}

#if defined(KOKKOS_ENABLE_OPENMP)
TYPED_TEST(Importance, NumberOfThreadsDoesNotMatter) {
  if constexpr (std::is_same_v<space, Kokkos::OpenMP>) {
    auto const weights = this->normals(20000, 0, 2);
    auto const one     = estimate<TypeParam>(weights, space(1));
    for (int threads = 2; threads <= space().concurrency(); threads *= 2) {
      auto const many = estimate<TypeParam>(weights, space(threads));
      EXPECT_EQ(many.log_z, one.log_z);
      EXPECT_EQ(many.log_z_error, one.log_z_error);
      EXPECT_EQ(many.effective_sample_size, one.effective_sample_size);
    }
  }
}
#endif

/// The error bar is one: of 400 samples of weights of known mean, about 68 % are within it.
TEST(ImportanceCoverage, OneStandardErrorHoldsTwoThirds) {
  constexpr int samples = 400, rows = 1000;
  constexpr double spread = 0.8;
  std::mt19937 generator(5);
  std::normal_distribution<double> normal(-spread * spread / 2, spread);  // E w = 1
  int within = 0;
  for (int i = 0; i < samples; ++i) {
    std::vector<double> weights(rows);
    for (double& x : weights) x = normal(generator);
    auto const got = estimate<double>(weights);
    within += std::abs(got.log_z) < got.log_z_error ? 1 : 0;
  }
  EXPECT_GT(within, 0.60 * samples);
  EXPECT_LT(within, 0.76 * samples);
}

}  // namespace
