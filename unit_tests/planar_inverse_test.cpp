// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include <meander/model_file.hpp>

#include "data_files.hpp"
#include "message_of.hpp"
#include "planar_fixture.hpp"
#include "planar_layouts.hpp"

/// inverse against the long double reference, and against forward.
namespace {

using fixture::space;
using meander::Activation;
using meander::Constraint;

template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

meander::PlanarOptions options(Activation activation, Constraint constraint, double epsilon = 0) {
  meander::PlanarOptions result;
  result.activation      = activation;
  result.constraint      = constraint;
  result.negative_slope  = 0.3;
  result.log_det_epsilon = epsilon;
  result.invertible      = true;
  return result;
}

template <class Case>
class PlanarInverse : public ::testing::Test {
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
    auto const y        = Case::z_maker::make(rows, stack.dim);
    auto const z        = Case::y_maker::make(rows, stack.dim);
    Kokkos::View<S*, space::memory_space> const log_det("test::log_det", rows);
    Kokkos::deep_copy(log_det, S(-777));
    fixture::assign(y, host);
    meander::inverse(exec, prepared, y, z, log_det);
    exec.fence();
    auto const got_z       = fixture::matrix_values(z);
    auto const got_log_det = fixture::vector_values(log_det);
    ASSERT_EQ(fixture::matrix_values(y), host) << "y was written to";

    checked = std::min(checked, rows);
    for (int k = 0; k < checked; ++k) {
      int const i   = checked == rows ? k : int(std::int64_t(k) * (rows - 1) / (checked - 1));
      auto const yi = fixture::row(host, stack.dim, i);
      reference::InverseRow const exact  = reference::inverse(stack, yi);
      fixture::Tolerance const tolerance = fixture::tolerance<C>(stack, yi, exact);
      for (int d = 0; d < stack.dim; ++d)
        ASSERT_NEAR(got_z[std::size_t(i) * stack.dim + d], double(exact.z[d]), tolerance.y[d])
            << "row " << i << " coordinate " << d;
      ASSERT_NEAR(got_log_det[i], double(exact.log_det), tolerance.log_det) << "row " << i;
    }
  }
};

TYPED_TEST_SUITE(PlanarInverse, fixture::Cases);

TYPED_TEST(PlanarInverse, EveryDimension) {
  for (int const dim : {1, 2, 3, 5, 8, 17, 32, 33, 64, 100, 513})
    for (int const layers : {0, 1, 2, 8, 33})
      for (int const rows : {0, 1, 7, 257})
        this->check(reference::random_stack(layers, dim, {}, 3u), rows, 3);
}

TYPED_TEST(PlanarInverse, ManyLayers) {
  for (int const dim : {1, 2, 3, 5, 8, 17, 32, 33, 64, 100, 513})
    this->check(reference::random_stack(200, dim, {}, 4u, 0.4), 65, 2);
}

TYPED_TEST(PlanarInverse, LargeBatch) {
  for (int const dim : {1, 3, 17}) this->check(reference::random_stack(8, dim, {}, 5u), 100003, 20);
}

TYPED_TEST(PlanarInverse, EveryActivationAndConstraint) {
  for (Activation const activation : {Activation::tanh, Activation::leaky_relu})
    for (Constraint const constraint :
         {Constraint::softplus, Constraint::log_softplus, Constraint::none})
      for (double const epsilon : {0.0, 1e-3})
        for (int const dim : {1, 5, 33}) {
          double const size = constraint == Constraint::none ? 0.3 : 1.0;
          this->check(
              reference::random_stack(6, dim, options(activation, constraint, epsilon), 6u, size),
              67, 30);
        }
}

TYPED_TEST(PlanarInverse, VeryWideAndVeryDeep) {
  this->check(reference::random_stack(3, 4096, {}, 7u), 33, 2);
  this->check(reference::random_stack(4096, 3, {}, 8u, 0.1), 33, 2);
}

template <class Types>
class PlanarInversePairs : public ::testing::Test {};

