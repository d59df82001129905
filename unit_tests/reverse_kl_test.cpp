// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <Kokkos_Core.hpp>

#include <meander/flow.hpp>
#include <meander/reverse_kl.hpp>

#include "flow_gradient_fixture.hpp"
#include "message_of.hpp"
#include "planar_fixture.hpp"
#include "tools_recorder.hpp"

/// The loss and both gradients against the mean over the same latent rows in long double and the
/// reference's chain rule; and those against differences of that mean.
namespace {

using fixture::space;
using meander::Direction;
using meander::ReverseKlOptions;
using reference::as_real;
using reference::real;

constexpr Direction directions[] = {Direction::generative, Direction::normalizing};

/// log p = -sum_d sqrt(1 + (x_d - 0.3)^2) - 0.2 sum_d (x_d - x_{d-1})^2: curved, correlated, and
/// not normalized. In the type of the row.
struct Target {
  template <class T>
  KOKKOS_FUNCTION T operator()(meander::Row<T const> row, meander::Row<T> grad_row) const {
    T sum = 0;
    for (int d = 0; d < row.size(); ++d) {
      T const off  = row(d) - T(0.3);
      T const root = Kokkos::sqrt(1 + off * off);
      sum -= root;
      grad_row(d) = -off / root;
    }
    for (int d = 1; d < row.size(); ++d) {
      T const step = row[d] - row[d - 1];
      sum -= T(0.2) * step * step;
      grad_row[d] -= T(0.4) * step;
      grad_row[d - 1] += T(0.4) * step;
    }
    return sum;
  }
};

using Rows = std::vector<std::vector<real>>;

real log_target(std::vector<real> const& x, std::vector<real>& grad) {
  real sum = 0;
  for (std::size_t d = 0; d < x.size(); ++d) {
    real const root    = std::hypot(1.0L, x[d] - 0.3L);
    real const to_last = d > 0 ? x[d] - x[d - 1] : 0;
    real const to_next = d + 1 < x.size() ? x[d] - x[d + 1] : 0;
    sum -= root + 0.2L * to_last * to_last;
    grad[d] = -(x[d] - 0.3L) / root - 0.4L * (to_last + to_next);
  }
  return sum;
}

real log_target(std::vector<real> const& x) {
  std::vector<real> grad(x.size());
  return log_target(x, grad);
}

/// log q of the row that a latent row is mapped to.
real log_q(reference::Flow const& flow, std::vector<real> const& z, reference::Row const& x) {
  return reference::log_base(flow, z) - x.log_det;
}

real mean_loss(reference::Flow const& flow, Rows const& latent, double beta) {
  real sum = 0;
  for (auto const& z : latent) {
    auto const x = reference::map(flow, true, z);
    sum += log_q(flow, z, x) - beta * log_target(x.y);
  }
  return sum / real(latent.size());
}

/// The same with the parameters of log q held, while the rows move: x is drawn from `flow`.
real mean_loss_of_path(reference::Flow const& held, reference::Flow const& flow, Rows const& latent,
                       double beta) {
  real sum = 0;
  for (auto const& z : latent) {
    auto const x = reference::map(flow, true, z).y;
    sum += reference::log_prob(held, x) - beta * log_target(x);
  }
  return sum / real(latent.size());
}

/// The gradients of the mean, by the parameters.
reference::Gradients mean_gradients(reference::Flow const& flow, Rows const& latent,
                                    ReverseKlOptions const& options) {
  auto const& stack = flow.stacks.front();
  reference::Gradients sum(stack);
  for (auto const& z : latent) {
    auto const x = reference::map(flow, true, z).y;
    std::vector<real> grad(x.size());
    log_target(x, grad);
    for (real& g : grad) g *= -options.beta;
    if (options.path_gradient) {
      reference::Gradients score(stack);
      reference::add_score(flow, x, score);
      for (std::size_t d = 0; d < grad.size(); ++d) grad[d] += score.z[d];
    }
    real const grad_log_det = options.path_gradient ? 0 : -1;
    if (flow.direction == Direction::generative)
      reference::add_vjp(stack, z, grad, grad_log_det, sum);
    else
      reference::add_inverse_vjp(stack, z, grad, grad_log_det, sum);
  }
  real const by = 1 / real(latent.size());
  for (auto* part : {&sum.w, &sum.u, &sum.b, &sum.size_w, &sum.size_u, &sum.size_b})
    for (real& value : *part) value *= by;
  return sum;
}

template <class T>
Rows rows_of(std::vector<T> const& x, int dim) {
  Rows rows;
  for (int i = 0; i < int(x.size()) / dim; ++i) rows.push_back(as_real(fixture::row(x, dim, i)));
  return rows;
}

TEST(ReverseKlReference, AgreesWithDifferencesInEveryParameter) {
  for (Direction const direction : directions)
    for (auto const& options : reference::all_options())
      for (bool const path : {false, true}) {
        auto flow =
            reference::random_flow(direction, {reference::stack_with(3, 2, options, 5)}, true, 6);
        // log q by the path passes the stack the other way: an epsilon would show.
        if (path) flow.stacks.front().options.log_det_epsilon = 0;
        auto const held   = flow;
        auto& stack       = flow.stacks.front();
        auto const latent = rows_of(fixture::random_rows<double>(3, 2, 7), 2);
        auto const g      = mean_gradients(flow, latent, {path, 0.7});
        fixture::expect_differences(stack, g, [&] {
          return path ? mean_loss_of_path(held, flow, latent, 0.7) : mean_loss(flow, latent, 0.7);
        });
      }
}

struct Result {
  double loss = 0;
  fixture::ParameterGradients gradients;
  std::vector<double> log_weights;
  friend bool operator==(Result const&, Result const&) = default;
};

constexpr std::uint64_t seed = 20261129;

template <class C, class AnyTarget>
Result run(reference::Flow const& flow, AnyTarget const& target, std::uint64_t first_row, int batch,
           ReverseKlOptions const& options, space const& exec = space()) {
  auto const& stack     = flow.stacks.front();
  auto const parameters = fixture::parameters<double>(stack);
  auto const prepared   = fixture::make_flow<C>(flow);
  // Larger than it need be.
  meander::ReverseKlWorkspace<C, space> const workspace(exec, prepared, batch + 3);
  fixture::ParameterGradientViews const gradients(stack);
  Kokkos::View<double, space::memory_space> const loss("test::loss");
  Kokkos::deep_copy(loss, std::numeric_limits<double>::quiet_NaN());
  meander::reverse_kl(exec, workspace, prepared, parameters, target, seed, first_row, batch,
                      options, loss, gradients.parameters());
  exec.fence();
  Result result;
  Kokkos::deep_copy(result.loss, loss);
  result.gradients   = gradients.values();
  result.log_weights = fixture::vector_values(
      Kokkos::subview(workspace.log_weights(), Kokkos::pair<int, int>(0, batch)));
  return result;
}

/// The latent rows that a sample of this compute type has.
template <class C>
Rows latent_rows(reference::Flow const& flow, std::uint64_t first_row, int batch) {
  int const dim = flow.dim();
  fixture::DenseMatrix<C> const x("test::x", batch, dim), z("test::z", batch, dim);
  Kokkos::View<C*, space::memory_space> const log_prob("test::log_prob", batch);
  space const exec;
  meander::sample(exec, fixture::make_flow<C>(flow), seed, first_row, x, log_prob, z);
  exec.fence();
  return rows_of(fixture::matrix_values(z), dim);
}

template <class C>
class ReverseKl : public ::testing::Test {
 protected:
  static void check(reference::Flow const& flow, int batch, ReverseKlOptions const& options,
                    double noise = 512) {
    auto const& stack = flow.stacks.front();
    SCOPED_TRACE(std::string(to_string(flow.direction)) + " D=" + std::to_string(stack.dim) +
                 " L=" + std::to_string(stack.layers) + " B=" + std::to_string(batch) + " " +
                 to_string(stack.options.activation) + " " + to_string(stack.options.constraint) +
                 (options.path_gradient ? " path" : "") + " beta=" + std::to_string(options.beta));
    std::uint64_t const first_row = 1000;
    auto const got                = run<C>(flow, Target{}, first_row, batch, options);
    auto const latent             = latent_rows<C>(flow, first_row, batch);
    constexpr double epsilon      = std::numeric_limits<C>::epsilon();
    for (std::size_t i = 0; i < latent.size(); i += 1 + latent.size() / 64) {
      auto const x       = reference::map(flow, true, latent[i]);
      real const exact   = log_target(x.y) - log_q(flow, latent[i], x);
      double const noisy = reference::tolerance_of([&](unsigned of) {
        auto const off = reference::map(flow, true, latent[i], epsilon, of);
        return log_target(off.y) - log_q(flow, latent[i], off) - exact;
      });
      ASSERT_NEAR(got.log_weights[i], double(exact),
                  4 * noisy + 16 * epsilon * (stack.dim + std::abs(double(exact))));
    }
    auto const loss = double(mean_loss(flow, latent, options.beta));
    EXPECT_NEAR(got.loss, loss, noise * epsilon * (1 + std::abs(loss)));
    fixture::expect_near<C>(got.gradients, stack, mean_gradients(flow, latent, options), noise);
  }

