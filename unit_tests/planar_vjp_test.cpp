// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <Kokkos_Core.hpp>

#include <meander/flow.hpp>
#include <meander/flow_gradient.hpp>
#include <meander/planar_vjp.hpp>

#include "flow_gradient_fixture.hpp"
#include "message_of.hpp"
#include "planar_fixture.hpp"
#include "planar_layouts.hpp"
#include "planar_vjp_reference.hpp"
#include "tools_recorder.hpp"

/// The gradients against a slow chain rule in long double (planar_vjp_reference.hpp), and that
/// chain rule against differences of the reference map itself.
namespace {

using fixture::space;
using meander::Activation;
using meander::Constraint;
using reference::add_inverse_vjp;
using reference::add_vjp;
using reference::all_options;
using reference::as_real;
using reference::difference;
using reference::Gradients;
using reference::one_layer;
using reference::real;
using reference::stack_with;

// ---- The reference's own test: differences of reference::forward and reference::inverse.

enum class Map { forward, inverse };

real loss(Map map, reference::Stack const& stack, std::vector<real> const& row,
          std::vector<real> const& grad, real grad_log_det) {
  std::vector<real> out;
  real sum;
  if (map == Map::forward) {
    auto const r = reference::forward(stack, row);
    out          = r.y;
    sum          = grad_log_det * r.log_det;
  } else {
    auto const r = reference::inverse(stack, row);
    out          = r.z;
    sum          = grad_log_det * r.log_det;
  }
  for (int d = 0; d < stack.dim; ++d) sum += grad[d] * out[d];
  return sum;
}

void check_reference(Map map, reference::Stack stack, std::vector<real> row,
                     std::vector<real> const& grad, real grad_log_det, double w_step = 1e-4) {
  Gradients g(stack);
  if (map == Map::forward)
    add_vjp(stack, row, grad, grad_log_det, g);
  else
    add_inverse_vjp(stack, row, grad, grad_log_det, g);
  auto const f    = [&] { return loss(map, stack, row, grad, grad_log_det); };
  auto const near = [&](real exact, real size, real numeric, char const* what, std::size_t i) {
    EXPECT_NEAR(double(exact), double(numeric), 2e-8 * double(1 + size)) << what << " " << i;
  };
  for (int d = 0; d < stack.dim; ++d)
    near(g.z[d], g.size_z[d],
         difference(
             double(row[d]), 1e-4, [&](double x) { row[d] = x; }, f),
         "row", d);
  for (std::size_t i = 0; i < stack.w.size(); ++i) {
    near(g.w[i], g.size_w[i],
         difference(
             stack.w[i], w_step, [&](double x) { stack.w[i] = x; }, f),
         "w", i);
    near(g.u[i], g.size_u[i],
         difference(
             stack.u[i], 1e-4, [&](double x) { stack.u[i] = x; }, f),
         "u", i);
  }
  for (int l = 0; l < stack.layers; ++l)
    near(g.b[l], g.size_b[l],
         difference(
             stack.b[l], 1e-4, [&](double x) { stack.b[l] = x; }, f),
         "b", l);
}

TEST(PlanarVjpReference, AgreesWithDifferencesInEveryArgument) {
  for (auto const& options : all_options())
    for (auto const& [layers, dim] : {std::pair{1, 1}, {3, 2}, {4, 5}}) {
      SCOPED_TRACE(std::string(to_string(options.activation)) + " " +
                   to_string(options.constraint) + " D=" + std::to_string(dim));
      auto const stack = stack_with(layers, dim, options, 7u + dim);
      auto const row   = as_real(fixture::random_rows<double>(1, dim, 3));
      auto const grad  = as_real(fixture::random_rows<double>(1, dim, 4));
      check_reference(Map::forward, stack, row, grad, 0.7L);
      // The sign of the epsilon term is a matter of |det|, which inverse takes as it comes.
      check_reference(Map::inverse, stack, row, grad, 0.7L);
    }
}

TEST(PlanarVjpReference, AgreesWithDifferencesAtTheEdges) {
  for (Constraint const constraint : {Constraint::softplus, Constraint::log_softplus})
    for (double const w_dot_u : {-40.0, -5.0, 0.0, 40.0})
      for (double const w_size : {1.0, 1e-3}) {
        meander::PlanarOptions options;
        options.constraint = constraint;
        SCOPED_TRACE(std::string(to_string(constraint)) + " w.u=" + std::to_string(w_dot_u) +
                     " |w|=" + std::to_string(w_size));
        auto const stack = one_layer(3, options, w_size, w_dot_u);
        auto const row   = as_real(fixture::random_rows<double>(1, 3, 5));
        check_reference(Map::forward, stack, row, {0.3L, -0.2L, 1.1L}, 0.5L, 1e-4 * w_size);
      }
}

// ---- The library against the reference.

template <class View>
void fill_random(View const& view, unsigned seed) {
  fixture::assign(view, fixture::random_rows<typename View::non_const_value_type>(
                            int(view.extent(0)), int(view.extent(1)), seed));
}

template <class T>
struct Outputs {
  std::vector<T> z;
  std::vector<double> w, u, b;
  friend bool operator==(Outputs const&, Outputs const&) = default;
};

template <class C, class T, class Row, class Grad, class Log, class GradRow>
Outputs<T> run(Map map, reference::Stack const& stack, Row const& row, Grad const& grad,
               Log const& grad_log_det, GradRow const& grad_row, space const& exec = space()) {
  auto const parameters = fixture::parameters<double>(stack);
  meander::PlanarStack<C, space> const prepared(exec, parameters, stack.options);
  meander::PlanarVjpWorkspace<C, space> const workspace(exec, prepared,
                                                        std::int64_t(row.extent(0)));
  fixture::DenseMatrix<double> const w("test::grad_w", stack.layers, stack.dim);
  Kokkos::View<double**, Kokkos::LayoutLeft, space::memory_space> const u("test::grad_u",
                                                                          stack.layers, stack.dim);
  Kokkos::View<double*, space::memory_space> const b("test::grad_b", stack.layers);
  // Memory that has held something else.
  Kokkos::deep_copy(w, std::numeric_limits<double>::quiet_NaN());
  meander::PlanarParameters const gradients{w, u, b};
  if (map == Map::forward)
    meander::vjp(exec, workspace, prepared, parameters, row, grad, grad_log_det, grad_row,
                 gradients);
  else
    meander::inverse_vjp(exec, workspace, prepared, parameters, row, grad, grad_log_det, grad_row,
                         gradients);
  exec.fence();
  return {fixture::matrix_values(grad_row), fixture::matrix_values(w), fixture::matrix_values(u),
          fixture::vector_values(b)};
}

template <class T>
struct Batch {
  std::vector<T> row, grad, grad_log_det;

