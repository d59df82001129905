// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <Kokkos_Core.hpp>

#include <meander/flow.hpp>
#include <meander/planar_parameters.hpp>

#include "flow_reference.hpp"
#include "planar_fixture.hpp"
#include "planar_vjp_reference.hpp"

namespace reference {

/// The gradients of one row's log-density, by the row and, added to those in `sum`, by the
/// parameters: those by the latent row, and by log_det, through the map.
inline void add_score(Flow const& flow, std::vector<real> const& x, Gradients& sum) {
  Stack const& stack        = flow.stacks.front();
  bool const backwards      = flow.direction == meander::Direction::generative;
  std::vector<real> const z = backwards ? inverse(stack, x).z : forward(stack, x).y;
  std::vector<real> grad(stack.dim);
  for (int d = 0; d < stack.dim; ++d)
    grad[d] =
        flow.loc.empty() ? -z[d] : (flow.loc[d] - z[d]) * std::exp(-2 * real(flow.log_scale[d]));
  if (backwards)
    add_inverse_vjp(stack, x, grad, 1, sum);
  else
    add_vjp(stack, x, grad, 1, sum);
}

}  // namespace reference

namespace fixture {

template <class C>
meander::Flow<C, space> make_flow(reference::Flow const& flow) {
  auto const prepared = prepare<C>(flow.stacks.front());
  if (flow.loc.empty()) return {space(), meander::StandardNormal{}, prepared, flow.direction};
  return {
      space(),
      meander::DiagonalNormalParameters{vector<double>(flow.loc), vector<double>(flow.log_scale)},
      prepared, flow.direction};
}

/// The gradients by the parameters as a call has left them.
struct ParameterGradients {
  std::vector<double> w, u, b;
  friend bool operator==(ParameterGradients const&, ParameterGradients const&) = default;
};

/// Where a call is to leave them: memory that has held something else.
struct ParameterGradientViews {
  DenseMatrix<double> w;
  Kokkos::View<double**, Kokkos::LayoutLeft, space::memory_space> u;
  Kokkos::View<double*, space::memory_space> b;

  explicit ParameterGradientViews(reference::Stack const& stack)
      : w("test::grad_w", stack.layers, stack.dim),
        u("test::grad_u", stack.layers, stack.dim),
        b("test::grad_b", stack.layers) {
    Kokkos::deep_copy(w, std::numeric_limits<double>::quiet_NaN());
  }

  auto parameters() const { return meander::PlanarParameters{w, u, b}; }
  ParameterGradients values() const {
    return {matrix_values(w), matrix_values(u), vector_values(b)};
  }
};

/// That `exact` holds the differences of loss() in every parameter of the stack.
template <class Loss>
void expect_differences(reference::Stack& stack, reference::Gradients const& exact,
                        Loss const& loss) {
  auto const near = [&](std::vector<double>& at, std::vector<reference::real> const& part) {
    for (std::size_t i = 0; i < at.size(); ++i)
      EXPECT_NEAR(double(part[i]),
                  double(reference::difference(
                      at[i], 1e-4, [&](double x) { at[i] = x; }, loss)),
                  1e-7);
  };
  near(stack.w, exact.w);
  near(stack.u, exact.u);
  near(stack.b, exact.b);
}

/// `noise` is how much of the rounding of the compute type C the gradients may show, relative to
/// the largest terms that those of a layer are summed from.
template <class C>
void expect_near(ParameterGradients const& got, reference::Stack const& stack,
                 reference::Gradients const& exact, double noise) {
  double const unit = noise * std::numeric_limits<C>::epsilon();
  auto const near   = [&](auto const& got_part, std::vector<reference::real> const& exact_part,
                        std::vector<reference::real> const& size, int per_layer, char const* what) {
    ASSERT_EQ(got_part.size(), exact_part.size()) << what;
    for (int l = 0; l < stack.layers; ++l) {
      reference::real largest = 0;
      for (int d = 0; d < per_layer; ++d)
        largest = std::max(largest, size[std::size_t(l) * per_layer + d]);
      for (int d = 0; d < per_layer; ++d) {
        std::size_t const i = std::size_t(l) * per_layer + d;
        // Devices flush what is below the normal numbers, on the way too.
        ASSERT_NEAR(got_part[i], double(exact_part[i]),
                      unit * double(largest) + 64 * double(std::numeric_limits<C>::min()))
            << what << " layer " << l << " coordinate " << d;
      }
    }
  };
  near(got.w, exact.w, exact.size_w, stack.dim, "w");
  near(got.u, exact.u, exact.size_u, stack.dim, "u");
  near(got.b, exact.b, exact.size_b, 1, "b");
}

}  // namespace fixture
