// SPDX-License-Identifier: BSD-3-Clause
// Affine layers, alone and in flows, against long double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <meander/affine.hpp>
#include <meander/flow.hpp>
#include <meander/flow_gradient.hpp>
#include <meander/model.hpp>
#include <meander/planar_vjp.hpp>
#include <meander/random.hpp>

#include "message_of.hpp"
#include "planar_fixture.hpp"
#include "planar_layouts.hpp"
#include "planar_reference.hpp"
#include "tools_recorder.hpp"

namespace {

using fixture::space;
using meander::AffineLayer;
using meander::Direction;
using meander::Model;
using meander::PlanarLayers;
using reference::real;

template <class T>
using Vector = Kokkos::View<T*, space::memory_space>;

constexpr double eps = std::numeric_limits<double>::epsilon();

/// Shifts far from zero and scales far from one among ordinary ones.
AffineLayer random_affine(int dim, unsigned seed, bool hard) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  AffineLayer layer{dim, {}, {}};
  for (int d = 0; d < dim; ++d) {
    bool const odd = hard && d % 3 == 0;
    layer.shift.push_back(odd ? (d % 2 == 0 ? 1e6 : -1e6) : uniform(generator));
    layer.log_scale.push_back(odd ? std::log(1e-6) : uniform(generator));
  }
  return layer;
}

meander::AffineMap<space> prepare(AffineLayer const& layer) {
  return {space(), meander::AffineParameters{fixture::vector<double>(layer.shift),
                                             fixture::vector<double>(layer.log_scale)}};
}

/// The layer on a row, and how far double arithmetic may be off.
struct AffineRow {
  std::vector<real> y;
  std::vector<double> rounding;
  real log_det = 0;
};

template <class T>
AffineRow affine(AffineLayer const& layer, bool forward, std::vector<T> const& z) {
  AffineRow row;
  for (std::size_t d = 0; d < z.size(); ++d) {
    real const shift = layer.shift[d], log_scale = layer.log_scale[d];
    real const y =
        forward ? shift + std::exp(log_scale) * z[d] : (z[d] - shift) * std::exp(-log_scale);
    // That of the exponential, which magnifies nothing (log_scale is exact), and of the terms.
    real const terms =
        forward ? std::abs(shift) + std::exp(log_scale) * std::abs(real(z[d])) : std::abs(y);
    row.y.push_back(y);
    row.rounding.push_back(double(3 * eps * terms));
    row.log_det += forward ? log_scale : -log_scale;
  }
  return row;
}

// The layer on its own ----------------------------------------------------------------------------

template <class Case>
class Affine : public ::testing::Test {
 protected:
  using S                             = typename Case::storage;
  static constexpr double storage_eps = std::numeric_limits<S>::epsilon();

  static void check(AffineLayer const& layer, int rows) {
    int const dim = int(layer.dim);
    SCOPED_TRACE("D=" + std::to_string(dim) + " B=" + std::to_string(rows));
    auto const prepared = prepare(layer);
    auto const values   = fixture::random_rows<S>(rows, dim, 7u);
    for (bool const forward : {true, false}) {
      auto const z = Case::z_maker::make(rows, dim);
      auto const y = Case::y_maker::make(rows, dim);
      Vector<S> const log_det("test::log_det", rows);
      Kokkos::deep_copy(log_det, S(-777));
      fixture::assign(z, values);
      space const exec;
      forward ? meander::forward(exec, prepared, z, y, log_det)
              : meander::inverse(exec, prepared, z, y, log_det);
      exec.fence();
      auto const came       = fixture::matrix_values(y);
      auto const log_det_of = fixture::vector_values(log_det);
      ASSERT_EQ(fixture::matrix_values(z), values) << "z was written to";
      for (int i = 0; i < rows; ++i) {
        auto const exact = affine(layer, forward, fixture::row(values, dim, i));
        for (int d = 0; d < dim; ++d)
          ASSERT_NEAR(double(came[std::size_t(i) * dim + d] - exact.y[d]), 0,
                      exact.rounding[d] + storage_eps * double(std::abs(exact.y[d])))
              << (forward ? "forward" : "inverse") << ", row " << i << ", coordinate " << d;
        ASSERT_NEAR(double(log_det_of[i] - exact.log_det), 0,
                    storage_eps * double(std::abs(exact.log_det)) + eps);
      }
      // In place, without log_det: the same bits.
      forward ? meander::forward(exec, prepared, z, z) : meander::inverse(exec, prepared, z, z);
      exec.fence();
      ASSERT_EQ(fixture::matrix_values(z), came);
    }
  }
};