  /// `size` is kept small where rows would else run away: their target is what is tested.
  static reference::Flow flow(Direction direction, int layers, int dim, double size = 0.7) {
    return reference::random_flow(
        direction, {reference::random_stack(layers, dim, {}, 2u + unsigned(layers), size)}, true,
        9u + unsigned(dim));
  }
};

using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ReverseKl, Types);

TYPED_TEST(ReverseKl, EveryDimension) {
  for (Direction const direction : directions)
    for (int const dim : {1, 3, 33})
      for (bool const path : {false, true})
        this->check(this->flow(direction, 5, dim), 67, {path, 1});
}

TYPED_TEST(ReverseKl, EveryNumberOfLayers) {
  for (Direction const direction : directions)
    for (int const layers : {0, 1, 8, 70})
      for (bool const path : {false, true})
        this->check(this->flow(direction, layers, 4, 0.3), 40, {path, 1}, 4096);
}

TYPED_TEST(ReverseKl, EveryBatch) {
  for (Direction const direction : directions)
    for (int const batch : {1, 257, 4100})
      for (bool const path : {false, true})
        this->check(this->flow(direction, 3, 3), batch, {path, 1});
}

TYPED_TEST(ReverseKl, EveryActivationAndConstraint) {
  for (Direction const direction : directions)
    for (auto const& options : reference::all_options())
      for (bool const path : {false, true})
        this->check(
            reference::random_flow(direction, {reference::stack_with(4, 5, options, 11)}, false, 0),
            40, {path, 1}, 2048);
}

