// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "planar_fixture.hpp"

/// The log-determinant where the usual formulas lose it: near-singular layers and tiny log-dets.
namespace {

using meander::Activation;
using meander::Constraint;

/// One layer on R^2 with the given w.u; row a has pre-activation a.
reference::Stack layer(double w_dot_u, meander::PlanarOptions const& options) {
  return {1, 2, options, {1, 0}, {w_dot_u, 0.5}, {0}};
}

/// GPUs flush an h' below the normal range to zero; times |s - 1| < 700 that is as good as zero.
template <class T>
constexpr double flushed =
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, fixture::space::memory_space>::accessible
        ? 0
        : 3000 * double(std::numeric_limits<T>::min());

/// The spacing of T at x; at 10^4 times the smallest normal number where x is less, since h' itself
/// is subnormal there.
template <class T>
double ulp(double x) {
  T const v = std::max(T(std::abs(x)), 10000 * std::numeric_limits<T>::min());
  return double(std::nextafter(v, std::numeric_limits<T>::infinity()) - v);
}

template <class T>
void check(double w_dot_u, std::vector<T> const& pre_activations,
           meander::PlanarOptions const& options, double ulps) {
  reference::Stack const stack = layer(w_dot_u, options);
  std::vector<T> z;
  for (T const a : pre_activations) z.insert(z.end(), {a, T(0.25)});
  auto const result = fixture::forward(fixture::prepare<T>(stack), z);
  for (std::size_t i = 0; i < pre_activations.size(); ++i) {
    double const exact =
        double(reference::forward(stack, std::vector<T>{pre_activations[i], T(0.25)}).log_det);
    ASSERT_TRUE(std::isfinite(result.log_det[i]))
        << "w.u=" << w_dot_u << " a=" << pre_activations[i];
    ASSERT_NEAR(result.log_det[i], exact, ulps * ulp<T>(exact) + flushed<T>)
        << "w.u=" << w_dot_u << " a=" << pre_activations[i] << ": "
        << std::abs(result.log_det[i] - exact) / ulp<T>(exact) << " ulp";
  }
}

template <class T>
std::vector<T> both_signs(std::vector<T> const& magnitudes) {
  std::vector<T> values;
  for (T const a : magnitudes) values.insert(values.end(), {a, -a});
  return values;
}

TEST(PlanarLogDet, FourUlpOfFloatAtZeroAndFarOut) {
  auto const a = both_signs<float>(
      {0, 1e-30f, 8, 9.5f, 12, 16, 20, 30, 40, 43, 44, 47, 50, 60, 100, 1e4f, 1e30f});
  for (Constraint const constraint : {Constraint::softplus, Constraint::log_softplus}) {
    meander::PlanarOptions options;
    options.constraint = constraint;
    for (double x = -80; x <= 80; x += 0.5) check<float>(x, a, options, 4);
  }
}

/// In between, log(det) itself magnifies the rounding of a where it crosses zero or det is small;
/// there the yardstick is the value's size or one.
TEST(PlanarLogDet, NearTheTruthEverywhere) {
  std::vector<float> a;
  for (int i = -400; i <= 400; ++i) a.push_back(float(i) / 32);
  for (double x = -80; x <= 80; x += 2.5) {
    reference::Stack const stack = layer(x, {});
    std::vector<float> z;
    for (float const v : a) z.insert(z.end(), {v, 0.25f});
    auto const result = fixture::forward(fixture::prepare<float>(stack), z);
    for (std::size_t i = 0; i < a.size(); ++i) {
      double const exact =
          double(reference::forward(stack, std::vector<float>{a[i], 0.25f}).log_det);
      ASSERT_NEAR(result.log_det[i], exact, 4e-7 * std::max(1.0, std::abs(exact)))
          << "w.u=" << x << " a=" << a[i];
    }
  }
}

TEST(PlanarLogDet, DoubleKeepsItsDigitsToo) {
  auto const a = both_signs<double>({0, 1e-200, 1e-6, 20, 100, 300, 372, 400, 1e300});
  for (double x = -700; x <= 700; x += 50) check<double>(x, a, {}, 4);
}

/// s - 1 crosses zero at a w.u that no double hits; the constraint must not cancel there.
TEST(PlanarLogDet, WhereTheConstraintCrossesOne) {
  for (auto const& [constraint, root] : {std::pair{Constraint::softplus, 0.541324854612918},
                                         std::pair{Constraint::log_softplus, 1.520593917172769}}) {
    meander::PlanarOptions options;
    options.constraint = constraint;
    for (double const off : {0.0, 1e-15, -1e-12, 1e-8, -1e-3, 0.1, -0.4, 0.6}) {
      reference::Stack const stack = layer(root + off, options);
      double const got =
          fixture::forward(fixture::prepare<double>(stack), std::vector<double>{0, 0}).log_det[0];
      // Long double loses four digits of its own here, at a = 0 where log_det = log(s).
      double const exact = double(reference::forward(stack, std::vector<double>{0, 0}).log_det);
      EXPECT_NEAR(got, exact, 1e-15 * std::abs(exact) + 1e-19) << "w.u = " << root + off;
    }
  }
}

TEST(PlanarLogDet, LeakyReluIsExactOnBothSides) {
  meander::PlanarOptions options;
  options.activation     = Activation::leaky_relu;
  options.negative_slope = 0.2;
  for (double x = -80; x <= 80; x += 0.5)
    check<float>(x, both_signs<float>({0, 1e-30f, 1, 1e5f}), options, 4);
}

/// 120 layers whose determinants multiply far beyond the range of float in either direction.
TEST(PlanarLogDet, ProductsBeyondTheRangeOfTheType) {
  for (double const w_dot_u : {-30.0, 60.0}) {
    reference::Stack stack{120, 2, {}, {}, {}, {}};
    for (int l = 0; l < stack.layers; ++l) {
      stack.w.insert(stack.w.end(), {0, 1});
      stack.u.insert(stack.u.end(), {0.5, w_dot_u});
      stack.b.push_back(0);
    }
    std::vector<float> const z{0.5f, 0.0f};  // a = 0 in every layer
    auto const result  = fixture::forward(fixture::prepare<float>(stack), z);
    double const exact = double(reference::forward(stack, z).log_det);
    EXPECT_NEAR(result.log_det[0], exact, 1e-6 * std::abs(exact));
  }
}

TEST(PlanarLogDet, SumOfTinyTermsKeepsRelativeAccuracy) {
  reference::Stack stack = reference::random_stack(40, 5, {}, 11u);
  for (double& b : stack.b) b = 12;  // every tanh saturates: determinants are 1 + 1e-10
  auto const z      = fixture::random_rows<float>(20, 5, 12u);
  auto const result = fixture::forward(fixture::prepare<float>(stack), z);
  for (int i = 0; i < 20; ++i) {
    double const exact = double(reference::forward(stack, fixture::row(z, 5, i)).log_det);
    // The pre-activations, of size 12, carry float rounding into the exponent.
    EXPECT_NEAR(result.log_det[i], exact, 1e-4 * std::abs(exact));
    EXPECT_LT(std::abs(exact), 1e-2);
  }
}

TEST(PlanarLogDet, SingularLayerWithoutConstraintIsMinusInfinity) {
  meander::PlanarOptions options;
  options.constraint = Constraint::none;
  auto const stack   = fixture::prepare<double>(layer(-1, options));
  EXPECT_EQ(fixture::forward(stack, std::vector<double>{0, 0}).log_det[0],
            -std::numeric_limits<double>::infinity());
  // Beyond it the determinant is negative; its magnitude counts.
  auto const beyond = fixture::prepare<double>(layer(-3, options));
  EXPECT_NEAR(fixture::forward(beyond, std::vector<double>{0, 0}).log_det[0], std::log(2.0), 1e-15);
}

TEST(PlanarLogDet, EpsilonIsAddedToTheMagnitudePerLayer) {
  meander::PlanarOptions options;
  options.log_det_epsilon = 1e-2;
  reference::Stack stack  = layer(-30, options);
  std::vector<double> const z{0, 0};
  EXPECT_NEAR(fixture::forward(fixture::prepare<double>(stack), z).log_det[0],
              double(reference::forward(stack, z).log_det), 1e-15);
}

}  // namespace
