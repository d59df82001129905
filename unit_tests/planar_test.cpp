// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "message_of.hpp"
#include "planar_fixture.hpp"

namespace {

using fixture::space;

template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class S, class C>
struct Pair {
  using storage = S;
  using compute = C;
};

template <class P>
class Planar : public ::testing::Test {};
using Pairs = ::testing::Types<Pair<float, float>, Pair<double, double>, Pair<float, double>>;
TYPED_TEST_SUITE(Planar, Pairs);

TYPED_TEST(Planar, NoLayersIsTheIdentity) {
  using S      = typename TypeParam::storage;
  auto stack   = reference::random_stack(0, 5, {}, 1u);
  auto const z = fixture::random_rows<S>(70, 5, 2u);
  auto const r = fixture::forward(fixture::prepare<typename TypeParam::compute>(stack), z);
  EXPECT_EQ(r.y, z);
  EXPECT_EQ(r.log_det, std::vector<S>(70, S(0)));
}

TYPED_TEST(Planar, ZeroWeightIsAShift) {
  using S = typename TypeParam::storage;
  for (auto const constraint : {meander::Constraint::softplus, meander::Constraint::log_softplus,
                                meander::Constraint::none}) {
    meander::PlanarOptions options;
    options.constraint = constraint;
    reference::Stack const stack{1, 3, options, {0, 0, 0}, {1, -2, 0.5}, {0.75}};
    auto const z = fixture::random_rows<S>(33, 3, 3u);
    auto const r = fixture::forward(fixture::prepare<typename TypeParam::compute>(stack), z);
    for (int i = 0; i < 33; ++i) {
      EXPECT_EQ(r.log_det[i], S(0));
      for (int d = 0; d < 3; ++d)
        EXPECT_NEAR(r.y[i * 3 + d], z[i * 3 + d] + stack.u[d] * std::tanh(0.75),
                    4 * std::numeric_limits<S>::epsilon() * 4);
    }
  }
}

/// A row that overflows in a later layer must not keep a plausible log-det.
TEST(PlanarRows, OverflowOnTheWayShowsInTheLogDet) {
  meander::PlanarOptions options;
  options.activation = meander::Activation::leaky_relu;
  options.constraint = meander::Constraint::none;
  reference::Stack const stack{2, 2, options, {1e20, 0, 1, -1}, {1e20, 2e20, 9, 0}, {0, 0}};
  auto const r = fixture::forward(fixture::prepare<float>(stack), std::vector<float>{1, 1});
  EXPECT_TRUE(std::isnan(r.log_det[0]) || std::isinf(r.log_det[0]));
  EXPECT_FALSE(std::isfinite(r.y[0]));
}

/// |w|^2 underflows, w does not.
TEST(PlanarParametersTest, TinyWeightsDoNotUnderflow) {
  double const tiny = 1e-170;
  reference::Stack const stack{1, 2, {}, {tiny, 2 * tiny}, {0.5 / tiny, 0}, {0.25}};
  std::vector<double> const z{0, 0};
  auto const r               = fixture::forward(fixture::prepare<double>(stack), z);
  reference::Row const exact = reference::forward(stack, z);
  EXPECT_NEAR(r.log_det[0], double(exact.log_det), 1e-15);
  for (int d = 0; d < 2; ++d)
    EXPECT_NEAR(r.y[d] / double(exact.y[d]), 1, 1e-14) << double(exact.y[d]);
}

TYPED_TEST(Planar, NaNAndInfinityStayInTheirRow) {
  using S            = typename TypeParam::storage;
  using C            = typename TypeParam::compute;
  constexpr S inf    = std::numeric_limits<S>::infinity();
  constexpr S nan    = std::numeric_limits<S>::quiet_NaN();
  constexpr int rows = 200;
  for (int const dim : {1, 5, 33})
    for (S const bad : {nan, inf, -inf}) {
      for (auto const activation : {meander::Activation::tanh, meander::Activation::leaky_relu}) {
        meander::PlanarOptions options;
        options.activation = activation;
        auto stack         = reference::random_stack(6, dim, options, 4u);
        if (dim > 1) stack.w[dim - 1] = 0;  // zero times infinity must not hide it
        auto const prepared = fixture::prepare<C>(stack);
        auto const clean    = fixture::random_rows<S>(rows, dim, 5u);
        auto const expected = fixture::forward(prepared, clean);
        auto dirty          = clean;
        for (int const i : {0, 17, 64, rows - 1}) dirty[std::size_t(i) * dim + dim - 1] = bad;
        auto const r = fixture::forward(prepared, dirty);
        for (int i = 0; i < rows; ++i) {
          bool const poisoned = i == 0 || i == 17 || i == 64 || i == rows - 1;
          EXPECT_EQ(std::isnan(r.log_det[i]), poisoned) << "row " << i << " of " << bad;
          for (int d = 0; d < dim; ++d) {
            std::size_t const k = std::size_t(i) * dim + d;
            EXPECT_TRUE(poisoned ? std::isnan(r.y[k]) : r.y[k] == expected.y[k])
                << "row " << i << " of " << bad;
          }
          EXPECT_TRUE(poisoned || r.log_det[i] == expected.log_det[i]) << "row " << i;
        }
      }
    }
}

TYPED_TEST(Planar, InPlace) {
  using S             = typename TypeParam::storage;
  auto stack          = reference::random_stack(7, 33, {}, 6u);
  auto const p        = fixture::prepare<typename TypeParam::compute>(stack);
  auto const z        = fixture::random_rows<S>(1000, 33, 7u);
  auto const expected = fixture::forward(p, z);
  fixture::DenseMatrix<S> const view("test::in_place", 1000, 33);
  Kokkos::View<S*, space::memory_space> const log_det("test::log_det", 1000);
  fixture::assign(view, z);
  meander::forward(space{}, p, view, view, log_det);
  Kokkos::fence();
  EXPECT_TRUE(same_bits(fixture::matrix_values(view), expected.y));
  EXPECT_TRUE(same_bits(fixture::vector_values(log_det), expected.log_det));
}

TYPED_TEST(Planar, WithoutLogDetTheSameRows) {
  using S      = typename TypeParam::storage;
  auto stack   = reference::random_stack(9, 17, {}, 8u);
  auto const p = fixture::prepare<typename TypeParam::compute>(stack);
  auto const z = fixture::random_rows<S>(300, 17, 9u);
  fixture::DenseMatrix<S> const zv("test::z", 300, 17), yv("test::y", 300, 17);
  fixture::assign(zv, z);
  meander::forward(space{}, p, zv, yv);
  Kokkos::fence();
  EXPECT_TRUE(same_bits(fixture::matrix_values(yv), fixture::forward(p, z).y));
}

TYPED_TEST(Planar, SplittingABatchChangesNoBit) {
  using S = typename TypeParam::storage;
  for (int const dim : {2, 17, 100}) {
    auto stack       = reference::random_stack(10, dim, {}, 10u);
    auto const p     = fixture::prepare<typename TypeParam::compute>(stack);
    auto const z     = fixture::random_rows<S>(1000, dim, 11u);
    auto const whole = fixture::forward(p, z);
    for (int const cut : {1, 7, 64, 500, 999}) {
      std::vector<S> const a(z.begin(), z.begin() + std::ptrdiff_t(cut) * dim);
      std::vector<S> const b(z.begin() + std::ptrdiff_t(cut) * dim, z.end());
      auto first        = fixture::forward(p, a);
      auto const second = fixture::forward(p, b);
      first.y.insert(first.y.end(), second.y.begin(), second.y.end());
      first.log_det.insert(first.log_det.end(), second.log_det.begin(), second.log_det.end());
      EXPECT_TRUE(same_bits(first.y, whole.y)) << "D=" << dim << " cut at " << cut;
      EXPECT_TRUE(same_bits(first.log_det, whole.log_det)) << "D=" << dim << " cut at " << cut;
    }
  }
}

TYPED_TEST(Planar, RefreshTakesNewParameters) {
  using S      = typename TypeParam::storage;
  using C      = typename TypeParam::compute;
  auto before  = reference::random_stack(5, 9, {}, 12u);
  auto after   = reference::random_stack(5, 9, {}, 13u);
  auto stack   = fixture::prepare<C>(before);
  auto const z = fixture::random_rows<S>(50, 9, 14u);
  stack.refresh(space{}, fixture::parameters<double>(after));
  EXPECT_TRUE(
      same_bits(fixture::forward(stack, z).y, fixture::forward(fixture::prepare<C>(after), z).y));
  EXPECT_EQ(stack.dim(), 9);
  EXPECT_EQ(stack.num_layers(), 5);
}

TYPED_TEST(Planar, ParametersMayBeFloatOrDoubleInAnyLayout) {
  using C             = typename TypeParam::compute;
  using S             = typename TypeParam::storage;
  auto const stack    = reference::random_stack(5, 9, {}, 15u);
  auto const z        = fixture::random_rows<S>(50, 9, 16u);
  auto const expected = fixture::forward(fixture::prepare<C>(stack), z);
  meander::PlanarStack<C, space> const from_float(space{}, fixture::parameters<float>(stack));
  meander::PlanarStack<C, space> const from_left(
      space{}, meander::PlanarParameters{fixture::matrix<float, Kokkos::LayoutLeft>(stack.w, 5, 9),
                                         fixture::matrix<float>(stack.u, 5, 9),
                                         fixture::vector<float>(stack.b)});
  EXPECT_TRUE(same_bits(fixture::forward(from_float, z).y, expected.y));
  EXPECT_TRUE(same_bits(fixture::forward(from_left, z).log_det, expected.log_det));
}

TEST(PlanarStackTest, KnowsItsDeterminants) {
  auto const stack = reference::random_stack(6, 4, {}, 17u);
  auto const s     = fixture::vector_values(fixture::prepare<double>(stack).s());
  ASSERT_EQ(s.size(), 6u);
  for (int l = 0; l < 6; ++l) {
    double w_dot_u = 0;
    for (int d = 0; d < 4; ++d) w_dot_u += stack.w[l * 4 + d] * stack.u[l * 4 + d];
    EXPECT_NEAR(s[l], double(reference::softplus(w_dot_u)), 1e-15);
  }
}

TEST(PlanarErrors, NameTheArgumentWhatCameAndWhatWasExpected) {
  auto const stack = fixture::prepare<double>(reference::random_stack(2, 3, {}, 1u));
  space const exec;
  fixture::DenseMatrix<double> const z("z", 8, 3), narrow("y", 8, 2), shorter("y", 7, 3),
      y("y", 8, 3);
  Kokkos::View<double*, space::memory_space> const log_det("log_det", 9);
  EXPECT_EQ(
      message_of([&] { meander::forward(exec, stack, narrow, y); }),
      "meander::forward: extent 1 of argument z is 2, expected 3 (the dimension of the stack)");
  EXPECT_EQ(message_of([&] { meander::forward(exec, stack, z, shorter); }),
            "meander::forward: extent 0 of argument y is 7, expected 8 (extent 0 of z)");
  EXPECT_EQ(message_of([&] { meander::forward(exec, stack, z, narrow); }),
            "meander::forward: extent 1 of argument y is 2, expected 3 (extent 1 of z)");
  EXPECT_EQ(message_of([&] { meander::forward(exec, stack, z, y, log_det); }),
            "meander::forward: extent 0 of argument log_det is 9, expected 8 (extent 0 of z)");
}

TEST(PlanarErrors, StackArguments) {
  auto const make = [](auto const& p, meander::PlanarOptions const& options) {
    return message_of([&] { meander::PlanarStack<double, space>(space{}, p, options); });
  };
  fixture::DenseMatrix<double> const w("w", 4, 3), short_u("u", 3, 3), narrow_u("u", 4, 2),
      none("w", 4, 0);
  Kokkos::View<double*, space::memory_space> const b("b", 4), long_b("b", 5);
  using P = meander::PlanarParameters<decltype(w), decltype(w), decltype(b)>;
  EXPECT_EQ(make(P{w, short_u, b}, {}),
            "meander::PlanarStack: extent 0 of argument u is 3, expected 4 (the number of layers)");
  EXPECT_EQ(
      make(P{w, narrow_u, b}, {}),
      "meander::PlanarStack: extent 1 of argument u is 2, expected 3 (the dimension of the stack)");
  EXPECT_EQ(make(P{w, w, long_b}, {}),
            "meander::PlanarStack: extent 0 of argument b is 5, expected 4 (the number of layers)");
  EXPECT_EQ(make(P{none, none, b}, {}).substr(0, 78),
            "meander::PlanarStack: extent 1 of argument w (the dimension) is 0, expected 1 ");
  meander::PlanarOptions options;
  options.log_det_epsilon = -1;
  EXPECT_EQ(make(P{w, w, b}, options),
            "meander::PlanarStack: log_det_epsilon is -1, expected a finite number >= 0");
  options                = {};
  options.activation     = meander::Activation::leaky_relu;
  options.negative_slope = 1.5;
  EXPECT_EQ(make(P{w, w, b}, options),
            "meander::PlanarStack: negative_slope is 1.5, expected 0 to 1");
}

TEST(PlanarErrors, OptionsOutsideTheirEnumeration) {
  auto const stack = reference::random_stack(1, 2, {}, 1u);
  meander::PlanarOptions options;
  options.activation = static_cast<meander::Activation>(9);
  auto const make    = [&] {
    meander::PlanarStack<double, space>(space{}, fixture::parameters<double>(stack), options);
  };
  EXPECT_EQ(message_of(make),
            "meander::PlanarStack: activation is 9, expected one of the enumeration");
  options            = {};
  options.constraint = static_cast<meander::Constraint>(7);
  EXPECT_EQ(message_of(make),
            "meander::PlanarStack: constraint is 7, expected one of the enumeration");
}

TEST(PlanarStackTest, MovingLeavesAStackThatWorks) {
  auto stack   = fixture::prepare<double>(reference::random_stack(3, 2, {}, 1u));
  auto const z = fixture::random_rows<double>(5, 2, 2u);
  auto const y = fixture::forward(stack, z).y;
  {
    auto const taken = std::move(stack);  // NOLINT(performance-move-const-arg): it is a copy
    EXPECT_EQ(fixture::forward(taken, z).y, y);
  }
  EXPECT_EQ(fixture::forward(stack, z).y, y);  // NOLINT(bugprone-use-after-move): that is the test
}

/// y may be z, or a neighbour in one allocation, but not a part of it.
TEST(PlanarErrors, PartialOverlapIsRefused) {
  auto const stack = fixture::prepare<double>(reference::random_stack(2, 3, {}, 1u));
  space const exec;
  using Kokkos::ALL;
  using range = Kokkos::pair<int, int>;
  fixture::DenseMatrix<double> const whole("whole", 10, 6);
  auto const z       = Kokkos::subview(whole, range(0, 8), range(0, 3));
  auto const shifted = Kokkos::subview(whole, range(1, 9), range(0, 3));
  auto const over    = Kokkos::subview(whole, range(0, 8), range(2, 5));
  auto const beside  = Kokkos::subview(whole, range(0, 8), range(3, 6));
  std::string const refusal =
      "meander::forward: argument y shares memory with argument z without being the same View; "
      "expected "
      "the very same elements, or none in common";
  EXPECT_EQ(message_of([&] { meander::forward(exec, stack, z, shifted); }), refusal);
  EXPECT_EQ(message_of([&] { meander::forward(exec, stack, z, over); }), refusal);
  EXPECT_EQ(message_of([&] { meander::forward(exec, stack, z, beside); }), "nothing was thrown");
  EXPECT_EQ(message_of([&] { meander::forward(exec, stack, z, z); }), "nothing was thrown");

  fixture::DenseMatrix<double> const square("square", 3, 3);
  Kokkos::View<double**, Kokkos::LayoutLeft, space::memory_space, Kokkos::MemoryUnmanaged> const
      transposed(square.data(), 3, 3);
  EXPECT_EQ(message_of([&] { meander::forward(exec, stack, square, transposed); }), refusal);
  Kokkos::View<double***, Kokkos::LayoutRight, space::memory_space> const pairs("pairs", 4, 3, 2);
  EXPECT_EQ(message_of([&] {
              meander::forward(exec, stack, Kokkos::subview(pairs, ALL, ALL, 0),
                               Kokkos::subview(pairs, ALL, ALL, 1));
            }),
            "nothing was thrown");
  Kokkos::fence();
}

/// log_det may be a column beside y, not one of it; no output may hold an element twice.
TEST(PlanarErrors, OutputsMustNotCollide) {
  auto const stack = fixture::prepare<double>(reference::random_stack(2, 3, {}, 1u));
  space const exec;
  using Kokkos::ALL;
  using range = Kokkos::pair<int, int>;
  fixture::DenseMatrix<double> const whole("whole", 8, 4), other("other", 8, 3);
  auto const y      = Kokkos::subview(whole, ALL, range(0, 3));
  auto const beside = Kokkos::subview(whole, ALL, 3);
  auto const inside = Kokkos::subview(whole, ALL, 1);
  EXPECT_EQ(message_of([&] { meander::forward(exec, stack, other, y, beside); }),
            "nothing was thrown");
  EXPECT_EQ(message_of([&] { meander::forward(exec, stack, other, y, inside); }),
            "meander::forward: argument log_det shares memory with argument y; expected no element "
            "in common");
  EXPECT_EQ(message_of([&] { meander::forward(exec, stack, y, other, inside); }),
            "meander::forward: argument log_det shares memory with argument z; expected no element "
            "in common");
  Kokkos::View<double**, Kokkos::LayoutStride, space::memory_space, Kokkos::MemoryUnmanaged> const
      one_row(whole.data(), Kokkos::LayoutStride(8, 0, 3, 1));
  EXPECT_EQ(message_of([&] { meander::forward(exec, stack, other, one_row); }),
            "meander::forward: argument y has strides 0 and 1 for extents 8 and 3; expected every "
            "element at an address of its own");
  EXPECT_EQ(message_of([&] { meander::forward(exec, stack, one_row, other); }),
            "nothing was thrown");
  Kokkos::fence();
}

}  // namespace