TYPED_TEST(ReverseKl, AnyBeta) {
  for (Direction const direction : directions)
    for (double const beta : {0.0, 0.25, 2.0})
      for (bool const path : {false, true})
        this->check(this->flow(direction, 4, 3), 50, {path, beta});
}

/// Two halves of a batch are the batch: rows are numbered.
TYPED_TEST(ReverseKl, RowsHaveNumbers) {
  auto const flow = this->flow(Direction::generative, 4, 3);
  auto const all  = run<TypeParam>(flow, Target{}, 7, 100, {});
  auto const one  = run<TypeParam>(flow, Target{}, 7, 50, {});
  auto const two  = run<TypeParam>(flow, Target{}, 57, 50, {});
  EXPECT_NEAR(all.loss, (one.loss + two.loss) / 2, 1e-14 * std::abs(all.loss));
  for (std::size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(all.log_weights[i], one.log_weights[i]);
    EXPECT_EQ(all.log_weights[50 + i], two.log_weights[i]);
  }
}

/// The two gradients differ by a part of expectation zero, the path's by way of a smaller variance.
TEST(ReverseKlPath, HasTheSameExpectation) {
  constexpr int batches = 64, batch = 500;
  for (Direction const direction : directions) {
    auto const flow =
        reference::random_flow(direction, {reference::random_stack(2, 2, {}, 4, 0.7)}, true, 5);
    std::size_t const count = 4 + 4 + 2;
    std::vector<double> mean(count), squares(count);
    for (int i = 0; i < batches; ++i) {
      auto const whole = run<double>(flow, Target{}, std::uint64_t(i) * batch, batch, {false, 1});
      auto const path  = run<double>(flow, Target{}, std::uint64_t(i) * batch, batch, {true, 1});
      std::size_t k    = 0;
      auto const add   = [&](std::vector<double> const& a, std::vector<double> const& b) {
        for (std::size_t j = 0; j < a.size(); ++j, ++k) {
          mean[k] += (a[j] - b[j]) / batches;
          squares[k] += (a[j] - b[j]) * (a[j] - b[j]) / batches;
        }
      };
      add(whole.gradients.w, path.gradients.w);
      add(whole.gradients.u, path.gradients.u);
      add(whole.gradients.b, path.gradients.b);
    }
    for (std::size_t k = 0; k < count; ++k) {
      EXPECT_GT(squares[k], 1e-8) << "the two are the same";
      EXPECT_LT(std::abs(mean[k]), 5 * std::sqrt(squares[k] / batches)) << k;
    }
  }
}

/// The density of a normalizing flow of one tanh layer on R^2, written down: p where q = p.
struct OneLayer {
  double w[2], u_hat[2], b, m;  ///< m = w.u_hat

