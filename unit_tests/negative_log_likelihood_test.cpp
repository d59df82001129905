// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <Kokkos_Core.hpp>

#include <meander/flow.hpp>
#include <meander/negative_log_likelihood.hpp>

#include "flow_gradient_fixture.hpp"
#include "message_of.hpp"
#include "planar_fixture.hpp"
#include "planar_layouts.hpp"
#include "tools_recorder.hpp"

/// The loss and its gradients against the mean of the reference's log-densities, and of their
/// gradients by its chain rule; and those against differences of that mean.
namespace {

using fixture::space;
using meander::Direction;
using reference::as_real;
using reference::real;

constexpr Direction directions[] = {Direction::generative, Direction::normalizing};

real mean_loss(reference::Flow const& flow, std::vector<std::vector<real>> const& rows) {
  real sum = 0;
  for (auto const& row : rows) sum -= reference::log_prob(flow, row);
  return sum / real(rows.size());
}

/// The gradients of the mean, by the parameters.
reference::Gradients mean_gradients(reference::Flow const& flow,
                                    std::vector<std::vector<real>> const& rows) {
  reference::Gradients sum(flow.stacks.front());
  for (auto const& row : rows) reference::add_score(flow, row, sum);
  real const by = 1 / real(rows.size());
  for (auto* part : {&sum.w, &sum.u, &sum.b})
    for (real& x : *part) x *= -by;
  for (auto* part : {&sum.size_w, &sum.size_u, &sum.size_b})
    for (real& x : *part) x *= by;
  return sum;
}

template <class T>
std::vector<std::vector<real>> rows_of(std::vector<T> const& x, int dim) {
  std::vector<std::vector<real>> rows;
  rows.reserve(x.size() / dim);
  for (int i = 0; i < int(x.size()) / dim; ++i) rows.push_back(as_real(fixture::row(x, dim, i)));
  return rows;
}

TEST(NegativeLogLikelihoodReference, AgreesWithDifferencesInEveryParameter) {
  for (Direction const direction : directions)
    for (auto const& options : reference::all_options()) {
      auto flow =
          reference::random_flow(direction, {reference::stack_with(3, 2, options, 5)}, true, 6);
      auto& stack     = flow.stacks.front();
      auto const rows = rows_of(fixture::random_rows<double>(3, 2, 7), 2);
      auto const g    = mean_gradients(flow, rows);
      fixture::expect_differences(stack, g, [&] { return mean_loss(flow, rows); });
    }
}

struct Result {
  double loss = 0;
  fixture::ParameterGradients gradients;
  friend bool operator==(Result const&, Result const&) = default;
};

template <class C, class View>
Result run(reference::Flow const& flow, View const& x, space const& exec = space()) {
  auto const& stack     = flow.stacks.front();
  auto const parameters = fixture::parameters<double>(stack);
  auto const prepared   = fixture::make_flow<C>(flow);
  meander::PlanarVjpWorkspace<C, space> const workspace(
      exec, std::get<0>(prepared.layers().front()), std::int64_t(x.extent(0)));
  fixture::ParameterGradientViews const gradients(stack);
  Kokkos::View<double, space::memory_space> const loss("test::loss");
  Kokkos::deep_copy(loss, std::numeric_limits<double>::quiet_NaN());
  meander::negative_log_likelihood(exec, workspace, prepared, parameters, x, loss,
                                   gradients.parameters());
  exec.fence();
  Result result;
  Kokkos::deep_copy(result.loss, loss);
  result.gradients = gradients.values();
  return result;
}

template <class T>
auto view_of(std::vector<T> const& x, int dim) {
  fixture::DenseMatrix<T> view("test::x", int(x.size()) / dim, dim);
  fixture::assign(view, x);
  return view;
}

template <class Types>
class NegativeLogLikelihood : public ::testing::Test {
 protected:
  using Storage = typename Types::first_type;
  using Compute = typename Types::second_type;