TYPED_TEST_SUITE(Affine, fixture::Cases);

TYPED_TEST(Affine, EveryShape) {
  for (int const dim : {1, 3, 33, 100, 513})
    for (int const rows : {0, 1, 257})
      for (bool const hard : {false, true}) {
        this->check(random_affine(dim, 3u, hard), rows);
        if (this->HasFatalFailure()) return;
      }
}

TYPED_TEST(Affine, LargeBatch) { this->check(random_affine(3, 4u, true), 100003); }

TEST(AffineMaking, RefreshAndCopies) {
  auto const first = random_affine(5, 1u, false), second = random_affine(5, 2u, true);
  auto layer      = prepare(first);
  auto const copy = layer;  // NOLINT(performance-unnecessary-copy-initialization): it is tested
  EXPECT_EQ(copy.dim(), 5);
  layer.refresh(space(), meander::AffineParameters{fixture::vector<double>(second.shift),
                                                   fixture::vector<double>(second.log_scale)});
  fixture::DenseMatrix<double> const z("test::z", 4, 5), by_copy("test::y", 4, 5),
      by_other("test::y", 4, 5);
  Kokkos::deep_copy(z, 0.5);
  meander::forward(space(), copy, z, by_copy);
  meander::forward(space(), prepare(second), z, by_other);
  Kokkos::fence();
  EXPECT_EQ(fixture::matrix_values(by_copy), fixture::matrix_values(by_other));
}

TEST(AffineMaking, FloatParametersAndStridedOnes) {
  auto const layer = random_affine(4, 1u, false);
  fixture::DenseMatrix<float> const both("test::both", 4, 2);
  std::vector<float> interleaved;
  AffineLayer rounded = layer;
  for (std::size_t d = 0; d < 4; ++d) {
    interleaved.push_back(float(layer.shift[d]));
    interleaved.push_back(float(layer.log_scale[d]));
    rounded.shift[d]     = interleaved[2 * d];
    rounded.log_scale[d] = interleaved[2 * d + 1];
  }
  fixture::assign(both, interleaved);
  meander::AffineMap const strided(
      space(), meander::AffineParameters{Kokkos::subview(both, Kokkos::ALL, 0),
                                         Kokkos::subview(both, Kokkos::ALL, 1)});
  fixture::DenseMatrix<double> const z("test::z", 4, 4), one("test::y", 4, 4), two("test::y", 4, 4);
  Kokkos::deep_copy(z, 0.5);
  meander::inverse(space(), strided, z, one);
  meander::inverse(space(), prepare(rounded), z, two);
  Kokkos::fence();
  EXPECT_EQ(fixture::matrix_values(one), fixture::matrix_values(two));
}

TEST(AffineValues, ACoordinateThatIsNotFiniteLeavesTheOthersAlone) {
  AffineLayer const layer{3, {1, 2, 3}, {0, 0.5, 1}};
  double const inf = std::numeric_limits<double>::infinity();
  fixture::DenseMatrix<double> const z("test::z", 2, 3), y("test::y", 2, 3);
  fixture::assign(z, std::vector<double>{0.25, std::nan(""), 1, -inf, 0.25, inf});
  for (bool const forward : {true, false}) {
    forward ? meander::forward(space(), prepare(layer), z, y)
            : meander::inverse(space(), prepare(layer), z, y);
    Kokkos::fence();
    auto const came = fixture::matrix_values(y);
    EXPECT_TRUE(std::isfinite(came[0]) && std::isfinite(came[2]) && std::isfinite(came[4]));
    EXPECT_TRUE(std::isnan(came[1]));
    EXPECT_EQ(came[3], -inf);
    EXPECT_EQ(came[5], inf);
  }
}

// In flows ----------------------------------------------------------------------------------------

PlanarLayers random_planar(int layers, int dim, unsigned seed) {
  auto const stack = reference::random_stack(layers, dim, {}, seed, 0.7);
  return {stack.layers, stack.dim, stack.options, stack.w, stack.u, stack.b};
}

reference::Stack stack_of(PlanarLayers const& planar) {
  return {int(planar.count), int(planar.dim), planar.options, planar.w, planar.u, planar.b};
}