  KOKKOS_FUNCTION double operator()(meander::Row<double const> row,
                                    meander::Row<double> grad_row) const {
    double const h     = Kokkos::tanh(w[0] * row(0) + w[1] * row(1) + b);
    double const slope = 1 - h * h, det = 1 + m * slope;
    double const z[]   = {row(0) + u_hat[0] * h, row(1) + u_hat[1] * h};
    double const along = z[0] * u_hat[0] + z[1] * u_hat[1];
    double const by_a  = -along * slope - 2 * h * slope * m / det;
    for (int d = 0; d < 2; ++d) grad_row(d) = -z[d] + by_a * w[d];
    return Kokkos::log(det) - (z[0] * z[0] + z[1] * z[1]) / 2;
  }
};

/// -|x|^2 / 2, what a layer with u = 0 and no constraint makes of the base.
struct Normal {
  KOKKOS_FUNCTION double operator()(meander::Row<double const> row,
                                    meander::Row<double> grad_row) const {
    double sum = 0;
    for (int d = 0; d < row.size(); ++d) {
      sum -= row(d) * row(d) / 2;
      grad_row(d) = -row(d);
    }
    return sum;
  }
};

double largest_of(fixture::ParameterGradients const& g) {
  double largest = 0;
  for (auto const* part : {&g.w, &g.u, &g.b})
    for (double const x : *part) largest = std::max(largest, std::abs(x));
  return largest;
}

/// q = p: every single row has a path gradient of zero, while the whole gradient is noise.
template <class AnyTarget>
void expect_no_variance(reference::Flow const& flow, AnyTarget const& target) {
  for (std::uint64_t row = 0; row < 20; ++row) {
    auto const path = run<double>(flow, target, row, 1, {true, 1});
    EXPECT_LT(largest_of(path.gradients), 1e-12);
    EXPECT_GT(largest_of(run<double>(flow, target, row, 1, {false, 1}).gradients), 1e-3);
    // log p has no constant here: the weights are the normalization.
    EXPECT_NEAR(path.log_weights.front(), 2 * 0.91893853320467274178, 1e-12);
  }
}

TEST(ReverseKlPath, VanishesRowByRowWhereTheTargetIsTheFlow) {
  auto stack   = reference::random_stack(1, 2, {}, 3);
  real w_dot_u = 0, w_dot_w = 0;
  for (int d = 0; d < 2; ++d) {
    w_dot_u += real(stack.w[d]) * stack.u[d];
    w_dot_w += real(stack.w[d]) * stack.w[d];
  }
  real const m = reference::constrained(stack.options.constraint, w_dot_u);
  OneLayer target{{stack.w[0], stack.w[1]}, {}, stack.b[0], double(m)};
  for (int d = 0; d < 2; ++d)
    target.u_hat[d] = double(stack.u[d] + (m - w_dot_u) / w_dot_w * stack.w[d]);
  expect_no_variance({Direction::normalizing, {stack}, {}, {}}, target);

  meander::PlanarOptions none;
  none.constraint = meander::Constraint::none;
  none.invertible = true;
  auto identity   = reference::random_stack(3, 2, none, 3);
  std::fill(identity.u.begin(), identity.u.end(), 0.0);
  for (Direction const direction : directions)
    expect_no_variance({direction, {identity}, {}, {}}, Normal{});
}

#if defined(KOKKOS_ENABLE_OPENMP)
TYPED_TEST(ReverseKl, NumberOfThreadsDoesNotMatter) {
  if constexpr (std::is_same_v<space, Kokkos::OpenMP>)
    for (Direction const direction : directions)
      for (bool const path : {false, true}) {
        auto const flow = this->flow(direction, 6, 19);
        auto const one  = run<TypeParam>(flow, Target{}, 0, 9000, {path, 1}, space(1));
        for (int threads = 2; threads <= space().concurrency(); threads *= 2)
          EXPECT_EQ(run<TypeParam>(flow, Target{}, 0, 9000, {path, 1}, space(threads)), one);
      }
}
#endif