  static void check(reference::Flow const& flow, int rows, double noise = 256) {
    int const dim = flow.dim();
    SCOPED_TRACE(std::string(to_string(flow.direction)) + " D=" + std::to_string(dim) +
                 " L=" + std::to_string(flow.stacks.front().layers) + " B=" + std::to_string(rows) +
                 " " + to_string(flow.stacks.front().options.activation) + " " +
                 to_string(flow.stacks.front().options.constraint));
    auto const x      = fixture::random_rows<Storage>(rows, dim, 3u + dim);
    auto const result = run<Compute>(flow, view_of(x, dim));
    auto const exact  = rows_of(x, dim);
    // What rounding does to the log-densities, and to their sum within a tile.
    auto const loss = double(mean_loss(flow, exact));
    double off      = 0;
    for (std::size_t i = 0; i < std::min<std::size_t>(exact.size(), 8); ++i) {
      real const log_prob = reference::log_prob(flow, exact[i]);
      off                 = std::max(off, reference::tolerance_of([&](unsigned seed) {
                       return reference::log_prob(flow, exact[i],
                                                                  std::numeric_limits<Compute>::epsilon(), seed) -
                              log_prob;
                     }));
    }
    EXPECT_NEAR(result.loss, loss,
                off + 16 * std::numeric_limits<Compute>::epsilon() * (1 + std::abs(loss)));
    fixture::expect_near<Compute>(result.gradients, flow.stacks.front(),
                                  mean_gradients(flow, exact), noise);
  }