  Batch(int rows, int dim, unsigned seed)
      : row(fixture::random_rows<T>(rows, dim, seed)),
        grad(fixture::random_rows<T>(rows, dim, seed + 1)),
        grad_log_det(fixture::random_rows<T>(rows, 1, seed + 2)) {}
};

template <class C, class T>
Outputs<T> run(Map map, reference::Stack const& stack, Batch<T> const& batch) {
  int const rows = int(batch.grad_log_det.size());
  fixture::DenseMatrix<T> const row("test::row", rows, stack.dim),
      grad("test::grad", rows, stack.dim);
  fixture::DenseMatrix<T> const grad_row("test::grad_row", rows, stack.dim);
  fixture::assign(row, batch.row);
  fixture::assign(grad, batch.grad);
  auto const log = fixture::vector<T>({batch.grad_log_det.begin(), batch.grad_log_det.end()});
  return run<C, T>(map, stack, row, grad, log, grad_row);
}

/// `noise` is how much of the rounding of the compute type the gradients may show, relative to the
/// terms they are summed from; `growth` allows for what a row's own rounding does further on.
template <class C, class T>
void compare(Map map, reference::Stack const& stack, Batch<T> const& batch,
             Outputs<T> const& result, double noise) {
  int const rows = int(batch.grad_log_det.size());
  Gradients sum(stack);
  double const unit = noise * std::numeric_limits<C>::epsilon();
  for (int i = 0; i < rows; ++i) {
    auto const row  = as_real(fixture::row(batch.row, stack.dim, i));
    auto const grad = as_real(fixture::row(batch.grad, stack.dim, i));
    if (map == Map::forward)
      add_vjp(stack, row, grad, batch.grad_log_det[i], sum);
    else
      add_inverse_vjp(stack, row, grad, batch.grad_log_det[i], sum);
    real largest = 0;
    for (real const s : sum.size_z) largest = std::max(largest, s);
    for (int d = 0; d < stack.dim; ++d)
      ASSERT_NEAR(
          double(result.z[std::size_t(i) * stack.dim + d]), double(sum.z[d]),
          unit * double(largest) + std::numeric_limits<T>::epsilon() * std::abs(double(sum.z[d])))
          << "row " << i << " coordinate " << d;
  }
  fixture::expect_near<C>({result.w, result.u, result.b}, stack, sum, noise);
}

template <class Types>
class PlanarVjp : public ::testing::Test {
 protected:
  using Storage = typename Types::first_type;
  using Compute = typename Types::second_type;