/// From latent to data rows (to_data) or back. With `noise` > 0 as an arithmetic with that rounding
/// error has it, but for the affine layers, which compute in double.
template <class T>
reference::Row map(Model const& model, bool to_data, std::vector<T> const& from, real noise = 0,
                   unsigned seed = 0) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  reference::Row row{std::vector<real>(from.begin(), from.end()), 0};
  bool const as_fitted = to_data == (model.direction == Direction::generative);
  auto const count     = model.layers.size();
  for (std::size_t i = 0; i < count; ++i) {
    auto const& layer  = model.layers[as_fitted ? i : count - 1 - i];
    unsigned const own = seed + unsigned(i);
    if (auto const* const planar = std::get_if<PlanarLayers>(&layer)) {
      if (as_fitted) {
        auto next = reference::forward(stack_of(*planar), row.y, noise, own);
        row.y     = std::move(next.y);
        row.log_det += next.log_det;
      } else {
        auto next = reference::inverse(stack_of(*planar), row.y, noise, own);
        row.y     = std::move(next.z);
        row.log_det += next.log_det;
      }
      continue;
    }
    auto next = affine(std::get<AffineLayer>(layer), as_fitted, row.y);
    for (std::size_t d = 0; noise > 0 && d < next.y.size(); ++d)
      next.y[d] += uniform(generator) * (next.rounding[d] + noise * std::abs(next.y[d]));
    row.y = std::move(next.y);
    row.log_det += next.log_det;
    if (noise > 0) row.log_det += uniform(generator) * noise * (1 + std::abs(row.log_det));
  }
  return row;
}

real log_base(std::vector<real> const& z) {
  real const log_two_pi = std::log(2 * std::acos(real(-1)));
  real sum              = 0;
  for (real const n : z) sum -= n * n / 2 + log_two_pi / 2;
  return sum;
}

template <class T>
real log_prob(Model const& model, std::vector<T> const& x, real noise = 0, unsigned seed = 0) {
  auto const row = map(model, false, x, noise, seed);
  return log_base(row.y) + row.log_det;
}

/// Affine layers first, last, alone and on both sides, fitted in either direction.
std::vector<Model> some_models(int dim, bool hard) {
  auto const affine = random_affine(dim, 11u, hard), other = random_affine(dim, 12u, false);
  auto const planar = random_planar(4, dim, 13u);
  std::vector<Model> models;
  for (auto const direction : {Direction::normalizing, Direction::generative}) {
    Model model;
    model.direction = direction;
    model.layers    = {affine};
    models.push_back(model);
    model.layers = {affine, other};
    models.push_back(model);
    // Where standardisation stands: next to the data.
    if (direction == Direction::normalizing)
      model.layers = {affine, planar};
    else
      model.layers = {planar, affine};
    models.push_back(model);
    if (hard) continue;  // in the middle of a flow, a large shift drowns what it is added to
    model.layers = {other, planar, affine};
    models.push_back(model);
  }
  return models;
}

template <class S, class C>
struct Pair {
  using storage = S;
  using compute = C;
};

template <class P>
class AffineFlow : public ::testing::Test {
 protected:
  using Storage                       = typename P::storage;
  using Compute                       = typename P::compute;
  static constexpr double storage_eps = std::numeric_limits<Storage>::epsilon();
  static constexpr double compute_eps = std::numeric_limits<Compute>::epsilon();

  template <class F>
  static double worst(F const& error) {
    double result = 0;
    for (unsigned const seed : {31u, 131u, 231u})
      result = std::max(result, double(std::abs(error(seed))));
    return result;
  }

  static void expect_row(std::vector<Storage> const& came, int i, Model const& model, bool to_data,
                         std::vector<real> const& from) {
    int const dim    = int(model.dim());
    auto const exact = map(model, to_data, from);
    std::vector<reference::Row> noisy;
    for (unsigned const seed : {31u, 131u, 231u})
      noisy.push_back(map(model, to_data, from, compute_eps, seed));
    for (int d = 0; d < dim; ++d) {
      double off = 0;
      for (auto const& n : noisy) off = std::max(off, double(std::abs(n.y[d] - exact.y[d])));
      ASSERT_NEAR(double(came[std::size_t(i) * dim + d] - exact.y[d]), 0,
                  6 * off + storage_eps * double(std::abs(exact.y[d])) + 8 * compute_eps)
          << (to_data ? "to data" : "to latent") << ", row " << i << ", coordinate " << d;
    }
  }

