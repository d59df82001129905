// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>

#include "planar_fixture.hpp"

/// The layouts in which tests hand rows over, and the pairs of types they go with.
namespace fixture {

/// A (rows, dim) View somewhere inside a larger allocation, as the layouts of users are.
template <class T>
struct Right {
  static auto make(int rows, int dim) { return DenseMatrix<T>("test::right", rows, dim); }
};

template <class T>
struct Left {
  static auto make(int rows, int dim) {
    return Kokkos::View<T**, Kokkos::LayoutLeft, space::memory_space>("test::left", rows, dim);
  }
};

/// Row-major with a pitch, starting at an odd offset: no row is aligned to anything but its values.
template <class T>
struct RightSubview {
  static auto make(int rows, int dim) {
    DenseMatrix<T> const whole("test::right_subview", rows + 2, dim + 4);
    return Kokkos::subview(whole, Kokkos::pair<int, int>(1, 1 + rows),
                           Kokkos::pair<int, int>(3, 3 + dim));
  }
};

template <class T>
struct LeftSubview {
  static auto make(int rows, int dim) {
    Kokkos::View<T**, Kokkos::LayoutLeft, space::memory_space> const whole("test::left_subview",
                                                                           rows + 4, dim + 2);
    return Kokkos::subview(whole, Kokkos::pair<int, int>(3, 3 + rows),
                           Kokkos::pair<int, int>(1, 1 + dim));
  }
};

/// No stride is one.
template <class T>
struct Strided {
  static auto make(int rows, int dim) {
    Kokkos::View<T***, Kokkos::LayoutRight, space::memory_space> const whole("test::strided", rows,
                                                                             dim, 3);
    return Kokkos::subview(whole, Kokkos::ALL, Kokkos::ALL, 1);
  }
};

template <class S, class C, template <class> class Z, template <class> class Y>
struct Case {
  using storage = S;
  using compute = C;
  using z_maker = Z<S>;
  using y_maker = Y<S>;
};

using Cases = ::testing::Types<
    Case<float, float, Right, Right>, Case<double, double, Right, Right>,
    Case<float, double, Right, Right>, Case<float, float, Left, Left>,
    Case<double, double, Left, Left>, Case<float, double, Left, Left>,
    Case<float, float, RightSubview, RightSubview>, Case<double, double, RightSubview, LeftSubview>,
    Case<float, double, LeftSubview, RightSubview>, Case<float, float, Strided, Strided>,
    Case<double, double, Left, Strided>, Case<float, double, Strided, Right>>;

}  // namespace fixture