  static reference::Flow flow(Direction direction, int layers, int dim, bool diagonal = true,
                              double size = 1) {
    return reference::random_flow(
        direction, {reference::random_stack(layers, dim, {}, 2u + unsigned(layers), size)},
        diagonal, 9u + unsigned(dim));
  }
};

using Pairs =
    ::testing::Types<std::pair<float, float>, std::pair<double, double>, std::pair<float, double>>;
TYPED_TEST_SUITE(NegativeLogLikelihood, Pairs);

TYPED_TEST(NegativeLogLikelihood, EveryDimension) {
  for (Direction const direction : directions)
    for (int const dim : {1, 3, 33}) this->check(this->flow(direction, 5, dim), 67);
}

TYPED_TEST(NegativeLogLikelihood, EveryNumberOfLayers) {
  for (Direction const direction : directions)
    for (int const layers : {0, 1, 3, 8, 13, 70})
      this->check(this->flow(direction, layers, 4, true, 0.5), 40, 1024);
}

TYPED_TEST(NegativeLogLikelihood, EveryBatch) {
  for (Direction const direction : directions)
    for (int const rows : {1, 63, 257, 1000})
      this->check(this->flow(direction, 6, 3, rows != 63), rows);
}

TYPED_TEST(NegativeLogLikelihood, ManyChunks) {
  this->check(this->flow(Direction::normalizing, 5, 2), 100003);
}

TYPED_TEST(NegativeLogLikelihood, EveryActivationAndConstraint) {
  for (Direction const direction : directions)
    for (auto const& options : reference::all_options())
      this->check(
          reference::random_flow(direction, {reference::stack_with(6, 5, options, 11)}, false, 0),
          67, 512);
}

/// Determinants of e^-20 and e^-40: their logarithms count.
TYPED_TEST(NegativeLogLikelihood, NearlySingularLayers) {
  for (double const w_dot_u : {-40.0, -20.0, 40.0})
    this->check(reference::random_flow(Direction::normalizing,
                                       {reference::one_layer(5, {}, 1, w_dot_u)}, false, 0),
                33, 1024);
}

/// The product of any two of the determinants underflows.
TYPED_TEST(NegativeLogLikelihood, DeterminantsWhoseProductUnderflows) {
  using T = typename TestFixture::Storage;
  using C = typename TestFixture::Compute;
  meander::PlanarOptions options;
  options.activation   = meander::Activation::leaky_relu;
  auto stack           = reference::random_stack(61, 3, options, 4);
  double const w_dot_u = std::is_same_v<C, float> ? -60 : -500;
  std::fill(stack.w.begin(), stack.w.end(), 0.0);
  std::fill(stack.u.begin(), stack.u.end(), 0.0);
  for (int l = 0; l < stack.layers; ++l) {
    std::size_t const at = std::size_t(l) * 3 + std::size_t(l % 3);
    stack.w[at]          = 0.125;
    stack.u[at]          = 8 * w_dot_u;
    // The layer before leaves w.z at minus its b: every a is positive, every determinant s.
    stack.b[l] = 1 + l / 16.0;
  }
  auto const flow  = reference::random_flow(Direction::normalizing, {stack}, false, 0);
  auto const x     = fixture::random_rows<T>(20, 3, 1);
  auto const exact = double(mean_loss(flow, rows_of(x, 3)));
  EXPECT_GT(exact, -61 * w_dot_u);
  EXPECT_NEAR(run<C>(flow, view_of(x, 3)).loss, exact,
              64 * std::numeric_limits<C>::epsilon() * exact);
}

/// What log_prob gives row by row.
TYPED_TEST(NegativeLogLikelihood, IsTheMeanOfLogProb) {
  using T = typename TestFixture::Storage;
  using C = typename TestFixture::Compute;
  for (Direction const direction : directions) {
    auto const flow     = this->flow(direction, 9, 7);
    auto const x        = view_of(fixture::random_rows<T>(500, 7, 3), 7);
    auto const prepared = fixture::make_flow<C>(flow);
    Kokkos::View<T*, space::memory_space> const log_prob("test::log_prob", 500);
    space const exec;
    meander::log_prob(exec, prepared, x, log_prob);
    exec.fence();
    double sum = 0;
    for (T const value : fixture::vector_values(log_prob)) sum -= double(value);
    EXPECT_NEAR(run<C>(flow, x).loss, sum / 500,
                8 * std::numeric_limits<T>::epsilon() * (1 + std::abs(sum / 500)));
  }
}

template <class Case>
class NegativeLogLikelihoodLayouts : public ::testing::Test {};
TYPED_TEST_SUITE(NegativeLogLikelihoodLayouts, fixture::Cases);

TYPED_TEST(NegativeLogLikelihoodLayouts, GiveTheSameBits) {
  using T         = typename TypeParam::storage;
  using C         = typename TypeParam::compute;
  auto const flow = reference::random_flow(Direction::normalizing,
                                           {reference::random_stack(6, 19, {}, 8)}, false, 0);
  auto const x    = fixture::random_rows<T>(70, 19, 4);
  auto const view = TypeParam::z_maker::make(70, 19);
  fixture::assign(view, x);
  EXPECT_EQ(run<C>(flow, view), run<C>(flow, view_of(x, 19)));
}

#if defined(KOKKOS_ENABLE_OPENMP)
TYPED_TEST(NegativeLogLikelihood, NumberOfThreadsDoesNotMatter) {
  if constexpr (std::is_same_v<space, Kokkos::OpenMP>) {
    using T = typename TestFixture::Storage;
    using C = typename TestFixture::Compute;
    for (Direction const direction : directions) {
      auto const flow = this->flow(direction, 6, 19);
      auto const x    = view_of(fixture::random_rows<T>(5000, 19, 4), 19);
      auto const one  = run<C>(flow, x, space(1));
      for (int threads = 2; threads <= space().concurrency(); threads *= 2)
        EXPECT_EQ(run<C>(flow, x, space(threads)), one);
    }
  }
}
#endif

TYPED_TEST(NegativeLogLikelihood, RowsThatAreNotFiniteMakeItNaN) {
  using T = typename TestFixture::Storage;
  using C = typename TestFixture::Compute;
  for (Direction const direction : directions)
    for (int const layers : {0, 6})
      for (T const bad :
           {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity()}) {
        auto x            = fixture::random_rows<T>(30, 3, 1);
        x[7]              = bad;
        double const loss = run<C>(this->flow(direction, layers, 3), view_of(x, 3)).loss;
        EXPECT_TRUE(std::isnan(loss) || (layers == 0 && std::isinf(loss))) << loss;
      }
}

TYPED_TEST(NegativeLogLikelihood, OnlyLaunchesKernelsOnTheInstance) {
  using tools::Kind;
  using T = typename TestFixture::Storage;
  using C = typename TestFixture::Compute;
  for (Direction const direction : directions)
    for (auto const& [layers, dim] : {std::pair{0, 3}, {1, 1}, {8, 32}, {70, 5}})
      for (int const rows : {1, 5000}) {
        auto const flow       = this->flow(direction, layers, dim);
        auto const prepared   = fixture::make_flow<C>(flow);
        auto const parameters = fixture::parameters<T>(flow.stacks.front());
        auto const gradients  = fixture::parameters<T>(flow.stacks.front());
        space const exec;
        meander::PlanarVjpWorkspace<C, space> const workspace(
            exec, std::get<0>(prepared.layers().front()), rows);
        fixture::DenseMatrix<T> const x("test::x", rows, dim);
        Kokkos::View<double, space::memory_space> const loss("test::loss");
        Kokkos::fence();
        tools::Recorder const recorder;
        meander::negative_log_likelihood(exec, workspace, prepared, parameters, x, loss, gradients);
        EXPECT_FALSE(recorder.events().empty());
        for (auto const& event : recorder.events()) {
          EXPECT_TRUE(event.kind == Kind::kernel || event.kind == Kind::region) << event;
          EXPECT_TRUE(std::string_view(event.label).starts_with("meander::")) << event;
        }
      }
}

TEST(NegativeLogLikelihoodErrors, NameTheArgumentAndBothExtents) {
  auto const stack = reference::random_stack(2, 3, {}, 3);
  reference::Flow const generative{Direction::generative, {stack}, {}, {}};
  auto const flow       = fixture::make_flow<double>(generative);
  auto const parameters = fixture::parameters<double>(stack);
  auto const gradients  = fixture::parameters<double>(stack);
  space const exec;
  auto const one = fixture::prepare<double>(stack);
  meander::PlanarVjpWorkspace<double, space> const workspace(exec, one, 5);
  using Matrix = fixture::DenseMatrix<double>;
  Matrix const x("test::x", 5, 3);
  Kokkos::View<double, space::memory_space> const loss("test::loss");
  auto const run = [&](auto const&... arguments) {
    return message_of([&] { meander::negative_log_likelihood(exec, workspace, arguments...); });
  };
  std::string const name = "meander::negative_log_likelihood: ";
  EXPECT_EQ(run(flow, parameters, x, loss, gradients), "nothing was thrown");
  EXPECT_EQ(run(flow, parameters, Matrix("test::x", 0, 3), loss, gradients),
            name + "argument x has no rows, expected at least one: the loss is a mean over rows");
  EXPECT_EQ(run(flow, parameters, Matrix("test::x", 5, 2), loss, gradients),
            name + "extent 1 of argument x is 2, expected 3 (the dimension of the flow)");
  EXPECT_EQ(
      run(flow, parameters, Matrix("test::x", 6, 3), loss, gradients),
      name + "extent 0 of argument x is 6, expected at most 5 (the rows the workspace is for)");
  auto const others = fixture::parameters<double>(reference::random_stack(1, 3, {}, 3));
  EXPECT_EQ(run(flow, others, x, loss, gradients),
            name + "extent 0 of argument w is 1, expected 2 (the number of layers)");
  EXPECT_EQ(
      run(flow, parameters, x, loss, others),
      name + "extent 0 of argument grad_parameters.w is 1, expected 2 (the number of layers)");
  EXPECT_EQ(run(flow, parameters, x, loss, parameters),
            name +
                "argument grad_parameters.w shares memory with argument w; expected no element "
                "in common");
  EXPECT_EQ(run(flow, parameters, x, Kokkos::subview(x, 1, 1), gradients),
            name + "argument loss shares memory with argument x; expected no element in common");
  EXPECT_EQ(run(flow, parameters, x, Kokkos::subview(gradients.b, 1), gradients),
            name +
                "argument grad_parameters.b shares memory with argument loss; expected no "
                "element in common");
  meander::Flow<double, space> const two(exec, meander::StandardNormal{}, {one, one},
                                         Direction::generative);
  EXPECT_EQ(run(two, parameters, x, loss, gradients),
            name +
                "the number of stacks of argument flow is 2, expected 1 (all that has gradients "
                "so far)");
  auto unconstrained               = reference::random_stack(2, 3, {}, 3, 0.1);
  unconstrained.options.constraint = meander::Constraint::none;
  auto const no_inverse =
      fixture::make_flow<double>({Direction::generative, {unconstrained}, {}, {}});
  EXPECT_NE(run(no_inverse, parameters, x, loss, gradients)
                .find(name + "the stack has the constraint none"),
            std::string::npos);
}

}  // namespace
