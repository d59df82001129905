// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <Kokkos_Core.hpp>

#include "../src/device/layer_scalars.hpp"
#include "planar_reference.hpp"
#if !defined(__CUDACC__)
#include "../src/host/math.hpp"
#endif

/// The scalar equation of the inverse, beta + m tanh(beta) = a, as the device kernels solve it
/// (compiled for the host) and as the host's vectors do.
namespace {

using meander::impl::TanhRoot;
using reference::real;

template <class T>
struct Row {
  using type = T;
  /// Of tanh, in epsilons: the device's tanh in float is accurate to 1e-7 of one, and to 2e-6 of
  /// itself near zero.
  static constexpr double tanh_error = sizeof(T) == 4 ? 16 : 4;

  struct Solved {
    T h, slope;
    int steps;
  };
  static Solved solve(T s, T m, T a) {
    Solved solved{};
    auto const root = TanhRoot<meander::impl::device::RowMath<T>>(s, m)(a, &solved.steps);
    solved.h        = root.h;
    solved.slope    = root.slope;
    return solved;
  }
};

#if !defined(__CUDACC__)
template <class T>
struct Vector {
  using type                         = T;
  using Solved                       = typename Row<T>::Solved;
  static constexpr double tanh_error = 6;

  /// The other lanes hold numbers that converge sooner, later and not at all; the answer must not
  /// depend on them.
  static Solved solve(T s, T m, T a) {
    namespace host = meander::impl::host;
    Solved solved{};
    auto const in_company = [&](host::vec<T> row) {
      int const lane  = host::width<T> - 1;
      row[lane]       = a;
      auto const root = TanhRoot<host::VectorMath<T>>(s, m)(row, &solved.steps);
      solved.h        = root.h[lane];
      solved.slope    = root.slope[lane] * 4;
    };
    host::vec<T> others = host::splat<T>(T(0.3) * a + T(0.1));
    others[0]           = std::numeric_limits<T>::quiet_NaN();
    in_company(others);
    Solved const first = solved;
    in_company(host::splat<T>(a));
    EXPECT_EQ(first.h, solved.h);
    EXPECT_EQ(first.slope, solved.slope);
    return solved;
  }
};
#endif

template <class Solver>
class TanhRootTest : public ::testing::Test {
 protected:
  using Value = typename Solver::type;

  /// s and m = s - 1 as the stack would round them, and the equation they stand for.
  struct Rounded {
    Value s, m;
    real exact_s, exact_m;

    explicit Rounded(real one_plus_m) : Rounded(one_plus_m, one_plus_m - 1) {}
    Rounded(real one_plus_m, real minus_one) : s(Value(one_plus_m)), m(Value(minus_one)) {
      bool const by_s = s < Value(0.5);
      exact_s         = by_s ? real(s) : 1 + real(m);
      exact_m         = by_s ? real(s) - 1 : real(m);
    }
  };

