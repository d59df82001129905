// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "planar_fixture.hpp"

/// log_det against the determinant of the map's own numeric Jacobian: nothing here knows the
/// formula.
namespace {

using meander::Activation;
using meander::Constraint;

/// log|det| by elimination with pivoting.
long double log_abs_determinant(std::vector<std::vector<long double>> m) {
  long double sum = 0;
  for (std::size_t k = 0; k < m.size(); ++k) {
    std::size_t pivot = k;
    for (std::size_t i = k; i < m.size(); ++i)
      if (std::abs(m[i][k]) > std::abs(m[pivot][k])) pivot = i;
    std::swap(m[k], m[pivot]);
    sum += std::log(std::abs(m[k][k]));
    for (std::size_t i = k + 1; i < m.size(); ++i)
      for (std::size_t j = m.size(); j-- > k;) m[i][j] -= m[i][k] / m[k][k] * m[k][j];
  }
  return sum;
}

/// `map` takes a batch through a prepared stack.
template <class Map>
void check(reference::Stack const& stack, unsigned seed, Map const& map) {
  constexpr double step = 1e-5;
  int const dim         = stack.dim;
  auto const z          = fixture::random_rows<double>(1, dim, seed);
  // The row itself, then four shifted rows a coordinate (fourth-order central differences).
  std::vector<double> batch = z;
  for (int d = 0; d < dim; ++d)
    for (double const shift : {-2 * step, -step, step, 2 * step}) {
      std::vector<double> moved = z;
      moved[d] += shift;
      batch.insert(batch.end(), moved.begin(), moved.end());
    }
  auto const result = map(fixture::prepare<double>(stack), batch);
  auto const y = [&](int row, int i) { return (long double)result.y[std::size_t(row) * dim + i]; };
  std::vector<std::vector<long double>> jacobian(dim, std::vector<long double>(dim));
  for (int j = 0; j < dim; ++j)
    for (int i = 0; i < dim; ++i) {
      int const r    = 1 + 4 * j;
      jacobian[i][j] = (y(r, i) - 8 * y(r + 1, i) + 8 * y(r + 2, i) - y(r + 3, i)) / (12 * step);
    }
  long double const numeric = log_abs_determinant(jacobian);
  EXPECT_NEAR(result.log_det[0], double(numeric),
              1e-6 * std::max<double>(1, std::abs(double(numeric))))
      << "D=" << dim << " L=" << stack.layers << " " << to_string(stack.options.activation) << " "
      << to_string(stack.options.constraint) << " seed " << seed;
}

auto const forward = [](auto const& stack, auto const& rows) {
  return fixture::forward(stack, rows);
};
auto const inverse = [](auto const& stack, auto const& rows) {
  return fixture::inverse(stack, rows);
};

TEST(PlanarJacobian, DeterminantOfTheMap) {
  for (Activation const activation : {Activation::tanh, Activation::leaky_relu})
    for (Constraint const constraint :
         {Constraint::softplus, Constraint::log_softplus, Constraint::none})
      for (int const dim : {1, 2, 3, 5, 8, 17, 33})
        for (int const layers : {1, 2, 5})
          for (unsigned const seed : {1u, 2u, 3u}) {
            meander::PlanarOptions options;
            options.activation     = activation;
            options.constraint     = constraint;
            options.negative_slope = 0.2;
            check(reference::random_stack(layers, dim, options, seed), seed + 10, forward);
          }
}

TEST(PlanarJacobian, DeterminantOfTheInverse) {
  for (Activation const activation : {Activation::tanh, Activation::leaky_relu})
    for (Constraint const constraint :
         {Constraint::softplus, Constraint::log_softplus, Constraint::none})
      for (int const dim : {1, 2, 3, 8, 17})
        for (int const layers : {1, 2, 5})
          for (unsigned const seed : {1u, 2u, 3u}) {
            meander::PlanarOptions options;
            options.activation     = activation;
            options.constraint     = constraint;
            options.negative_slope = 0.2;
            options.invertible     = true;
            // Small weights: without a constraint w.u must stay above -1, and a nearly singular
            // layer bends its inverse within the step of the differences.
            check(reference::random_stack(layers, dim, options, seed, 0.5), seed + 10, inverse);
          }
}

/// The two sides of leaky_relu have determinants of their own, and only one of them was ever tested
/// in the library where they were wrong.
TEST(PlanarJacobian, BothSidesOfLeakyRelu) {
  meander::PlanarOptions options;
  options.activation     = Activation::leaky_relu;
  options.negative_slope = 0.1;
  for (double const b : {-20.0, 20.0}) {
    reference::Stack stack = reference::random_stack(1, 4, options, 9u);
    stack.b                = {b};
    check(stack, 21, forward);
    check(stack, 22, inverse);
  }
}

}  // namespace