template <class S, class C>
struct Types {
  using storage = S;
  using compute = C;
};

using Pairs = ::testing::Types<Types<float, float>, Types<double, double>, Types<float, double>>;
TYPED_TEST_SUITE(PlanarInversePairs, Pairs);

/// |x|, largest coordinate.
template <class T>
double size_of(std::vector<T> const& x) {
  double size = 0;
  for (T const v : x) size = std::max(size, std::abs(double(v)));
  return size;
}

/// There and back. What is stored in between is rounded, and the way back magnifies that and its
/// own rounding: by the product of the norms of the layers' Jacobians at most, and by what the
/// reference makes of rounding noise along that very row, which is far less where the layers do not
/// conspire.
template <class C, class S>
void expect_round_trips(reference::Stack const& stack, std::vector<S> const& rows) {
  SCOPED_TRACE("D=" + std::to_string(stack.dim) + " L=" + std::to_string(stack.layers) + " " +
               to_string(stack.options.activation) + " " + to_string(stack.options.constraint));
  constexpr double compute = std::numeric_limits<C>::epsilon();
  constexpr double storage = std::numeric_limits<S>::epsilon();
  double const rounding    = 4 * compute * std::sqrt(double(stack.layers) * stack.dim) + storage;
  auto const prepared      = fixture::prepare<C>(stack);
  auto const pushed        = fixture::forward(prepared, rows);
  auto const back          = fixture::inverse(prepared, pushed.y);
  auto const pulled        = fixture::inverse(prepared, rows);
  auto const again         = fixture::forward(prepared, pulled.y);
  for (int i = 0; i < int(pushed.log_det.size()); ++i) {
    auto const row    = fixture::row(rows, stack.dim, i);
    auto const y      = fixture::row(pushed.y, stack.dim, i);
    auto const z      = fixture::row(pulled.y, stack.dim, i);
    auto const exact  = reference::inverse(stack, y);
    auto const noise  = fixture::tolerance<S>(stack, y, exact);
    auto const image  = reference::forward(stack, z);
    auto const noise2 = fixture::tolerance<S>(stack, z, image);
    double const most = rounding * (1 + size_of(row) + size_of(y)) * double(exact.condition);
    for (int d = 0; d < stack.dim; ++d) {
      S const there = back.y[std::size_t(i) * stack.dim + d];
      ASSERT_NEAR(there, row[d], most) << "row " << i << ", conditioning " << exact.condition;
      ASSERT_NEAR(there, row[d], 2 * noise.y[d]) << "row " << i;
      ASSERT_NEAR(again.y[std::size_t(i) * stack.dim + d], row[d], 2 * noise2.y[d])
          << "inverse, then forward; row " << i;
    }
    bool const jumps = stack.options.activation == Activation::leaky_relu &&
                       double(exact.nearest_kink) < 100 * storage * double(exact.condition);
    if (jumps) continue;
    ASSERT_NEAR(back.log_det[i], -pushed.log_det[i],
                2 * noise.log_det + 4 * storage * std::abs(double(pushed.log_det[i])))
        << "row " << i;
  }
}

TYPED_TEST(PlanarInversePairs, RoundTrips) {
  using S = typename TypeParam::storage;
  using C = typename TypeParam::compute;
  for (Activation const activation : {Activation::tanh, Activation::leaky_relu})
    for (Constraint const constraint :
         {Constraint::softplus, Constraint::log_softplus, Constraint::none})
      for (int const dim : {1, 3, 33, 100, 513})
        for (int const layers : {1, 8, 33})
          expect_round_trips<C>(
              reference::random_stack(layers, dim, options(activation, constraint), 21u,
                                      constraint == Constraint::none ? 0.3 : 1.0),
              fixture::random_rows<S>(20, dim, 22u));
  expect_round_trips<C>(reference::random_stack(200, 17, {}, 23u, 0.4),
                        fixture::random_rows<S>(20, 17, 24u));
}