  static void check(reference::Stack const& stack, int rows, double noise = 64,
                    std::vector<Map> const& maps = {Map::forward, Map::inverse}) {
    for (Map const map : maps) {
      SCOPED_TRACE(std::string(map == Map::forward ? "forward" : "inverse") +
                   " D=" + std::to_string(stack.dim) + " L=" + std::to_string(stack.layers) +
                   " B=" + std::to_string(rows) + " " + to_string(stack.options.activation) + " " +
                   to_string(stack.options.constraint));
      Batch<Storage> const batch(rows, stack.dim, 11u + stack.dim);
      compare<Compute>(map, stack, batch, run<Compute>(map, stack, batch), noise);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
};

using Pairs =
    ::testing::Types<std::pair<float, float>, std::pair<double, double>, std::pair<float, double>>;
TYPED_TEST_SUITE(PlanarVjp, Pairs);

TYPED_TEST(PlanarVjp, EveryDimension) {
  for (int const dim : {1, 2, 3, 4, 7, 33, 100, 513})
    this->check(reference::random_stack(5, dim, {}, 1u + dim), 65);
}

TYPED_TEST(PlanarVjp, EveryNumberOfLayers) {
  for (int const layers : {0, 1, 2, 3, 4, 5, 8, 13, 33, 65, 70})
    this->check(reference::random_stack(layers, 6, {}, 1u + layers, 0.5), 40, 512);
}

TYPED_TEST(PlanarVjp, EveryBatch) {
  for (int const rows : {0, 1, 2, 15, 16, 63, 64, 65, 255, 256, 257, 1000})
    this->check(reference::random_stack(6, 5, {}, 3), rows, 128);
}

TYPED_TEST(PlanarVjp, ManyChunks) {
  this->check(reference::random_stack(5, 3, {}, 3), 100003, 256, {Map::forward});
}

TYPED_TEST(PlanarVjp, EveryActivationAndConstraint) {
  for (auto const& options : all_options())
    for (int const dim : {1, 5, 33}) this->check(stack_with(6, dim, options, 6u + dim), 67, 256);
}

/// A matrix of determinants near zero, large w.u of both signs, tiny and zero w.
TYPED_TEST(PlanarVjp, Edges) {
  for (Constraint const constraint : {Constraint::softplus, Constraint::log_softplus})
    for (Activation const activation : {Activation::tanh, Activation::leaky_relu})
      for (double const w_dot_u : {-40.0, -20.0, 0.0, 20.0, 40.0})
        for (double const w_size : {1.0, 1e-2}) {
          meander::PlanarOptions options;
          options.constraint = constraint;
          options.activation = activation;
          SCOPED_TRACE("w.u=" + std::to_string(w_dot_u) + " |w|=" + std::to_string(w_size));
          auto const stack = one_layer(5, options, w_size, w_dot_u);
          // tanh'' (s - 1) / det amplifies the rounding of a where det is small.
          this->check(stack, 33, 1024, {Map::forward});
        }
}

TYPED_TEST(PlanarVjp, LayersWithoutW) {
  for (Constraint const constraint :
       {Constraint::softplus, Constraint::log_softplus, Constraint::none}) {
    meander::PlanarOptions options;
    options.constraint = constraint;
    options.invertible = true;
    auto stack         = stack_with(6, 4, options, 9);
    for (std::ptrdiff_t const l : {0, 3, 5}) std::fill_n(stack.w.begin() + l * 4, 4, 0.0);
    this->check(stack, 50, 128);
    std::fill(stack.w.begin(), stack.w.end(), 0.0);
    this->check(stack, 50, 128);
  }
}

/// A determinant of zero, where no gradient by log_det comes in.
TYPED_TEST(PlanarVjp, SingularLayer) {
  using C = typename TestFixture::Compute;
  using T = typename TestFixture::Storage;
  meander::PlanarOptions options;
  options.constraint = Constraint::none;
  reference::Stack const stack{1, 2, options, {1, 0}, {-1, 2}, {0}};
  Batch<T> batch(9, 2, 1);
  std::fill(batch.grad_log_det.begin(), batch.grad_log_det.end(), T(0));
  std::fill(batch.row.begin(), batch.row.begin() + 2, T(0));
  compare<C>(Map::forward, stack, batch, run<C>(Map::forward, stack, batch), 64);
}

/// In float the s of this layer is zero, and so is the determinant of a row of zeros, such as those
/// that fill up a tile.
TEST(PlanarVjpSingular, RowsThatFillUpATileDoNotShow) {
  auto stack = one_layer(3, {}, 1.0, -150.0);
  stack.b[0] = 0;
  for (Map const map : {Map::forward, Map::inverse}) {
    auto const result = run<float>(map, stack, Batch<float>(3, 3, 5));
    for (double const x : result.w) EXPECT_TRUE(std::isfinite(x));
    for (double const x : result.u) EXPECT_TRUE(std::isfinite(x));
    for (double const x : result.b) EXPECT_TRUE(std::isfinite(x));
  }
}

/// <v, J t> = <J^T v, t>, J t by differences of the library's own map in double.
TEST(PlanarVjpTranspose, AgreesWithDirectionalDifferences) {
  auto const stack = reference::random_stack(9, 7, {}, 2);
  for (Map const map : {Map::forward, Map::inverse}) {
    Batch<double> const batch(21, 7, 5);
    auto const result     = run<double>(map, stack, batch);
    auto const tangent    = fixture::random_rows<double>(21, 7, 9);
    auto const prepared   = fixture::prepare<double>(stack);
    constexpr double step = 1e-5;
    auto const moved      = [&](double by) {
      auto rows = batch.row;
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i] += by * tangent[i];
      return map == Map::forward ? fixture::forward(prepared, rows)
                                      : fixture::inverse(prepared, rows);
    };
    auto const up = moved(step), down = moved(-step);
    double left = 0, right = 0;
    for (std::size_t i = 0; i < batch.row.size(); ++i) {
      left += batch.grad[i] * (up.y[i] - down.y[i]) / (2 * step);
      right += result.z[i] * tangent[i];
    }
    for (std::size_t i = 0; i < batch.grad_log_det.size(); ++i)
      left += batch.grad_log_det[i] * (up.log_det[i] - down.log_det[i]) / (2 * step);
    EXPECT_NEAR(left, right, 1e-8 * (1 + std::abs(left)));
  }
}

TYPED_TEST(PlanarVjp, IsLinearInTheCotangents) {
  using C          = typename TestFixture::Compute;
  using T          = typename TestFixture::Storage;
  auto const stack = reference::random_stack(7, 6, {}, 2);
  for (Map const map : {Map::forward, Map::inverse}) {
    Batch<T> const first(100, 6, 5);
    Batch<T> scaled = first;
    for (T& x : scaled.grad) x *= -4;
    for (T& x : scaled.grad_log_det) x *= -4;
    auto const a = run<C>(map, stack, first), b = run<C>(map, stack, scaled);
    // A power of two leaves no rounding.
    for (std::size_t i = 0; i < a.z.size(); ++i) EXPECT_EQ(-4 * a.z[i], b.z[i]);
    for (std::size_t i = 0; i < a.w.size(); ++i) EXPECT_EQ(-4 * a.w[i], b.w[i]);
    for (std::size_t i = 0; i < a.u.size(); ++i) EXPECT_EQ(-4 * a.u[i], b.u[i]);
    for (std::size_t i = 0; i < a.b.size(); ++i) EXPECT_EQ(-4 * a.b[i], b.b[i]);
  }
}

/// inverse_vjp undoes vjp: J^-T J^T v = v.
TEST(PlanarVjpRoundTrip, InverseUndoesForward) {
  auto const stack = reference::random_stack(9, 7, {}, 4);
  Batch<double> batch(40, 7, 3);
  std::fill(batch.grad_log_det.begin(), batch.grad_log_det.end(), 0.0);
  auto const forth   = run<double>(Map::forward, stack, batch);
  Batch<double> back = batch;
  back.row           = fixture::forward(fixture::prepare<double>(stack), batch.row).y;
  back.grad          = forth.z;
  auto const result  = run<double>(Map::inverse, stack, back);
  for (std::size_t i = 0; i < batch.grad.size(); ++i)
    EXPECT_NEAR(result.z[i], batch.grad[i], 1e-11);
}

// ---- PyTorch.

/// Gradients by PyTorch 2.15's autograd in float64, of sum(grad_y y) + sum(grad_log_det log_det)
/// for the planar layers written down as in the papers, L = 3, D = 3, B = 4, with the i-th number
/// of
///   w: 0.7 sin(1.3 i + 0.1),  u: 0.9 cos(1.7 i),  b: 0.3 i - 0.2,  z: 1.5 sin(0.9 i + 0.5),
///   grad_y: cos(1.1 i),  grad_log_det: 0.5 + 0.25 i.
struct FromPyTorch {
  Activation activation;
  Constraint constraint;
  std::vector<double> z, w, u, b;
};

TEST(PlanarVjpPyTorch, AgreesWithAutograd) {
  FromPyTorch const all[] = {
      {Activation::tanh,
       Constraint::softplus,
       {1.022608714891618, 0.7855210066370351, -0.4335307961761328, -0.39739963132756,
        -0.4550034149185981, 0.03958624012225016, 0.2301003867660175, 0.4000477015848672,
        0.04100911739316193, 0.3034287212988574, 0.3949005653133775, -0.09051062318116293},
       {-0.005800585877662412, 1.366874035257729, 1.86143812504986, -0.629288102364138,
        0.5593093615713429, 0.326890905234912, -1.541630474159643, 0.226902589785426,
        -1.537730620457335},
       {1.180390231466735, 0.9456555543200889, -0.3961011537515344, -1.336157308683396,
        -1.011510324025765, 0.5606194534904485, 0.9621961285707696, 0.5136033896454353,
        -0.614578187206255},
       {0.3610453673764988, -0.7232105907290014, 0.9679048826938965}},
      {Activation::leaky_relu,
       Constraint::log_softplus,
       {0.5475823397610078, 0.6407790138082006, -0.0359410481145255, -0.2539552122795997,
        -0.01978026843956517, 0.128985184821187, 0.3306422477376984, 0.338265170656031,
        -0.09258625288437106, -0.1805044986947893, 0.1022859302338597, 0.2368744525681193},
       {0.3221063112680613, 1.133038264470936, 1.094729490974796, 0.3953838791908902,
        0.7446382608260951, 0.3522802896481911, -2.544035690797634, 1.025515608283811,
        -1.278557793013908},
       {0.9829117085995143, 0.9167291328195413, -0.2145162445518266, -0.5438114639206191,
        -0.36270123524015, 0.225217488993791, 1.575650048477666, 0.9831836531418741,
        -0.889556373930207},
       {0.8331554837367281, -0.2436634036912988, 0.2615567931937922}}};
  auto const numbers = [](int count, auto const& f) {
    std::vector<double> result(count);
    for (int i = 0; i < count; ++i) result[i] = f(i);
    return result;
  };
  for (auto const& torch : all) {
    meander::PlanarOptions options;
    options.activation = torch.activation;
    options.constraint = torch.constraint;
    reference::Stack const stack{3,
                                 3,
                                 options,
                                 numbers(9, [](double i) { return 0.7 * std::sin(1.3 * i + 0.1); }),
                                 numbers(9, [](double i) { return 0.9 * std::cos(1.7 * i); }),
                                 numbers(3, [](double i) { return 0.3 * i - 0.2; })};
    Batch<double> batch(4, 3, 1);
    batch.row          = numbers(12, [](double i) { return 1.5 * std::sin(0.9 * i + 0.5); });
    batch.grad         = numbers(12, [](double i) { return std::cos(1.1 * i); });
    batch.grad_log_det = numbers(4, [](double i) { return 0.5 + 0.25 * i; });
    auto const got     = run<double>(Map::forward, stack, batch);
    auto const near    = [](std::vector<double> const& a, std::vector<double> const& b) {
      ASSERT_EQ(a.size(), b.size());
      for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 5e-15);
    };
    near(got.z, torch.z);
    near(got.w, torch.w);
    near(got.u, torch.u);
    near(got.b, torch.b);
  }
}

// ---- Layouts, threads, contracts.

template <class Case>
class PlanarVjpLayouts : public ::testing::Test {};
TYPED_TEST_SUITE(PlanarVjpLayouts, fixture::Cases);

TYPED_TEST(PlanarVjpLayouts, GiveTheSameBits) {
  using T          = typename TypeParam::storage;
  using C          = typename TypeParam::compute;
  auto const stack = reference::random_stack(6, 19, {}, 8);
  for (Map const map : {Map::forward, Map::inverse})
    for (int const rows : {1, 70, 300}) {
      Batch<T> const batch(rows, 19, 4);
      auto const expected = run<C>(map, stack, batch);
      auto const row      = TypeParam::z_maker::make(rows, 19);
      auto const grad     = TypeParam::y_maker::make(rows, 19);
      auto const grad_row = TypeParam::z_maker::make(rows, 19);
      Kokkos::View<T**, space::memory_space> const logs("test::logs", rows, 3);
      auto const log = Kokkos::subview(logs, Kokkos::ALL, 1);
      fixture::assign(Kokkos::subview(logs, Kokkos::ALL, Kokkos::pair<int, int>(1, 2)),
                      batch.grad_log_det);
      fixture::assign(row, batch.row);
      fixture::assign(grad, batch.grad);
      EXPECT_EQ((run<C, T>(map, stack, row, grad, log, grad_row)), expected);
      EXPECT_EQ(fixture::matrix_values(row), batch.row);
      // In place of the rows, and of their gradient.
      EXPECT_EQ((run<C, T>(map, stack, row, grad, log, grad)), expected);
      fixture::assign(grad, batch.grad);
      EXPECT_EQ((run<C, T>(map, stack, row, grad, log, row)), expected);
    }
}

#if defined(KOKKOS_ENABLE_OPENMP)
TYPED_TEST(PlanarVjp, NumberOfThreadsDoesNotMatter) {
  if constexpr (std::is_same_v<space, Kokkos::OpenMP>) {
    using C          = typename TestFixture::Compute;
    using T          = typename TestFixture::Storage;
    auto const stack = reference::random_stack(6, 19, {}, 8);
    for (int const rows : {300, 5000}) {
      Batch<T> const batch(rows, 19, 4);
      fixture::DenseMatrix<T> const row("test::row", rows, 19), grad("test::grad", rows, 19);
      fixture::DenseMatrix<T> const grad_row("test::grad_row", rows, 19);
      fixture::assign(row, batch.row);
      fixture::assign(grad, batch.grad);
      auto const log = fixture::vector<T>({batch.grad_log_det.begin(), batch.grad_log_det.end()});
      for (Map const map : {Map::forward, Map::inverse}) {
        auto const one = run<C, T>(map, stack, row, grad, log, grad_row, space(1));
        for (int threads = 2; threads <= space().concurrency(); threads *= 2)
          EXPECT_EQ((run<C, T>(map, stack, row, grad, log, grad_row, space(threads))), one);
      }
    }
  }
}
#endif

/// What is left out changes nothing about the rest.
TYPED_TEST(PlanarVjp, PartsAloneAreTheSame) {
  using C          = typename TestFixture::Compute;
  using T          = typename TestFixture::Storage;
  auto const stack = reference::random_stack(6, 9, {}, 8);
  Batch<T> const batch(300, 9, 4);
  fixture::DenseMatrix<T> const row("test::row", 300, 9), grad("test::grad", 300, 9);
  fixture::DenseMatrix<T> const grad_row("test::grad_row", 300, 9);
  fixture::assign(row, batch.row);
  fixture::assign(grad, batch.grad);
  auto const log = fixture::vector<T>({batch.grad_log_det.begin(), batch.grad_log_det.end()});
  auto const parameters = fixture::parameters<float>(stack);
  space const exec;
  meander::PlanarStack<C, space> const prepared(exec, parameters, stack.options);
  // Larger than it need be.
  meander::PlanarVjpWorkspace<C, space> const workspace(exec, prepared, 70000);
  fixture::DenseMatrix<double> const w("test::grad_w", 6, 9), u("test::grad_u", 6, 9);
  Kokkos::View<double*, space::memory_space> const b("test::grad_b", 6);
  meander::PlanarParameters const gradients{w, u, b};
  for (Map const map : {Map::forward, Map::inverse}) {
    auto const all = run<C>(map, stack, batch);
    if (map == Map::forward) {
      meander::vjp(exec, workspace, prepared, row, grad, log, grad_row);
      meander::vjp(exec, workspace, prepared, parameters, row, grad, log, gradients);
    } else {
      meander::inverse_vjp(exec, workspace, prepared, row, grad, log, grad_row);
      meander::inverse_vjp(exec, workspace, prepared, parameters, row, grad, log, gradients);
    }
    exec.fence();
    EXPECT_EQ(fixture::matrix_values(grad_row), all.z);
    EXPECT_EQ(fixture::matrix_values(w), all.w);
    EXPECT_EQ(fixture::matrix_values(u), all.u);
    EXPECT_EQ(fixture::vector_values(b), all.b);
  }
}

/// Gradients in float are those in double, rounded.
TEST(PlanarVjpTypes, GradientsOfParametersTakeEitherType) {
  auto const stack = reference::random_stack(3, 4, {}, 8);
  Batch<float> const batch(30, 4, 4);
  auto const expected   = run<double>(Map::forward, stack, batch);
  auto const parameters = fixture::parameters<float>(stack);
  auto const gradients  = fixture::parameters<float>(stack);
  space const exec;
  meander::PlanarStack<double, space> const prepared(exec, parameters, stack.options);
  meander::PlanarVjpWorkspace<double, space> const workspace(exec, prepared, 30);
  fixture::DenseMatrix<float> const row("test::row", 30, 4), grad("test::grad", 30, 4);
  fixture::assign(row, batch.row);
  fixture::assign(grad, batch.grad);
  auto const log = fixture::vector<float>({batch.grad_log_det.begin(), batch.grad_log_det.end()});
  meander::vjp(exec, workspace, prepared, parameters, row, grad, log, gradients);
  exec.fence();
  auto const w = fixture::matrix_values(gradients.w);
  for (std::size_t i = 0; i < w.size(); ++i) EXPECT_EQ(w[i], float(expected.w[i]));
}

TYPED_TEST(PlanarVjp, OnlyLaunchesKernelsOnTheInstance) {
  using tools::Kind;
  using C = typename TestFixture::Compute;
  using T = typename TestFixture::Storage;
  for (auto const& [layers, dim] : {std::pair{0, 3}, {1, 1}, {8, 32}, {70, 5}, {3, 600}})
    for (int const rows : {0, 1, 257, 5000}) {
      auto const stack      = reference::random_stack(layers, dim, {}, 3);
      auto const parameters = fixture::parameters<T>(stack);
      auto const gradients  = fixture::parameters<T>(stack);
      space const exec;
      meander::PlanarStack<C, space> const prepared(exec, parameters, {});
      fixture::DenseMatrix<T> const row("test::row", rows, dim), grad("test::grad", rows, dim);
      Kokkos::View<T*, space::memory_space> const log("test::log", rows);
      meander::Flow<C, space> const flow(exec, meander::StandardNormal{}, prepared,
                                         meander::Direction::normalizing);
      Kokkos::fence();
      tools::Recorder const recorder;
      meander::PlanarVjpWorkspace<C, space> const workspace(exec, prepared, rows);
      EXPECT_EQ(recorder.of_kind(Kind::kernel).size(), 0u);
      std::size_t const before = recorder.events().size();
      meander::vjp(exec, workspace, prepared, parameters, row, grad, log, row, gradients);
      meander::vjp(exec, workspace, prepared, row, grad, log, row);
      meander::inverse_vjp(exec, workspace, prepared, parameters, row, grad, log, row, gradients);
      meander::grad_log_prob(exec, workspace, flow, row, grad);
      auto const& events = recorder.events();
      for (std::size_t i = 0; i < events.size(); ++i) {
        if (i >= before) {
          EXPECT_TRUE(events[i].kind == Kind::kernel || events[i].kind == Kind::region)
              << events[i];
        }
        if (events[i].kind != Kind::fence) {
          EXPECT_TRUE(std::string_view(events[i].label).starts_with("meander::")) << events[i];
        }
      }
    }
}

TEST(PlanarVjpErrors, NameTheArgumentAndBothExtents) {
  auto const stack      = reference::random_stack(2, 3, {}, 3);
  auto const parameters = fixture::parameters<double>(stack);
  auto const gradients  = fixture::parameters<double>(stack);
  space const exec;
  auto const prepared = fixture::prepare<double>(stack);
  using Workspace     = meander::PlanarVjpWorkspace<double, space>;
  Workspace const workspace(exec, prepared, 10);
  using Matrix = fixture::DenseMatrix<double>;
  Matrix const z("test::z", 5, 3), g("test::g", 5, 3), gz("test::gz", 5, 3);
  Kokkos::View<double*, space::memory_space> const log("test::log", 5);
  auto const vjp = [&](auto const&... arguments) {
    return message_of([&] { meander::vjp(exec, arguments...); });
  };
  EXPECT_EQ(message_of([&] { Workspace(exec, prepared, -1); }),
            "meander::PlanarVjpWorkspace: argument max_batch is -1, expected a number >= 0");
  EXPECT_EQ(vjp(workspace, prepared, Matrix("test::z", 5, 4), g, log, gz),
            "meander::vjp: extent 1 of argument z is 4, expected 3 (the dimension of the stack)");
  EXPECT_EQ(vjp(workspace, prepared, z, Matrix("test::g", 4, 3), log, gz),
            "meander::vjp: extent 0 of argument grad_y is 4, expected 5 (extent 0 of z)");
  EXPECT_EQ(vjp(workspace, prepared, z, g, Kokkos::View<double*, space::memory_space>("l", 6), gz),
            "meander::vjp: extent 0 of argument grad_log_det is 6, expected 5 (extent 0 of z)");
  EXPECT_EQ(vjp(workspace, prepared, z, g, log, Matrix("test::gz", 5, 2)),
            "meander::vjp: extent 1 of argument grad_z is 2, expected 3 (the dimension of the "
            "stack)");
  EXPECT_EQ(vjp(Workspace(exec, prepared, 4), prepared, z, g, log, gz),
            "meander::vjp: extent 0 of argument z is 5, expected at most 4 (the rows the workspace "
            "is for)");
  auto const other = fixture::prepare<double>(reference::random_stack(3, 3, {}, 3));
  EXPECT_EQ(vjp(Workspace(exec, other, 9), prepared, z, g, log, gz),
            "meander::vjp: the number of layers of argument workspace is 3, expected 2 (the number "
            "of layers of the stack)");
  auto const wide = fixture::prepare<double>(reference::random_stack(2, 4, {}, 3));
  EXPECT_EQ(vjp(Workspace(exec, wide, 9), prepared, z, g, log, gz),
            "meander::vjp: the dimension of argument workspace is 4, expected 3 (the dimension of "
            "the stack)");
  auto const short_parameters = fixture::parameters<double>(reference::random_stack(1, 3, {}, 3));
  EXPECT_EQ(vjp(workspace, prepared, short_parameters, z, g, log, gradients),
            "meander::vjp: extent 0 of argument w is 1, expected 2 (the number of layers)");
  EXPECT_EQ(vjp(workspace, prepared, parameters, z, g, log, short_parameters),
            "meander::vjp: extent 0 of argument grad_parameters.w is 1, expected 2 (the number of "
            "layers)");
  EXPECT_EQ(vjp(workspace, prepared, parameters, z, g, log, parameters),
            "meander::vjp: argument grad_parameters.w shares memory with argument w; expected no "
            "element in common");
  EXPECT_EQ(message_of([&] {
              meander::inverse_vjp(exec, workspace, prepared, z, Matrix("test::g", 5, 2), log, gz);
            }),
            "meander::inverse_vjp: extent 1 of argument grad_z is 2, expected 3 (the dimension of "
            "the stack)");
  auto unconstrained               = reference::random_stack(2, 3, {}, 3, 0.1);
  unconstrained.options.constraint = Constraint::none;
  auto const no_inverse            = fixture::prepare<double>(unconstrained);
  EXPECT_NE(message_of([&] {
              meander::inverse_vjp(exec, workspace, no_inverse, z, g, log, gz);
            }).find("meander::inverse_vjp: the stack has the constraint none"),
            std::string::npos);
}

// ---- grad_log_prob.

TYPED_TEST(PlanarVjp, GradLogProbAgreesWithTheReference) {
  using C = typename TestFixture::Compute;
  using T = typename TestFixture::Storage;
  for (auto const direction : {meander::Direction::generative, meander::Direction::normalizing})
    for (auto const& options : all_options())
      for (auto const& [layers, dim] : {std::pair{1, 1}, {6, 5}, {9, 33}})
        for (bool const standard : {true, false}) {
          auto const stack = stack_with(layers, dim, options, 5u + dim);
          reference::Flow flow_of{direction, {stack}, {}, {}};
          for (int d = 0; d < dim && !standard; ++d) {
            flow_of.loc.push_back(0.1 * d - 0.5);
            flow_of.log_scale.push_back(0.3 - 0.02 * d);
          }
          SCOPED_TRACE(std::string(to_string(direction)) + " " + to_string(options.activation) +
                       " " + to_string(options.constraint) + " D=" + std::to_string(dim));
          auto const flow = fixture::make_flow<C>(flow_of);
          int const rows  = 67;
          auto const x    = fixture::random_rows<T>(rows, dim, 3);
          fixture::DenseMatrix<T> const view("test::x", rows, dim), grad("test::grad", rows, dim);
          fixture::assign(view, x);
          space const exec;
          meander::PlanarVjpWorkspace<C, space> const workspace(
              exec, std::get<0>(flow.layers().front()), rows);
          meander::grad_log_prob(exec, workspace, flow, view, grad);
          exec.fence();
          auto const values = fixture::matrix_values(grad);
          for (int i = 0; i < rows; ++i) {
            Gradients exact(stack);
            reference::add_score(flow_of, as_real(fixture::row(x, dim, i)), exact);
            real largest = 1;
            for (real const size : exact.size_z) largest = std::max(largest, size);
            for (int d = 0; d < dim; ++d)
              ASSERT_NEAR(double(values[std::size_t(i) * dim + d]), double(exact.z[d]),
                          256 * std::numeric_limits<C>::epsilon() * double(largest) +
                              std::numeric_limits<T>::epsilon() * std::abs(double(exact.z[d])));
          }
          // In place.
          meander::grad_log_prob(exec, workspace, flow, view, view);
          exec.fence();
          EXPECT_EQ(fixture::matrix_values(view), values);
        }
}

TEST(GradLogProb, AgreesWithDifferencesOfLogProb) {
  constexpr double step = 1e-5;
  for (auto const direction : {meander::Direction::generative, meander::Direction::normalizing}) {
    auto const stack = reference::random_stack(7, 5, {}, 12);
    auto const flow  = fixture::make_flow<double>(
        {direction, {stack}, {0.1, 0.2, 0.3, 0.4, 0.5}, {-0.1, 0.2, 0.3, -0.4, 0.0}});
    auto const x = fixture::random_rows<double>(1, 5, 3);
    fixture::DenseMatrix<double> const rows("test::rows", 11, 5), grad("test::grad", 11, 5);
    Kokkos::View<double*, space::memory_space> const log_prob("test::log_prob", 11);
    std::vector<double> moved;
    for (int i = 0; i < 11; ++i)
      for (int d = 0; d < 5; ++d)
        moved.push_back(x[d] + (i > 0 && (i - 1) / 2 == d ? (i % 2 == 1 ? step : -step) : 0.0));
    fixture::assign(rows, moved);
    space const exec;
    meander::PlanarVjpWorkspace<double, space> const workspace(
        exec, std::get<0>(flow.layers().front()), 11);
    meander::log_prob(exec, flow, rows, log_prob);
    meander::grad_log_prob(exec, workspace, flow, rows, grad);
    exec.fence();
    auto const values = fixture::vector_values(log_prob);
    auto const exact  = fixture::matrix_values(grad);
    for (int d = 0; d < 5; ++d)
      EXPECT_NEAR(exact[d], (values[1 + 2 * d] - values[2 + 2 * d]) / (2 * step), 1e-8);
  }
}

TEST(GradLogProb, RefusesWhatDoesNotFit) {
  auto const stack = reference::random_stack(2, 3, {}, 12);
  auto const one   = fixture::prepare<double>(stack);
  using Flow       = meander::Flow<double, space>;
  space const exec;
  Flow const flow(exec, meander::StandardNormal{}, one, meander::Direction::generative);
  Flow const two(exec, meander::StandardNormal{}, {one, one}, meander::Direction::generative);
  meander::PlanarVjpWorkspace<double, space> const workspace(exec, one, 5);
  using Matrix   = fixture::DenseMatrix<double>;
  auto const run = [&](Flow const& f, Matrix const& x, Matrix const& g) {
    return message_of([&] { meander::grad_log_prob(exec, workspace, f, x, g); });
  };
  EXPECT_EQ(run(flow, Matrix("x", 5, 3), Matrix("g", 4, 3)),
            "meander::grad_log_prob: extent 0 of argument grad_x is 4, expected 5 (extent 0 of x)");
  EXPECT_EQ(run(flow, Matrix("x", 5, 2), Matrix("g", 5, 3)),
            "meander::grad_log_prob: extent 1 of argument x is 2, expected 3 (the dimension of the "
            "flow)");
  EXPECT_EQ(run(flow, Matrix("x", 6, 3), Matrix("g", 6, 3)),
            "meander::grad_log_prob: extent 0 of argument x is 6, expected at most 5 (the rows the "
            "workspace is for)");
  EXPECT_EQ(run(two, Matrix("x", 5, 3), Matrix("g", 5, 3)),
            "meander::grad_log_prob: the number of stacks of argument flow is 2, expected 1 (all "
            "that has gradients so far)");
}

TYPED_TEST(PlanarVjp, RowsThatAreNotFiniteGetNaN) {
  using C = typename TestFixture::Compute;
  using T = typename TestFixture::Storage;
  for (Activation const activation : {Activation::tanh, Activation::leaky_relu}) {
    meander::PlanarOptions options;
    options.activation = activation;
    auto const stack   = reference::random_stack(6, 5, options, 3);
    for (T const bad : {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity()})
      for (Map const map : {Map::forward, Map::inverse}) {
        Batch<T> batch(3, 5, 1);
        auto const good  = run<C>(map, stack, batch);
        batch.row[5 + 2] = bad;
        auto const got   = run<C>(map, stack, batch);
        for (int d = 0; d < 5; ++d) {
          EXPECT_EQ(got.z[d], good.z[d]);
          EXPECT_TRUE(std::isnan(got.z[5 + d]));
          EXPECT_EQ(got.z[10 + d], good.z[10 + d]);
        }
        for (double const b : got.b) EXPECT_TRUE(std::isnan(b));
      }
  }
}

/// The rows are too long for a tile of many, the layers too many for one group of anything.
TYPED_TEST(PlanarVjp, VeryWideAndVeryDeep) {
  this->check(reference::random_stack(3, 4096, {}, 7u), 70, 256);
  this->check(reference::random_stack(1000, 3, {}, 8u, 0.1), 70, 65536);
}

}  // namespace