  static void expect_log(Storage came, real exact, double noise, double more, char const* what) {
    ASSERT_NEAR(double(came - exact), 0,
                6 * noise + storage_eps * double(std::abs(exact)) + more * compute_eps)
        << what;
  }

  /// Rows that the flow can have drawn, which are what it is asked about.
  static std::vector<Storage> drawn(meander::Flow<Compute, space> const& flow, int rows) {
    fixture::DenseMatrix<Storage> const x("test::x", rows, flow.dim());
    meander::sample(space(), flow, 5, 0, x);
    Kokkos::fence();
    return fixture::matrix_values(x);
  }

  static void check(Model const& model, int rows) {
    int const dim = int(model.dim());
    SCOPED_TRACE("D=" + std::to_string(dim) + " B=" + std::to_string(rows) + ", " +
                 std::to_string(model.layers.size()) + " layers, " + to_string(model.direction));
    auto const flow = meander::make_flow<Compute>(space(), model);
    space const exec;
    // z to x and back, and the density.
    for (bool const to_data : {true, false}) {
      auto const values =
          to_data ? fixture::random_rows<Storage>(rows, dim, 3u) : drawn(flow, rows);
      auto const from = fixture::Right<Storage>::make(rows, dim);
      auto const to   = fixture::Left<Storage>::make(rows, dim);
      Vector<Storage> const log_det("test::log_det", rows), log_q("test::log_q", rows);
      fixture::assign(from, values);
      to_data ? meander::forward(exec, flow, from, to, log_det)
              : meander::inverse(exec, flow, from, to, log_det);
      if (!to_data) meander::log_prob(exec, flow, from, log_q);
      exec.fence();
      auto const came = fixture::matrix_values(to);
      auto const dets = fixture::vector_values(log_det), qs = fixture::vector_values(log_q);
      for (int i = 0; i < rows; i += std::max(1, rows / 5)) {
        auto const row = fixture::row(values, dim, i);
        std::vector<real> const real_row(row.begin(), row.end());
        expect_row(came, i, model, to_data, real_row);
        auto const exact = map(model, to_data, real_row);
        expect_log(dets[i], exact.log_det, worst([&](unsigned seed) {
                     return map(model, to_data, real_row, compute_eps, seed).log_det -
                            exact.log_det;
                   }),
                   8, "log_det");
        if (to_data) continue;
        real const exact_q = log_prob(model, real_row);
        expect_log(qs[i], exact_q, worst([&](unsigned seed) {
                     return log_prob(model, real_row, compute_eps, seed) - exact_q;
                   }),
                   4 * (dim + 2), "log_prob");
        if (::testing::Test::HasFatalFailure()) return;
      }
      // In place: the same bits.
      to_data ? meander::forward(exec, flow, from, from) : meander::inverse(exec, flow, from, from);
      exec.fence();
      ASSERT_EQ(fixture::matrix_values(from), came);
    }
  }