/// Stacks that were drawn or fitted elsewhere, and their rows.
TYPED_TEST(PlanarInversePairs, RoundTripsOnData) {
  using S = typename TypeParam::storage;
  using C = typename TypeParam::compute;
  for (char const* const name :
       {"reference_d2_l32", "reference_d5_l3", "reference_d32_l8", "reference_d32_l8_hard",
        "reference_d100_l16", "normflows_twomodes_k16", "normflows_leaky_k8"}) {
    SCOPED_TRACE(name);
    auto const model   = meander::read_model(data::path(std::string(name) + ".safetensors"));
    auto const& layers = std::get<meander::PlanarLayers>(model.layers.at(0));
    reference::Stack stack{int(layers.count), int(layers.dim), layers.options,
                           layers.w,          layers.u,        layers.b};
    stack.options.invertible = true;
    auto const z             = data::npy(std::string(name) + ".z.npy");
    int const rows           = std::min<int>(60, int(z.size() / layers.dim));
    expect_round_trips<C>(stack, std::vector<S>(z.begin(), z.begin() + rows * layers.dim));
  }
}

TYPED_TEST(PlanarInversePairs, ANotFiniteRowComesOutNaNAndHarmsNoOther) {
  using S            = typename TypeParam::storage;
  using C            = typename TypeParam::compute;
  constexpr S inf    = std::numeric_limits<S>::infinity();
  constexpr S nan    = std::numeric_limits<S>::quiet_NaN();
  constexpr int rows = 200;
  for (int const dim : {1, 5, 33, 513})
    for (S const bad : {nan, inf, -inf})
      for (auto const activation : {Activation::tanh, Activation::leaky_relu}) {
        auto stack = reference::random_stack(6, dim, options(activation, Constraint::softplus), 4u);
        if (dim > 1) stack.w[6 * dim - 1] = 0;  // zero times infinity must not hide it
        auto const prepared = fixture::prepare<C>(stack);
        auto const clean    = fixture::random_rows<S>(rows, dim, 5u);
        auto const expected = fixture::inverse(prepared, clean);
        auto dirty          = clean;
        for (int const i : {0, 17, 64, rows - 1}) dirty[std::size_t(i) * dim + dim - 1] = bad;
        auto const r = fixture::inverse(prepared, dirty);
        for (int i = 0; i < rows; ++i) {
          bool const poisoned = i == 0 || i == 17 || i == 64 || i == rows - 1;
          ASSERT_EQ(std::isnan(r.log_det[i]), poisoned) << "row " << i << " of " << bad;
          for (int d = 0; d < dim; ++d) {
            std::size_t const k = std::size_t(i) * dim + d;
            ASSERT_TRUE(poisoned ? std::isnan(r.y[k]) : r.y[k] == expected.y[k])
                << "row " << i << " of " << bad;
          }
          ASSERT_TRUE(poisoned || r.log_det[i] == expected.log_det[i]) << "row " << i;
        }
      }
}

TYPED_TEST(PlanarInversePairs, InPlaceAndWithoutLogDetTheSameRows) {
  using S             = typename TypeParam::storage;
  auto stack          = reference::random_stack(7, 33, {}, 6u);
  auto const p        = fixture::prepare<typename TypeParam::compute>(stack);
  auto const y        = fixture::random_rows<S>(1000, 33, 7u);
  auto const expected = fixture::inverse(p, y);
  fixture::DenseMatrix<S> const view("test::in_place", 1000, 33), other("test::z", 1000, 33);
  Kokkos::View<S*, space::memory_space> const log_det("test::log_det", 1000);
  fixture::assign(view, y);
  meander::inverse(space{}, p, view, other);
  meander::inverse(space{}, p, view, view, log_det);
  Kokkos::fence();
  EXPECT_TRUE(same_bits(fixture::matrix_values(other), expected.y));
  EXPECT_TRUE(same_bits(fixture::matrix_values(view), expected.y));
  EXPECT_TRUE(same_bits(fixture::vector_values(log_det), expected.log_det));
}