TYPED_TEST(ReverseKl, OnlyLaunchesKernelsOnTheInstance) {
  using tools::Kind;
  for (Direction const direction : directions)
    for (auto const& [layers, dim] : {std::pair{0, 3}, {8, 32}, {70, 5}})
      for (int const batch : {1, 5000})
        for (bool const path : {false, true}) {
          auto const flow       = this->flow(direction, layers, dim, 0.3);
          auto const prepared   = fixture::make_flow<TypeParam>(flow);
          auto const parameters = fixture::parameters<TypeParam>(flow.stacks.front());
          auto const gradients  = fixture::parameters<TypeParam>(flow.stacks.front());
          space const exec;
          meander::ReverseKlWorkspace<TypeParam, space> const workspace(exec, prepared, batch);
          Kokkos::View<double, space::memory_space> const loss("test::loss");
          Kokkos::fence();
          tools::Recorder const recorder;
          meander::reverse_kl(exec, workspace, prepared, parameters, Target{}, 1, 0, batch,
                              {path, 1}, loss, gradients);
          EXPECT_FALSE(recorder.events().empty());
          for (auto const& event : recorder.events()) {
            EXPECT_TRUE(event.kind == Kind::kernel || event.kind == Kind::region) << event;
            EXPECT_TRUE(std::string_view(event.label).starts_with("meander::")) << event;
          }
        }
}

TEST(ReverseKlErrors, NameTheArgumentAndWhatWasExpected) {
  auto const stack      = reference::random_stack(2, 3, {}, 3);
  auto const flow       = fixture::make_flow<double>({Direction::generative, {stack}, {}, {}});
  auto const parameters = fixture::parameters<double>(stack);
  auto const gradients  = fixture::parameters<double>(stack);
  space const exec;
  using Workspace = meander::ReverseKlWorkspace<double, space>;
  Workspace const workspace(exec, flow, 5);
  Kokkos::View<double, space::memory_space> const loss("test::loss");
  auto const run = [&](auto const& f, auto const& of, std::uint64_t first, int batch,
                       ReverseKlOptions const& options, auto const& into, auto const& to) {
    return message_of([&] {
      meander::reverse_kl(exec, workspace, f, of, Target{}, 1, first, batch, options, into, to);
    });
  };
  std::string const name = "meander::reverse_kl: ";
  EXPECT_EQ(run(flow, parameters, 0, 5, {}, loss, gradients), "nothing was thrown");
  EXPECT_EQ(run(flow, parameters, 0, 0, {}, loss, gradients),
            name + "argument batch is 0, expected 1 to 5 (the rows the workspace is for)");
  EXPECT_EQ(run(flow, parameters, 0, 6, {}, loss, gradients),
            name + "argument batch is 6, expected 1 to 5 (the rows the workspace is for)");
  EXPECT_EQ(run(flow, parameters, ~std::uint64_t{0}, 2, {}, loss, gradients),
            name +
                "argument first_row is 18446744073709551615, expected no more than 2^64 - 2 "
                "(for 2 rows)");
  EXPECT_EQ(run(flow, parameters, 0, 5, {false, std::nan("")}, loss, gradients),
            name + "options.beta is nan, expected a finite number");
  EXPECT_EQ(run(flow, parameters, 0, 5, {}, loss, parameters),
            name +
                "argument grad_parameters.w shares memory with argument w; expected no element "
                "in common");
  EXPECT_EQ(run(flow, parameters, 0, 5, {}, Kokkos::subview(parameters.b, 1), gradients),
            name + "argument loss shares memory with argument b; expected no element in common");
  auto const others = fixture::parameters<double>(reference::random_stack(1, 3, {}, 3));
  EXPECT_EQ(
      run(flow, parameters, 0, 5, {}, loss, others),
      name + "extent 0 of argument grad_parameters.w is 1, expected 2 (the number of layers)");
  EXPECT_EQ(run(fixture::make_flow<double>(
                    {Direction::generative, {reference::random_stack(2, 4, {}, 3)}, {}, {}}),
                parameters, 0, 5, {}, loss, gradients),
            name +
                "the dimension of argument workspace is 3, expected 4 (the dimension of the "
                "stack)");
  EXPECT_EQ(message_of([&] { Workspace(exec, flow, -1); }),
            "meander::PlanarVjpWorkspace: argument max_batch is -1, expected a number >= 0");
  // Generative flows draw by what they are, and need no inverse.
  auto unconstrained               = reference::random_stack(2, 3, {}, 3, 0.1);
  unconstrained.options.constraint = meander::Constraint::none;
  for (bool const path : {false, true}) {
    EXPECT_EQ(run(fixture::make_flow<double>({Direction::generative, {unconstrained}, {}, {}}),
                  parameters, 0, 5, {path, 1}, loss, gradients),
              "nothing was thrown");
    EXPECT_NE(run(fixture::make_flow<double>({Direction::normalizing, {unconstrained}, {}, {}}),
                  parameters, 0, 5, {path, 1}, loss, gradients)
                  .find(name + "the stack has the constraint none"),
              std::string::npos);
  }
}

}  // namespace