  static void check_sample(Model const& model, int rows) {
    int const dim   = int(model.dim());
    auto const flow = meander::make_flow<Compute>(space(), model);
    fixture::DenseMatrix<Storage> const x("test::x", rows, dim), z("test::z", rows, dim),
        alone("test::x", rows, dim);
    fixture::DenseMatrix<Compute> const normals("test::normals", rows, dim);
    Vector<Storage> const log_q("test::log_q", rows);
    space const exec;
    meander::sample(exec, flow, 42, 7, x, log_q, z);
    meander::sample(exec, flow, 42, 7, alone);
    meander::fill_normal<Compute>(exec, 42, 7, normals);
    exec.fence();
    auto const xs = fixture::matrix_values(x);
    auto const ns = fixture::matrix_values(normals);
    auto const qs = fixture::vector_values(log_q);
    EXPECT_EQ(fixture::matrix_values(alone), xs);
    for (int i = 0; i < rows; i += std::max(1, rows / 5)) {
      auto const n = fixture::row(ns, dim, i);
      std::vector<real> const latent(n.begin(), n.end());
      expect_row(xs, i, model, true, latent);
      auto const exact_q = log_base(latent) - map(model, true, latent).log_det;
      expect_log(qs[i], exact_q, worst([&](unsigned seed) {
                   return map(model, true, latent, compute_eps, seed).log_det -
                          map(model, true, latent).log_det;
                 }),
                 4 * (dim + 2), "log_prob of a sample");
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
};

using Pairs = ::testing::Types<Pair<float, float>, Pair<double, double>, Pair<float, double>>;
TYPED_TEST_SUITE(AffineFlow, Pairs);

TYPED_TEST(AffineFlow, AgreesWithTheReference) {
  for (int const dim : {1, 3, 33, 100, 513})
    for (int const rows : {0, 1, 257})
      for (bool const hard : {false, true})
        for (auto const& model : some_models(dim, hard)) {
          this->check(model, rows);
          if (this->HasFatalFailure()) return;
        }
}

TYPED_TEST(AffineFlow, SampleAgreesWithTheReference) {
  for (int const dim : {1, 3, 33, 513})
    for (int const rows : {0, 1, 100})
      for (bool const hard : {false, true})
        for (auto const& model : some_models(dim, hard)) {
          this->check_sample(model, rows);
          if (this->HasFatalFailure()) return;
        }
}

/// What --standardize stores: log q speaks of the data's units.
TYPED_TEST(AffineFlow, StandardisationChangesTheUnitsOnly) {
  using S = typename TypeParam::storage;
  using C = typename TypeParam::compute;
  AffineLayer const affine{2, {-4, 0.5}, {std::log(8), std::log(0.25)}};
  Model standard;
  standard.direction = Direction::normalizing;
  standard.layers    = {random_planar(4, 2, 13u)};
  Model model        = standard;
  model.layers.insert(model.layers.begin(), affine);
  std::vector<S> x, z;  // exact in either type
  for (int i = 0; i < 40; ++i) {
    x.push_back(S(i % 8) / 8);
    x.push_back(S(i - 20) / 4);
    z.push_back(-4 + 8 * x[2 * std::size_t(i)]);
    z.push_back(S(0.5) + x[2 * std::size_t(i) + 1] / 4);
  }
  fixture::DenseMatrix<S> const rows("test::x", 40, 2);
  Vector<S> const log_q("test::log_q", 40), log_q_standard("test::log_q", 40);
  fixture::assign(rows, x);
  meander::log_prob(space(), meander::make_flow<C>(space(), model), rows, log_q);
  Kokkos::fence();
  fixture::assign(rows, z);
  meander::log_prob(space(), meander::make_flow<C>(space(), standard), rows, log_q_standard);
  Kokkos::fence();
  auto const came     = fixture::vector_values(log_q);
  auto const expected = fixture::vector_values(log_q_standard);
  for (std::size_t i = 0; i < came.size(); ++i)
    EXPECT_NEAR(came[i], expected[i] + std::log(2.0), 4 * this->storage_eps * 20);
}

TYPED_TEST(AffineFlow, RowsAndThreadsDoNotMatter) {
  using S          = typename TypeParam::storage;
  auto const model = some_models(7, true)[2];
  auto const flow  = meander::make_flow<typename TypeParam::compute>(space(), model);
  int const rows   = 3001;
  fixture::DenseMatrix<S> const x("test::x", rows, 7), part("test::x", rows, 7);
  Vector<S> const all("test::log_q", rows), parts("test::log_q", rows);
  meander::sample(space(), flow, 1, 2, x);
  meander::log_prob(space(), flow, x, all);
  for (auto const& [first, last] : {std::pair{0, 1}, std::pair{1, 1200}, std::pair{1200, 3001}}) {
    std::pair<int, int> const range(first, last);
    meander::sample(space(), flow, 1, 2u + unsigned(first),
                    Kokkos::subview(part, range, Kokkos::ALL));
    meander::log_prob(space(), flow, Kokkos::subview(x, range, Kokkos::ALL),
                      Kokkos::subview(parts, range));
  }
  Kokkos::fence();
  EXPECT_EQ(fixture::matrix_values(part), fixture::matrix_values(x));
  EXPECT_EQ(fixture::vector_values(parts), fixture::vector_values(all));
#if defined(KOKKOS_ENABLE_OPENMP)
  if constexpr (std::is_same_v<space, Kokkos::OpenMP>) {
    meander::log_prob(space(1), flow, x, parts);
    Kokkos::fence();
    EXPECT_EQ(fixture::vector_values(parts), fixture::vector_values(all));
  }
#endif
}

TYPED_TEST(AffineFlow, CallsOnlyLaunchKernels) {
  using S = typename TypeParam::storage;
  for (auto const& model : some_models(5, false)) {
    auto const flow  = meander::make_flow<typename TypeParam::compute>(space(), model);
    auto const layer = prepare(random_affine(5, 1u, false));
    fixture::DenseMatrix<S> const x("test::x", 300, 5), z("test::z", 300, 5);
    Vector<S> const log("test::log", 300);
    Kokkos::fence();
    tools::Recorder const recorder;
    meander::sample(space(), flow, 1, 2, x, log, z);
    meander::log_prob(space(), flow, x, log);
    meander::forward(space(), flow, z, x, log);
    meander::inverse(space(), layer, x, x, log);
    for (auto const& event : recorder.events()) {
      EXPECT_EQ(event.kind, tools::Kind::kernel) << event;
      EXPECT_TRUE(std::string_view(event.label).starts_with("meander::")) << event;
    }
  }
  Kokkos::fence();
}

// Errors ------------------------------------------------------------------------------------------

TEST(AffineErrors, OfMaking) {
  Vector<double> const three("three", 3), two("two", 2), none("none", 0);
  EXPECT_EQ(message_of([&] {
              meander::AffineMap(space(), meander::AffineParameters{three, two});
            }),
            "meander::AffineMap: extent 0 of argument log_scale is 2, expected 3 (the dimension of "
            "the layer)");
  EXPECT_EQ(message_of([&] {
              meander::AffineMap(space(), meander::AffineParameters{none, none});
            }).substr(0, 83),
            "meander::AffineMap: extent 0 of argument shift (the dimension) is 0, expected 1 to ");
  auto layer = prepare(random_affine(3, 1u, false));
  EXPECT_EQ(message_of([&] {
              layer.refresh(space(), meander::AffineParameters{two, two});
            }),
            "meander::AffineMap: extent 0 of argument shift is 2, expected 3 (the dimension of the "
            "layer)");
  Model model;
  model.layers = {random_affine(3, 1u, false)};
  std::get<AffineLayer>(model.layers[0]).log_scale.pop_back();
  EXPECT_EQ(message_of([&] { meander::make_flow<double>(space(), model); }),
            "meander::make_flow: the model holds 2 numbers of log_scale, expected 3");
  model.layers = {random_planar(2, 3, 1u), random_affine(4, 1u, false)};
  EXPECT_EQ(
      message_of([&] { meander::make_flow<double>(space(), model); }),
      "meander::Flow: the dimension of element 1 of argument layers is 4, expected 3 (that of "
      "element 0)");
}

TEST(AffineErrors, OfCalls) {
  auto const layer = prepare(random_affine(3, 1u, false));
  space const exec;
  fixture::DenseMatrix<double> const z("z", 8, 3), y("y", 8, 3), narrow("y", 8, 2),
      shorter("y", 7, 3);
  Vector<double> const log("log", 8), long_log("log", 9);
  EXPECT_EQ(
      message_of([&] { meander::forward(exec, layer, narrow, y); }),
      "meander::forward: extent 1 of argument z is 2, expected 3 (the dimension of the affine "
      "layer)");
  EXPECT_EQ(message_of([&] { meander::inverse(exec, layer, y, shorter, log); }),
            "meander::inverse: extent 0 of argument z is 7, expected 8 (extent 0 of y)");
  EXPECT_EQ(message_of([&] { meander::inverse(exec, layer, y, z, long_log); }),
            "meander::inverse: extent 0 of argument log_det is 9, expected 8 (extent 0 of y)");
  EXPECT_EQ(
      message_of([&] { meander::forward(exec, layer, z, y, Kokkos::subview(z, Kokkos::ALL, 1)); }),
      "meander::forward: argument log_det shares memory with argument z; expected no element "
      "in common");
}

TEST(AffineErrors, GradientsAreOfPlanarLayersOnly) {
  auto const stack = fixture::prepare<double>(reference::random_stack(2, 3, {}, 1u));
  meander::PlanarVjpWorkspace const workspace(space(), stack, 8);
  fixture::DenseMatrix<double> const x("x", 8, 3), grad_x("grad_x", 8, 3);
  Model model;
  model.layers        = {random_affine(3, 1u, false)};
  auto const gradient = [&] {
    meander::grad_log_prob(space(), workspace, meander::make_flow<double>(space(), model), x,
                           grad_x);
  };
  EXPECT_EQ(message_of(gradient),
            "meander::grad_log_prob: the layer of argument flow is affine, expected a stack of "
            "planar layers (all that has gradients so far)");
  model.layers.emplace_back(random_planar(2, 3, 1u));
  EXPECT_EQ(message_of(gradient),
            "meander::grad_log_prob: the number of stacks of argument flow is 2, expected 1 (all "
            "that has gradients so far)");
}

}  // namespace