/// Rows that need more steps than their neighbours must not give these any.
TYPED_TEST(PlanarInversePairs, SplittingABatchChangesNoBit) {
  using S = typename TypeParam::storage;
  for (int const dim : {2, 17, 100, 513}) {
    auto stack = reference::random_stack(10, dim, {}, 10u);
    for (int d = 0; d < dim; ++d) stack.u[3 * dim + d] = -3 * stack.w[3 * dim + d];  // s near zero
    for (int d = 0; d < dim; ++d) stack.u[5 * dim + d] = 30 * stack.w[5 * dim + d];  // s large
    auto const p     = fixture::prepare<typename TypeParam::compute>(stack);
    auto const y     = fixture::random_rows<S>(1000, dim, 11u);
    auto const whole = fixture::inverse(p, y);
    for (int const cut : {1, 7, 64, 500, 999}) {
      std::vector<S> const a(y.begin(), y.begin() + std::ptrdiff_t(cut) * dim);
      std::vector<S> const b(y.begin() + std::ptrdiff_t(cut) * dim, y.end());
      auto first        = fixture::inverse(p, a);
      auto const second = fixture::inverse(p, b);
      first.y.insert(first.y.end(), second.y.begin(), second.y.end());
      first.log_det.insert(first.log_det.end(), second.log_det.begin(), second.log_det.end());
      EXPECT_TRUE(same_bits(first.y, whole.y)) << "D=" << dim << " cut at " << cut;
      EXPECT_TRUE(same_bits(first.log_det, whole.log_det)) << "D=" << dim << " cut at " << cut;
    }
  }
}

/// One layer on R^2 with the given w.u; row (a, .) has w.y + b = a.
reference::Stack layer(double w_dot_u, meander::PlanarOptions const& with) {
  return {1, 2, with, {1, 0}, {w_dot_u, 0.5}, {0}};
}

/// Determinants down to exp(-80): the root and the log-det keep their digits.
TYPED_TEST(PlanarInversePairs, NearlySingularLayers) {
  using S = typename TypeParam::storage;
  using C = typename TypeParam::compute;
  for (double const w_dot_u : {-80.0, -40.0, -20.0, -10.0, -5.0, 30.0, 80.0, 1e6}) {
    reference::Stack const stack = layer(w_dot_u, {});
    std::vector<S> y;
    for (S const a : {0., 1e-30, 1e-12, 1e-3, 0.1, 0.5, 1., 3., 20., 1e6})
      for (S const sign : {S(1), S(-1)}) y.insert(y.end(), {sign * a, S(0.25)});
    auto const got = fixture::inverse(fixture::prepare<C>(stack), y);
    for (std::size_t i = 0; i < got.log_det.size(); ++i) {
      auto const row                     = fixture::row(y, 2, int(i));
      reference::InverseRow const exact  = reference::inverse(stack, row);
      fixture::Tolerance const tolerance = fixture::tolerance<C>(stack, row, exact);
      ASSERT_NEAR(got.y[2 * i], double(exact.z[0]), tolerance.y[0])
          << "w.u=" << w_dot_u << " a=" << row[0];
      ASSERT_NEAR(got.y[2 * i + 1], double(exact.z[1]), tolerance.y[1])
          << "w.u=" << w_dot_u << " a=" << row[0];
      ASSERT_NEAR(got.log_det[i], double(exact.log_det), tolerance.log_det)
          << "w.u=" << w_dot_u << " a=" << row[0];
    }
  }
}

/// c = 0.8845640339582252, m = 0.8296950433716855, b = -1e8: alpha + m tanh(alpha + b) = c has the
/// root c + m; a Newton iteration from c does not come near it.
TEST(PlanarInverseHardCases, AShiftFarBelowZero) {
  double const m = 0.8296950433716855, c = 0.8845640339582252;
  meander::PlanarOptions const with = options(Activation::tanh, Constraint::none);
  reference::Stack const stack{1, 1, with, {1}, {m}, {-1e8}};
  auto const got = fixture::inverse(fixture::prepare<double>(stack), std::vector<double>{c});
  EXPECT_DOUBLE_EQ(got.y[0], c + m);
  EXPECT_EQ(got.log_det[0], 0);
}

