// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include <meander/impl/planar_prepare.hpp>

#include "device/path.hpp"
#include "planar_fixture.hpp"

/// Every kernel that a device has, forced on every shape it accepts, against the long double
/// reference: the decision between them must not hide one.
namespace {

using fixture::space;
using meander::impl::MapDirection;
using meander::impl::StridedMatrix;
using meander::impl::StridedVector;
using meander::impl::device::Path;

template <class Types>
class PlanarPaths : public ::testing::Test {
 protected:
  using S = typename Types::first_type;
  using C = typename Types::second_type;

  enum class Rows { rows, columns, unaligned };

  static char const* name(Path path) {
    switch (path) {
      case Path::registers: return "registers";
      case Path::tiled: return "tiled";
      case Path::tensor: return "tensor";
      case Path::automatic: break;
    }
    return "automatic";
  }

  /// A matrix of the wanted shape in `storage`: rows or columns at multiples of 16 bytes, or one
  /// element off.
  static StridedMatrix<S> lay_out(Kokkos::View<S*, typename space::memory_space> const& storage,
                                  int rows, int dim, Rows how) {
    std::int64_t const pitch = how == Rows::columns ? (rows + 3) / 4 * 4 : (dim + 3) / 4 * 4 + 4;
    bool const by_columns    = how == Rows::columns;
    return {storage.data() + (how == Rows::unaligned ? 1 : 0), rows, dim, by_columns ? 1 : pitch,
            by_columns ? pitch : 1};
  }

  static std::size_t offset(StridedMatrix<S> const& m, Rows how, int i, int d) {
    return std::size_t(i * m.stride0 + d * m.stride1) + (how == Rows::unaligned ? 1 : 0);
  }

  template <MapDirection direction>
  static void check(reference::Stack const& stack, int rows, Path path, Rows how, bool in_place) {
    SCOPED_TRACE(std::string(name(path)) + " D=" + std::to_string(stack.dim) +
                 " L=" + std::to_string(stack.layers) + " B=" + std::to_string(rows) +
                 (direction == MapDirection::forward ? " forward" : " inverse") +
                 (how == Rows::rows      ? " rows"
                  : how == Rows::columns ? " columns"
                                         : " unaligned") +
                 (in_place ? " in place" : ""));
    using View = Kokkos::View<S*, typename space::memory_space>;
    space const exec;
    auto const prepared    = fixture::prepare<C>(stack);
    auto const host        = fixture::random_rows<S>(rows, stack.dim, 5u + stack.dim);
    std::size_t const size = std::size_t(rows + 4) * (stack.dim + 8) + 1;
    View const zs("test::z", size), ys("test::y", size), log_det("test::log_det", rows);
    auto const z  = lay_out(zs, rows, stack.dim, how);
    auto const zh = Kokkos::create_mirror_view(zs);
    for (int i = 0; i < rows; ++i)
      for (int d = 0; d < stack.dim; ++d)
        zh(offset(z, how, i, d)) = host[std::size_t(i) * stack.dim + d];
    Kokkos::deep_copy(zs, zh);
    Kokkos::deep_copy(log_det, S(-777));
    auto const y = in_place ? z : lay_out(ys, rows, stack.dim, how);
    meander::impl::device::planar_map<direction>(exec, prepared.coefficients(),
                                                 meander::impl::as_const(z), y,
                                                 StridedVector<S>{log_det.data(), rows, 1}, path);
    exec.fence();
    auto const yh = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, in_place ? zs : ys);
    auto const lh = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, log_det);

    int const checked = std::min(rows, 6);
    for (int k = 0; k < checked; ++k) {
      int const i   = checked == rows ? k : int(std::int64_t(k) * (rows - 1) / (checked - 1));
      auto const zi = fixture::row(host, stack.dim, i);
      if constexpr (direction == MapDirection::forward) {
        auto const exact = reference::forward(stack, zi);
        compare(yh, lh, y, how, i, stack.dim, exact.y, exact.log_det,
                fixture::tolerance<C>(stack, zi, exact));
      } else {
        auto const exact = reference::inverse(stack, zi);
        compare(yh, lh, y, how, i, stack.dim, exact.z, exact.log_det,
                fixture::tolerance<C>(stack, zi, exact));
      }
    }
  }

  template <class Host, class Exact, class Scalar>
  static void compare(Host const& y, Host const& log_det, StridedMatrix<S> const& at, Rows how,
                      int i, int dim, Exact const& exact, Scalar exact_log_det,
                      fixture::Tolerance const& tolerance) {
    for (int d = 0; d < dim; ++d)
      ASSERT_NEAR(double(y(offset(at, how, i, d))), double(exact[d]), tolerance.y[d])
          << "row " << i << " coordinate " << d;
    ASSERT_NEAR(double(log_det(i)), double(exact_log_det), tolerance.log_det) << "row " << i;
  }

  static void check_everywhere(reference::Stack const& stack, int rows) {
    if constexpr (!meander::impl::is_host_space<space>) {
      for (Path const path : {Path::registers, Path::tiled, Path::tensor}) {
        if (!meander::impl::device::accepts<S, C>(path, stack.dim, stack.layers)) continue;
        for (Rows const how : {Rows::rows, Rows::columns, Rows::unaligned}) {
          check<MapDirection::forward>(stack, rows, path, how, false);
          check<MapDirection::inverse>(stack, rows, path, how, true);
        }
      }
    }
  }
};

using Types =
    ::testing::Types<std::pair<float, float>, std::pair<double, double>, std::pair<float, double>>;
TYPED_TEST_SUITE(PlanarPaths, Types);

TYPED_TEST(PlanarPaths, EveryDimension) {
  for (int const dim : {1, 2, 3, 4, 7, 8, 16, 31, 33, 64, 100, 128, 200, 256, 512, 513, 1030})
    TestFixture::check_everywhere(reference::random_stack(5, dim, {}, 1u + dim), 257);
}

TYPED_TEST(PlanarPaths, EveryNumberOfLayers) {
  for (int const layers : {0, 1, 8, 15, 16, 17, 33, 40, 64, 65, 100, 200})
    TestFixture::check_everywhere(reference::random_stack(layers, 260, {}, 1u + layers), 65);
}

TYPED_TEST(PlanarPaths, EveryBatch) {
  for (int const rows : {1, 2, 31, 32, 127, 128, 129, 1000})
    TestFixture::check_everywhere(reference::random_stack(18, 260, {}, 3), rows);
}

TYPED_TEST(PlanarPaths, EveryActivation) {
  for (auto const constraint : {meander::Constraint::softplus, meander::Constraint::log_softplus}) {
    meander::PlanarOptions options;
    options.constraint = constraint;
    options.activation = meander::Activation::leaky_relu;
    TestFixture::check_everywhere(reference::random_stack(20, 260, options, 11), 100);
    options.log_det_epsilon = 1e-3;
    TestFixture::check_everywhere(reference::random_stack(20, 260, options, 12), 100);
    options.activation = meander::Activation::tanh;
    TestFixture::check_everywhere(reference::random_stack(20, 260, options, 13), 100);
  }
}

}  // namespace
