// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "planar_fixture.hpp"
#include "planar_layouts.hpp"

/// forward against the long double reference for many shapes, layouts and types.
namespace {

using fixture::space;
using meander::Activation;
using meander::Constraint;

template <class Case>
class PlanarShapes : public ::testing::Test {
 protected:
  using S = typename Case::storage;
  using C = typename Case::compute;

  /// Compares `checked` rows spread over the batch, first and last among them.
  static void check(reference::Stack const& stack, int rows, int checked) {
    SCOPED_TRACE("D=" + std::to_string(stack.dim) + " L=" + std::to_string(stack.layers) +
                 " B=" + std::to_string(rows) + " " + to_string(stack.options.activation) + " " +
                 to_string(stack.options.constraint));
    space const exec;
    auto const prepared = fixture::prepare<C>(stack);
    auto const host     = fixture::random_rows<S>(rows, stack.dim, 5u + stack.dim);
    auto const z        = Case::z_maker::make(rows, stack.dim);
    auto const y        = Case::y_maker::make(rows, stack.dim);
    Kokkos::View<S*, space::memory_space> const log_det("test::log_det", rows);
    Kokkos::deep_copy(log_det, S(-777));
    fixture::assign(z, host);
    meander::forward(exec, prepared, z, y, log_det);
    exec.fence();
    auto const got_y       = fixture::matrix_values(y);
    auto const got_log_det = fixture::vector_values(log_det);
    ASSERT_EQ(fixture::matrix_values(z), host) << "z was written to";

    checked = std::min(checked, rows);
    for (int k = 0; k < checked; ++k) {
      int const i   = checked == rows ? k : int(std::int64_t(k) * (rows - 1) / (checked - 1));
      auto const zi = fixture::row(host, stack.dim, i);
      reference::Row const exact         = reference::forward(stack, zi);
      fixture::Tolerance const tolerance = fixture::tolerance<C>(stack, zi, exact);
      for (int d = 0; d < stack.dim; ++d)
        ASSERT_NEAR(got_y[std::size_t(i) * stack.dim + d], double(exact.y[d]), tolerance.y[d])
            << "row " << i << " coordinate " << d;
      ASSERT_NEAR(got_log_det[i], double(exact.log_det), tolerance.log_det) << "row " << i;
    }
  }
};

TYPED_TEST_SUITE(PlanarShapes, fixture::Cases);

TYPED_TEST(PlanarShapes, EveryDimension) {
  for (int const dim : {1, 2, 3, 5, 8, 17, 32, 33, 64, 100, 513})
    for (int const layers : {0, 1, 2, 8, 33})
      for (int const rows : {0, 1, 7, 257})
        this->check(reference::random_stack(layers, dim, {}, 3u), rows, 4);
}

TYPED_TEST(PlanarShapes, ManyLayers) {
  for (int const dim : {1, 2, 3, 5, 8, 17, 32, 33, 64, 100, 513})
    this->check(reference::random_stack(200, dim, {}, 4u, 0.4), 65, 3);
}

TYPED_TEST(PlanarShapes, LargeBatch) {
  for (int const dim : {1, 3, 17}) this->check(reference::random_stack(8, dim, {}, 5u), 100003, 40);
}

TYPED_TEST(PlanarShapes, EveryActivationAndConstraint) {
  for (Activation const activation : {Activation::tanh, Activation::leaky_relu})
    for (Constraint const constraint :
         {Constraint::softplus, Constraint::log_softplus, Constraint::none})
      for (double const epsilon : {0.0, 1e-3})
        for (int const dim : {1, 5, 33}) {
          meander::PlanarOptions options;
          options.activation      = activation;
          options.constraint      = constraint;
          options.negative_slope  = 0.3;
          options.log_det_epsilon = epsilon;
          // Without a constraint a determinant near zero magnifies rounding beyond what the noise
          // model draws; small weights keep the rows away from one.
          double const size = constraint == Constraint::none ? 0.3 : 1.0;
          this->check(reference::random_stack(6, dim, options, 6u, size), 67, 67);
        }
}

TYPED_TEST(PlanarShapes, VeryWideAndVeryDeep) {
  this->check(reference::random_stack(3, 4096, {}, 7u), 33, 2);
  this->check(reference::random_stack(4096, 3, {}, 8u, 0.1), 33, 2);
}

}  // namespace