  /// Four roundings of the equation's terms, magnified by 1/det, and those of tanh itself.
  static void check(Rounded const& layer, Value a) {
    constexpr real epsilon = std::numeric_limits<Value>::epsilon();
    auto const got         = Solver::solve(layer.s, layer.m, a);
    real const beta        = reference::tanh_root(layer.exact_s, layer.exact_m, a);
    auto const exact       = reference::activate({}, beta);
    real const det         = exact.one_minus_slope + exact.slope * layer.exact_s;
    real const terms = std::abs(real(a)) + std::max<real>(layer.exact_m, 0) * std::abs(exact.h);
    real const off   = 4 * epsilon * terms / det;
    real const least = std::numeric_limits<Value>::min();
    ASSERT_NEAR(double(got.h), double(exact.h),
                double(exact.slope * off + Solver::tanh_error * epsilon * std::abs(exact.h) +
                       epsilon * least))
        << "s=" << double(layer.s) << " m=" << double(layer.m) << " a=" << double(a);
    ASSERT_NEAR(double(got.slope), double(exact.slope),
                double(exact.slope * (2 * std::min<real>(off, 1) + 16 * epsilon) + 8 * least))
        << "s=" << double(layer.s) << " m=" << double(layer.m) << " a=" << double(a);
    ASSERT_LE(got.steps, TanhRoot<meander::impl::device::RowMath<Value>>::max_steps / 2)
        << "s=" << double(layer.s) << " m=" << double(layer.m) << " a=" << double(a);
    ASSERT_EQ(Solver::solve(layer.s, layer.m, -a).h, -got.h);
  }
};

#if defined(__CUDACC__)
using Solvers = ::testing::Types<Row<float>, Row<double>>;
#else
using Solvers = ::testing::Types<Row<float>, Row<double>, Vector<float>, Vector<double>>;
#endif
TYPED_TEST_SUITE(TanhRootTest, Solvers);

TYPED_TEST(TanhRootTest, HardGrid) {
  using T                         = typename TypeParam::type;
  using Layer                     = typename TestFixture::Rounded;
  std::vector<Layer> const layers = {
      {1e-12L, -1 + 1e-12L},  {0.5L, -0.5L},  {1, -1e-20L},    {1, 0}, {1, 1e-20L}, {4, 3},
      {14 / 3.0L, 11 / 3.0L}, {18.2L, 17.2L}, {1e6L + 1, 1e6L}};
  for (Layer const& layer : layers)
    for (double const b : {0., 4.3, -4.3, 19.3, -19.3, 1e8, -1e8})
      for (double const c : {0., 1e-30, -1e-30, 12.3, -12.3, 20.3, -20.3, 1e30, -1e30})
        this->check(layer, T(c + b));
}

/// From the smallest determinant of the type to layers steeper than any use, and rows of every
/// size.
TYPED_TEST(TanhRootTest, EveryLayerAndEveryRow) {
  using T             = typename TypeParam::type;
  using Layer         = typename TestFixture::Rounded;
  constexpr int range = sizeof(T) == 4 ? 36 : 300;
  std::vector<real> determinants;
  for (int i = 0; i <= 60; ++i) determinants.push_back(std::pow(10.0L, (i - 30) * range / 30.0L));
  for (int i = 0; i <= 60; ++i) determinants.push_back(std::pow(10.0L, (i - 45) / 15.0L));
  for (real const s : determinants) {
    Layer const layer(s);
    for (int i = 0; i <= 80; ++i) this->check(layer, T(std::pow(10.0L, (i - 60) / 4.0L)));
    for (int i = 0; i <= 100; ++i) this->check(layer, T(real(i) / 8));
    // Where tanh saturates: a near s, and beyond.
    for (int i = 1; i <= 60; ++i) this->check(layer, T(std::min<real>(s, 1e30L) * i / 20));
    if (s > 2)
      for (int i = 1; i <= 40; ++i) this->check(layer, T(s - 1 + i));
  }
}

TYPED_TEST(TanhRootTest, ExtremesEndAndNotFiniteIsNaN) {
  using T              = typename TypeParam::type;
  constexpr T smallest = std::numeric_limits<T>::denorm_min();
  constexpr T largest  = std::numeric_limits<T>::max() / 8;  // the host takes 4 s
  constexpr T infinity = std::numeric_limits<T>::infinity();
  for (T const s : {T(0), smallest, std::numeric_limits<T>::min(), T(1e-20), T(0.3), T(1), T(3),
                    T(1e20), largest})
    for (T const a : {T(0), smallest, std::numeric_limits<T>::min(), T(1e-30), T(1), largest}) {
      auto const got = TypeParam::solve(s, s - 1, a);
      EXPECT_TRUE(got.h >= 0 && got.h <= 1) << "s=" << s << " a=" << a << " h=" << got.h;
      EXPECT_TRUE(got.slope >= 0 && got.slope <= T(1.0001)) << "s=" << s << " a=" << a;
      EXPECT_EQ(TypeParam::solve(s, s - 1, T(0)).h, 0) << "s=" << s;
    }
  for (T const a : {infinity, -infinity, std::numeric_limits<T>::quiet_NaN()})
    for (T const s : {T(1e-5), T(1), T(2), T(50)})
      EXPECT_TRUE(std::isnan(TanhRoot<meander::impl::device::RowMath<T>>(s, s - 1)(a).h));
}

}  // namespace
