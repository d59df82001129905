// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <random>
#include <vector>

#include <Kokkos_Core.hpp>

#include <meander/planar.hpp>

#include "planar_reference.hpp"

/// Moves data between plain vectors and Views of any layout, so that tests read as mathematics.
namespace fixture {

using space = Kokkos::DefaultExecutionSpace;

template <class T, class Layout = Kokkos::LayoutRight>
Kokkos::View<T**, Layout, space::memory_space> matrix(std::vector<double> const& values, int rows,
                                                      int columns) {
  Kokkos::View<T**, Layout, space::memory_space> view("test::matrix", rows, columns);
  auto const host = Kokkos::create_mirror_view(view);
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) host(i, j) = T(values[std::size_t(i) * columns + j]);
  Kokkos::deep_copy(view, host);
  return view;
}

template <class T>
Kokkos::View<T*, space::memory_space> vector(std::vector<double> const& values) {
  Kokkos::View<T*, space::memory_space> view("test::vector", values.size());
  auto const host = Kokkos::create_mirror_view(view);
  for (std::size_t i = 0; i < values.size(); ++i) host(i) = T(values[i]);
  Kokkos::deep_copy(view, host);
  return view;
}

template <class T>
auto parameters(reference::Stack const& stack) {
  return meander::PlanarParameters{matrix<T>(stack.w, stack.layers, stack.dim),
                                   matrix<T>(stack.u, stack.layers, stack.dim), vector<T>(stack.b)};
}

template <class Compute>
meander::PlanarStack<Compute, space> prepare(reference::Stack const& stack) {
  return {space{}, parameters<double>(stack), stack.options};
}

template <class T>
using DenseMatrix = Kokkos::View<T**, Kokkos::LayoutRight, space::memory_space>;

/// Element-wise copy between Views of any layouts, where deep_copy would refuse.
template <class To, class From>
struct CopyRows {
  To to;
  From from;
  KOKKOS_FUNCTION void operator()(int i) const {
    for (int j = 0; j < int(to.extent(1)); ++j) to(i, j) = from(i, j);
  }
};

template <class To, class From>
void copy_rows(To const& to, From const& from) {
  Kokkos::parallel_for("test::copy_rows", Kokkos::RangePolicy<space>(0, to.extent(0)),
                       CopyRows<To, From>{to, from});
  Kokkos::fence();
}

/// The values of a rank-2 View, row-major.
template <class View>
auto matrix_values(View const& view) {
  using T = typename View::non_const_value_type;
  DenseMatrix<T> const dense("test::dense", view.extent(0), view.extent(1));
  copy_rows(dense, view);
  auto const host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, dense);
  return std::vector<T>(host.data(), host.data() + host.size());
}

template <class View>
auto vector_values(View const& view) {
  auto const host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, view);
  std::vector<typename View::non_const_value_type> result;
  for (std::size_t i = 0; i < host.extent(0); ++i) result.push_back(host(i));
  return result;
}

/// Row-major values into a View of any layout.
template <class View, class T>
void assign(View const& view, std::vector<T> const& from) {
  DenseMatrix<T> const dense("test::dense", view.extent(0), view.extent(1));
  auto const host = Kokkos::create_mirror_view(dense);
  for (std::size_t i = 0; i < view.extent(0); ++i)
    for (std::size_t j = 0; j < view.extent(1); ++j) host(i, j) = from[i * view.extent(1) + j];
  Kokkos::deep_copy(dense, host);
  copy_rows(view, dense);
}

template <class T>
std::vector<T> random_rows(int rows, int dim, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<T> z(std::size_t(rows) * dim);
  for (T& x : z) x = T(normal(generator));
  return z;
}

template <class T>
std::vector<T> row(std::vector<T> const& matrix, int dim, int i) {
  auto const begin = matrix.begin() + std::ptrdiff_t(i) * dim;
  return {begin, begin + dim};
}

template <class T>
struct Result {
  std::vector<T> y, log_det;
};

/// A map on dense row-major Views, to vectors.
template <class T, class Map>
Result<T> mapped(int dim, std::vector<T> const& z, Map const& map) {
  std::size_t const rows = z.size() / dim;
  DenseMatrix<T> const zv("test::z", rows, dim), yv("test::y", rows, dim);
  Kokkos::View<T*, space::memory_space> const log_det("test::log_det", rows);
  assign(zv, z);
  space const exec;
  map(exec, zv, yv, log_det);
  exec.fence();
  return {matrix_values(yv), vector_values(log_det)};
}

template <class Compute, class T>
Result<T> forward(meander::PlanarStack<Compute, space> const& stack, std::vector<T> const& z) {
  return mapped(stack.dim(), z, [&](space const& exec, auto const&... views) {
    meander::forward(exec, stack, views...);
  });
}

template <class Compute, class T>
Result<T> inverse(meander::PlanarStack<Compute, space> const& stack, std::vector<T> const& y) {
  return mapped(stack.dim(), y, [&](space const& exec, auto const&... views) {
    meander::inverse(exec, stack, views...);
  });
}

/// How far a correct computation in Compute may be from the truth: a small multiple of what
/// rounding noise of that type does to this row, plus the rounding of the stored result.
struct Tolerance {
  std::vector<double> y;
  double log_det;
};

template <class Compute, class T>
Tolerance tolerance(reference::Stack const& stack, std::vector<T> const& z,
                    reference::Row const& exact) {
  constexpr double compute = std::numeric_limits<Compute>::epsilon();
  constexpr double storage = std::numeric_limits<T>::epsilon();
  constexpr int draws      = 3;
  constexpr double factor  = 6;
  double worst_y = 0, worst_log_det = 0;
  for (int i = 0; i < draws; ++i) {
    reference::Row const noisy = reference::forward(stack, z, compute, 17u + i);
    for (int d = 0; d < stack.dim; ++d)
      worst_y = std::max(worst_y, double(std::abs(noisy.y[d] - exact.y[d])));
    worst_log_det = std::max(worst_log_det, double(std::abs(noisy.log_det - exact.log_det)));
  }
  Tolerance t{{}, factor * worst_log_det + storage * double(std::abs(exact.log_det)) + 4 * compute};
  for (int d = 0; d < stack.dim; ++d)
    t.y.push_back(factor * worst_y + storage * double(std::abs(exact.y[d])) + 4 * compute);
  return t;
}

/// The same for the inverse: `y` is the tolerance of z.
template <class Compute, class T>
Tolerance tolerance(reference::Stack const& stack, std::vector<T> const& y,
                    reference::InverseRow const& exact) {
  constexpr double compute = std::numeric_limits<Compute>::epsilon();
  constexpr double storage = std::numeric_limits<T>::epsilon();
  constexpr int draws      = 3;
  constexpr double factor  = 6;
  double worst_z = 0, worst_log_det = 0;
  for (int i = 0; i < draws; ++i) {
    reference::InverseRow const noisy = reference::inverse(stack, y, compute, 17u + i);
    for (int d = 0; d < stack.dim; ++d)
      worst_z = std::max(worst_z, double(std::abs(noisy.z[d] - exact.z[d])));
    worst_log_det = std::max(worst_log_det, double(std::abs(noisy.log_det - exact.log_det)));
  }
  Tolerance t{{}, factor * worst_log_det + storage * double(std::abs(exact.log_det)) + 4 * compute};
  for (int d = 0; d < stack.dim; ++d)
    t.y.push_back(factor * worst_z + storage * double(std::abs(exact.z[d])) + 4 * compute);
  return t;
}

}  // namespace fixture