/// 200 layers whose determinants multiply far beyond the range of float in either direction.
TEST(PlanarInverseHardCases, ProductsBeyondTheRangeOfTheType) {
  for (double const w_dot_u : {-30.0, 60.0}) {
    reference::Stack stack{200, 2, {}, {}, {}, {}};
    for (int l = 0; l < stack.layers; ++l) {
      stack.w.insert(stack.w.end(), {0, 1});
      stack.u.insert(stack.u.end(), {0.5, w_dot_u});
      stack.b.push_back(0);
    }
    std::vector<float> const y{0.5f, 0.0f};  // a = 0 in every layer
    auto const result  = fixture::inverse(fixture::prepare<float>(stack), y);
    double const exact = double(reference::inverse(stack, y).log_det);
    EXPECT_NEAR(result.log_det[0], exact, 1e-6 * std::abs(exact));
  }
}

/// softplus(-200) is zero in float. The layer is singular at a = 0 alone.
TEST(PlanarInverseHardCases, AnUnderflownDeterminantIsSingularAtZeroOnly) {
  auto const stack = fixture::prepare<float>(layer(-200, {}));
  auto const got   = fixture::inverse(stack, std::vector<float>{0, 0, 1e-3f, 0, 1e30f, 0});
  EXPECT_EQ(got.y[0], 0);
  EXPECT_EQ(got.log_det[0], std::numeric_limits<float>::infinity());
  auto const root = double(reference::tanh_root(0, -1, 1e-3L));
  EXPECT_NEAR(got.y[2], root, 1e-6);
  EXPECT_NEAR(got.log_det[1], -2 * std::log(std::tanh(root)), 1e-5);
  EXPECT_EQ(got.y[4], 1e30f);
  EXPECT_EQ(got.log_det[2], 0);
}

TEST(PlanarInverseHardCases, AnUnderflownLeakyLayerIsSingularOnItsWholeSide) {
  auto const stack =
      fixture::prepare<float>(layer(-200, options(Activation::leaky_relu, Constraint::softplus)));
  auto const got = fixture::inverse(stack, std::vector<float>{0.5f, 0, 0, 0, -0.5f, 0});
  for (std::size_t const singular : {0U, 1U}) {
    EXPECT_FALSE(std::isfinite(got.y[2 * singular]));
    EXPECT_EQ(got.log_det[singular], std::numeric_limits<float>::infinity());
  }
  EXPECT_TRUE(std::isfinite(got.y[4]));
  EXPECT_TRUE(std::isfinite(got.log_det[2]));
}

TEST(PlanarInverseErrors, NameTheArgumentWhatCameAndWhatWasExpected) {
  auto const stack = fixture::prepare<double>(reference::random_stack(2, 3, {}, 1u));
  space const exec;
  fixture::DenseMatrix<double> const y("y", 8, 3), narrow("z", 8, 2), shorter("z", 7, 3),
      z("z", 8, 3);
  Kokkos::View<double*, space::memory_space> const log_det("log_det", 9);
  EXPECT_EQ(
      message_of([&] { meander::inverse(exec, stack, narrow, z); }),
      "meander::inverse: extent 1 of argument y is 2, expected 3 (the dimension of the stack)");
  EXPECT_EQ(message_of([&] { meander::inverse(exec, stack, y, shorter); }),
            "meander::inverse: extent 0 of argument z is 7, expected 8 (extent 0 of y)");
  EXPECT_EQ(message_of([&] { meander::inverse(exec, stack, y, narrow); }),
            "meander::inverse: extent 1 of argument z is 2, expected 3 (extent 1 of y)");
  EXPECT_EQ(message_of([&] { meander::inverse(exec, stack, y, z, log_det); }),
            "meander::inverse: extent 0 of argument log_det is 9, expected 8 (extent 0 of y)");
  auto const part = Kokkos::subview(y, Kokkos::pair<int, int>(0, 7), Kokkos::ALL);
  auto const next = Kokkos::subview(y, Kokkos::pair<int, int>(1, 8), Kokkos::ALL);
  EXPECT_EQ(message_of([&] { meander::inverse(exec, stack, part, next); }),
            "meander::inverse: argument z shares memory with argument y without being the same "
            "View; expected the very same elements, or none in common");
}

TEST(PlanarInverseErrors, WithoutAConstraintTheInverseMustBePromised) {
  meander::PlanarOptions with;
  with.constraint  = Constraint::none;
  auto const stack = fixture::prepare<double>(layer(0.5, with));
  fixture::DenseMatrix<double> const y("y", 1, 2);
  EXPECT_EQ(message_of([&] { meander::forward(space{}, stack, y, y); }), "nothing was thrown");
  std::string const refusal =
      "meander::inverse: the stack has the constraint none, under which a layer need not have an "
      "inverse; prepare it with PlanarOptions::invertible = true, which has its layers checked";
  Kokkos::View<double*, space::memory_space> const log_det("log_det", 1);
  EXPECT_EQ(message_of([&] { meander::inverse(space{}, stack, y, y); }), refusal);
  EXPECT_EQ(message_of([&] { meander::inverse(space{}, stack, y, y, log_det); }), refusal);
  Kokkos::fence();
}

TEST(PlanarInverseErrors, ALayerThatHasNoInverseIsNamed) {
  auto const stack_of = [](std::vector<double> const& w_dot_u, Activation activation) {
    reference::Stack stack{
        int(w_dot_u.size()), 2, options(activation, Constraint::none), {}, {}, {}};
    for (double const x : w_dot_u) {
      stack.w.insert(stack.w.end(), {1, 0});
      stack.u.insert(stack.u.end(), {x, 0.5});
      stack.b.push_back(0);
    }
    return stack;
  };
  auto const prepare = [&](std::vector<double> const& w_dot_u, Activation activation) {
    return message_of([&] { fixture::prepare<float>(stack_of(w_dot_u, activation)); });
  };
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(prepare({-0.75, 3, 0}, Activation::tanh), "nothing was thrown");
  EXPECT_EQ(prepare({-0.75, 3, -1.5, 0, -7}, Activation::tanh),
            "meander::PlanarStack: layer 2 has no inverse: its w.u is -1.5, and a tanh layer needs "
            "w.u > -1");
  EXPECT_EQ(prepare({0, -1}, Activation::tanh),
            "meander::PlanarStack: layer 1 has no inverse: its w.u is -1, and a tanh layer needs "
            "w.u > -1");
  EXPECT_EQ(prepare({0, nan}, Activation::tanh).substr(0, 42),
            "meander::PlanarStack: layer 1 has no inver");
  EXPECT_EQ(prepare({0, std::numeric_limits<double>::infinity()}, Activation::tanh).substr(0, 42),
            "meander::PlanarStack: layer 1 has no inver");
  EXPECT_EQ(prepare({-0.75, 3}, Activation::leaky_relu), "nothing was thrown");
  EXPECT_EQ(prepare({-1.25}, Activation::leaky_relu),
            "meander::PlanarStack: layer 0 has no inverse: its w.u is -1.25, and a leaky_relu "
            "layer needs w.u > -1 and negative_slope * w.u > -1");

  auto stack = fixture::prepare<double>(stack_of({1, 2}, Activation::tanh));
  EXPECT_EQ(
      message_of([&] {
        stack.refresh(space{}, fixture::parameters<double>(stack_of({1, -2}, Activation::tanh)));
      }),
      "meander::PlanarStack: layer 1 has no inverse: its w.u is -2, and a tanh layer needs "
      "w.u > -1");
  // The flag asks for nothing where the constraint already promises it, and forward never needs it.
  meander::PlanarOptions constrained;
  constrained.invertible = true;
  EXPECT_EQ(message_of([&] { fixture::prepare<double>(layer(-3, constrained)); }),
            "nothing was thrown");
}

}  // namespace
