// SPDX-License-Identifier: BSD-3-Clause
// Flows against a reference in long double: maps, log-densities and samples.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <meander/flow.hpp>
#include <meander/model.hpp>
#include <meander/random.hpp>

#include "flow_reference.hpp"
#include "message_of.hpp"
#include "planar_fixture.hpp"
#include "tools_recorder.hpp"

namespace {

using fixture::space;
using meander::Direction;
using reference::real;

template <class T>
using Vector = Kokkos::View<T*, space::memory_space>;
template <class T>
using Left = Kokkos::View<T**, Kokkos::LayoutLeft, space::memory_space>;

template <class Compute>
meander::Flow<Compute, space> prepare(reference::Flow const& flow) {
  using Result = meander::Flow<Compute, space>;
  std::vector<typename Result::layer_type> layers;
  for (auto const& stack : flow.stacks) layers.emplace_back(fixture::prepare<Compute>(stack));
  if (flow.loc.empty()) return Result(space(), meander::StandardNormal{}, layers, flow.direction);
  return Result(space(),
                meander::DiagonalNormalParameters{fixture::vector<float>(flow.loc),
                                                  fixture::vector<float>(flow.log_scale)},
                layers, flow.direction);
}

template <class S, class C>
struct Pair {
  using storage = S;
  using compute = C;
};

struct PairNames {
  template <class P>
  static std::string GetName(int) {
    auto const name = [](std::size_t size) { return size == 4 ? std::string("float") : "double"; };
    return name(sizeof(typename P::storage)) + "_" + name(sizeof(typename P::compute));
  }
};

template <class P>
class FlowTest : public ::testing::Test {
 protected:
  using Storage                       = typename P::storage;
  using Compute                       = typename P::compute;
  static constexpr double storage_eps = std::numeric_limits<Storage>::epsilon();
  static constexpr double compute_eps = std::numeric_limits<Compute>::epsilon();

  /// Some rows of a batch, first and last among them.
  static std::vector<int> checked(int rows) {
    std::vector<int> some;
    for (int i = 0; i < rows; i += std::max(1, rows / 5)) some.push_back(i);
    if (rows > 0) some.push_back(rows - 1);
    return some;
  }

  static void expect_row(std::vector<Storage> const& came, int dim, int i,
                         reference::Row const& exact, std::vector<reference::Row> const& noisy,
                         std::string const& what) {
    for (int d = 0; d < dim; ++d) {
      double worst = 0;
      for (auto const& n : noisy) worst = std::max(worst, double(std::abs(n.y[d] - exact.y[d])));
      ASSERT_NEAR(double(came[std::size_t(i) * dim + d] - exact.y[d]), 0,
                  6 * worst + storage_eps * double(std::abs(exact.y[d])) + 8 * compute_eps)
          << what << ", row " << i << ", coordinate " << d;
    }
  }

  /// forward or inverse, whichever `to_data` says, of rows z.
  template <class From, class To>
  static void expect_map(reference::Flow const& flow, bool to_data, From const& from,
                         To const& to) {
    int const rows = int(from.extent(0)), dim = flow.dim();
    auto const prepared = prepare<Compute>(flow);
    fixture::assign(from, fixture::random_rows<Storage>(rows, dim, 3u));
    auto const values = fixture::matrix_values(from);
    Vector<Storage> const log_det("test::log_det", rows);
    space const exec;
    if (to_data)
      meander::forward(exec, prepared, from, to, log_det);
    else
      meander::inverse(exec, prepared, from, to, log_det);
    exec.fence();
    auto const result  = fixture::matrix_values(to);
    auto const results = fixture::vector_values(log_det);
    for (int const i : checked(rows)) {
      auto const row   = fixture::row(values, dim, i);
      auto const exact = reference::map(flow, to_data, row);
      std::vector<reference::Row> noisy;
      for (unsigned const seed : {31u, 131u, 231u})
        noisy.push_back(reference::map(flow, to_data, row, compute_eps, seed));
      expect_row(result, dim, i, exact, noisy, to_data ? "forward" : "inverse");
      double worst = 0;
      for (auto const& n : noisy)
        worst = std::max(worst, double(std::abs(n.log_det - exact.log_det)));
      ASSERT_NEAR(double(results[i] - exact.log_det), 0,
                  6 * worst + storage_eps * double(std::abs(exact.log_det)) + 8 * compute_eps)
          << (to_data ? "forward" : "inverse") << ", row " << i << ", log_det";
    }
    // In place, without log_det: the same bits.
    if (to_data)
      meander::forward(exec, prepared, from, from);
    else
      meander::inverse(exec, prepared, from, from);
    exec.fence();
    ASSERT_EQ(fixture::matrix_values(from), result);
  }

  /// What log q may be off by: noise in the map, and the rounding of a sum of D squares.
  template <class T>
  static double log_prob_tolerance(reference::Flow const& flow, std::vector<T> const& x,
                                   real exact) {
    return reference::tolerance_of([&](unsigned seed) {
             return reference::log_prob(flow, x, compute_eps, seed) - exact;
           }) +
           4 * compute_eps * (flow.dim() + 2) + storage_eps * double(std::abs(exact));
  }

  static void expect_log_prob(reference::Flow const& flow, int rows) {
    int const dim       = flow.dim();
    auto const prepared = prepare<Compute>(flow);
    auto const values   = fixture::random_rows<Storage>(rows, dim, 4u);
    fixture::DenseMatrix<Storage> const right("test::x", rows, dim);
    Left<Storage> const left("test::x", rows, dim);
    fixture::assign(right, values);
    fixture::assign(left, values);
    Vector<Storage> const from_right("test::log_prob", rows), from_left("test::log_prob", rows);
    space const exec;
    meander::log_prob(exec, prepared, right, from_right);
    meander::log_prob(exec, prepared, left, from_left);
    exec.fence();
    auto const came = fixture::vector_values(from_right);
    ASSERT_EQ(came, fixture::vector_values(from_left));
    ASSERT_EQ(fixture::matrix_values(right), values);
    for (int const i : checked(rows)) {
      auto const x     = fixture::row(values, dim, i);
      real const exact = reference::log_prob(flow, x);
      ASSERT_NEAR(double(came[i] - exact), 0, log_prob_tolerance(flow, x, exact)) << "row " << i;
    }
  }

  static void expect_sample(reference::Flow const& flow, int rows, std::uint64_t first_row) {
    int const dim       = flow.dim();
    auto const prepared = prepare<Compute>(flow);
    fixture::DenseMatrix<Storage> const x("test::x", rows, dim), z("test::z", rows, dim);
    fixture::DenseMatrix<Compute> const normals("test::normals", rows, dim);
    Vector<Storage> const log_prob("test::log_prob", rows), of_stored("test::of_stored", rows);
    space const exec;
    meander::sample(exec, prepared, 42, first_row, x, log_prob, z);
    meander::fill_normal<Compute>(exec, 42, first_row, normals);
    meander::log_prob(exec, prepared, x, of_stored);
    exec.fence();
    auto const xs = fixture::matrix_values(x), zs = fixture::matrix_values(z);
    auto const logs = fixture::vector_values(log_prob), again = fixture::vector_values(of_stored);
    auto const ns = fixture::matrix_values(normals);
    for (int const i : checked(rows)) {
      std::vector<real> latent;
      for (int d = 0; d < dim; ++d) {
        real n = ns[std::size_t(i) * dim + d];
        if (!flow.loc.empty()) n = flow.loc[d] + std::exp(real(flow.log_scale[d])) * n;
        latent.push_back(n);
        ASSERT_NEAR(double(zs[std::size_t(i) * dim + d] - n), 0,
                    (storage_eps + 4 * compute_eps) * double(std::abs(n)) + 2 * compute_eps);
      }
      auto const exact = reference::map(flow, true, latent);
      std::vector<reference::Row> noisy;
      for (unsigned const seed : {31u, 131u, 231u})
        noisy.push_back(reference::map(flow, true, latent, compute_eps, seed));
      expect_row(xs, dim, i, exact, noisy, "sample");
      real const log_q = reference::log_base(flow, latent) - exact.log_det;
      double worst     = 0;
      for (auto const& n : noisy)
        worst = std::max(worst, double(std::abs(n.log_det - exact.log_det)));
      ASSERT_NEAR(double(logs[i] - log_q), 0,
                  6 * worst + 4 * compute_eps * (dim + 2) + storage_eps * double(std::abs(log_q)))
          << "row " << i;

      // The density of what is stored: exact is that of the stored row, and the two differ by what
      // rounding x changes.
      auto const stored          = fixture::row(xs, dim, i);
      real const log_q_of_stored = reference::log_prob(flow, stored);
      double const tolerance     = log_prob_tolerance(flow, stored, log_q_of_stored);
      ASSERT_NEAR(double(again[i] - log_q_of_stored), 0, tolerance) << "row " << i;
      ASSERT_NEAR(double(again[i] - logs[i]), 0,
                  2 * double(std::abs(log_q_of_stored - log_q)) + 2 * tolerance + 12 * worst)
          << "row " << i;
    }
  }
};

using Pairs = ::testing::Types<Pair<float, float>, Pair<double, double>, Pair<float, double>>;
TYPED_TEST_SUITE(FlowTest, Pairs, PairNames);

meander::PlanarOptions const leaky{.activation = meander::Activation::leaky_relu,
                                   .constraint = meander::Constraint::log_softplus};

/// Small shapes of every kind: both directions, both bases, one stack and two.
std::vector<reference::Flow> some_flows(int dim) {
  auto const tanh_stack  = reference::random_stack(5, dim, {}, 1u);
  auto const leaky_stack = reference::random_stack(3, dim, leaky, 2u);
  using Stacks           = std::vector<reference::Stack>;
  return {
      reference::random_flow(Direction::generative, Stacks{tanh_stack}, false, 5u),
      reference::random_flow(Direction::normalizing, Stacks{tanh_stack}, true, 6u),
      reference::random_flow(Direction::generative, Stacks{tanh_stack, leaky_stack}, true, 7u),
      reference::random_flow(Direction::normalizing, Stacks{leaky_stack, tanh_stack}, false, 8u)};
}

constexpr int dims[]    = {1, 3, 33, 100, 513};
constexpr int batches[] = {0, 1, 257};
/// So few rows that a tile holds fewer than it could, and one that is full is followed by others.
constexpr int small_batches[] = {9, 20, 40, 70, 140};

TYPED_TEST(FlowTest, ForwardAndInverseAgreeWithTheReference) {
  using S = typename TypeParam::storage;
  for (int const dim : dims)
    for (int const rows : batches)
      for (auto const& flow : some_flows(dim))
        for (bool const to_data : {true, false}) {
          this->expect_map(flow, to_data, fixture::DenseMatrix<S>("test::from", rows, dim),
                           Left<S>("test::to", rows, dim));
          if (this->HasFatalFailure()) return;
        }
}

TYPED_TEST(FlowTest, LogProbAgreesWithTheReference) {
  for (int const dim : dims)
    for (int const rows : batches)
      for (auto const& flow : some_flows(dim)) {
        this->expect_log_prob(flow, rows);
        if (this->HasFatalFailure()) return;
      }
}

TYPED_TEST(FlowTest, SmallBatchesAgreeWithTheReference) {
  for (int const rows : small_batches)
    for (auto const& flow : some_flows(7)) {
      this->expect_log_prob(flow, rows);
      this->expect_sample(flow, rows, 3);
      if (this->HasFatalFailure()) return;
    }
}

TYPED_TEST(FlowTest, SampleAgreesWithTheReferenceAndWithLogProb) {
  for (int const dim : dims)
    for (int const rows : batches)
      for (auto const& flow : some_flows(dim)) {
        this->expect_sample(flow, rows, std::uint64_t(rows) * 0x100000001);
        if (this->HasFatalFailure()) return;
      }
}

/// Bits of x, log_prob and z.
template <class S>
struct Sample {
  std::vector<S> x, log_prob, z;
  friend bool operator==(Sample const&, Sample const&) = default;
};

template <class S, class Flow, class Matrix>
Sample<S> sample_into(Flow const& flow, std::uint64_t seed, std::uint64_t first_row,
                      Matrix const& x, space const& exec = {}) {
  Matrix const z("test::z", x.extent(0), x.extent(1));
  Vector<S> const log_prob("test::log_prob", x.extent(0));
  meander::sample(exec, flow, seed, first_row, x, log_prob, z);
  exec.fence();
  return {fixture::matrix_values(x), fixture::vector_values(log_prob), fixture::matrix_values(z)};
}

TYPED_TEST(FlowTest, ARowOfASampleDependsOnItsNumberAlone) {
  using S = typename TypeParam::storage;
  for (int const dim : {2, 33, 600}) {
    auto const flow = prepare<typename TypeParam::compute>(some_flows(dim)[2]);
    int const rows  = 300;
    auto const all  = sample_into<S>(flow, 9, 1000, fixture::DenseMatrix<S>("test::x", rows, dim));
    EXPECT_EQ(all, sample_into<S>(flow, 9, 1000, Left<S>("test::x", rows, dim)));
    for (int const first : {0, 1, 64, 299})
      for (int const count : {1, 65, 236}) {
        if (first + count > rows) continue;
        auto const part = sample_into<S>(flow, 9, 1000u + unsigned(first),
                                         fixture::DenseMatrix<S>("test::x", count, dim));
        auto const at   = std::ptrdiff_t(first) * dim;
        EXPECT_TRUE(std::equal(part.x.begin(), part.x.end(), all.x.begin() + at));
        EXPECT_TRUE(std::equal(part.z.begin(), part.z.end(), all.z.begin() + at));
        EXPECT_TRUE(
            std::equal(part.log_prob.begin(), part.log_prob.end(), all.log_prob.begin() + first));
      }
    auto const other =
        sample_into<S>(flow, 10, 1000, fixture::DenseMatrix<S>("test::x", rows, dim));
    for (std::size_t i = 0; i < all.x.size(); ++i) ASSERT_NE(all.x[i], other.x[i]);
  }
}

TYPED_TEST(FlowTest, WhatIsNotAskedForChangesNothing) {
  using S         = typename TypeParam::storage;
  auto const flow = prepare<typename TypeParam::compute>(some_flows(5)[1]);
  fixture::DenseMatrix<S> const x("test::x", 77, 5), y("test::y", 77, 5);
  auto const all = sample_into<S>(flow, 3, 4, x);
  Vector<S> const log_prob("test::log_prob", 77);
  space const exec;
  meander::sample(exec, flow, 3, 4, y, log_prob);
  exec.fence();
  EXPECT_EQ(fixture::matrix_values(y), all.x);
  EXPECT_EQ(fixture::vector_values(log_prob), all.log_prob);
  Kokkos::deep_copy(y, S(0));
  meander::sample(exec, flow, 3, 4, y);
  exec.fence();
  EXPECT_EQ(fixture::matrix_values(y), all.x);
}

/// Whole vectors, tiles, pieces of tiles: many rows by one instance and by instances of other
/// numbers of threads.
TYPED_TEST(FlowTest, TheNumberOfThreadsDoesNotMatter) {
#if defined(KOKKOS_ENABLE_OPENMP)
  using S = typename TypeParam::storage;
  if constexpr (std::is_same_v<space, Kokkos::OpenMP>) {
    for (auto const& flow : some_flows(7)) {
      auto const prepared = prepare<typename TypeParam::compute>(flow);
      fixture::DenseMatrix<S> const x("test::x", 20011, 7);
      auto const one = sample_into<S>(prepared, 1, 2, x, space(1));
      Vector<S> const log_prob("test::log_prob", x.extent(0));
      meander::log_prob(space(1), prepared, x, log_prob);
      Kokkos::fence();
      auto const log_prob_of_one = fixture::vector_values(log_prob);
      for (int const threads : {2, 3}) {
        if (threads > space().concurrency()) continue;
        EXPECT_EQ(one, sample_into<S>(prepared, 1, 2, x, space(threads)));
        meander::log_prob(space(threads), prepared, x, log_prob);
        Kokkos::fence();
        EXPECT_EQ(log_prob_of_one, fixture::vector_values(log_prob));
      }
    }
  }
#endif
}

/// Nothing but kernels of ours, on the instance; on the host one of them is enough.
TYPED_TEST(FlowTest, CallsOnlyLaunchKernels) {
  using S = typename TypeParam::storage;
  for (int const dim : {1, 32, 600})
    for (auto const& flow : some_flows(dim)) {
      auto const prepared = prepare<typename TypeParam::compute>(flow);
      for (int const rows : {0, 1, 3000}) {
        fixture::DenseMatrix<S> const x("test::x", rows, dim), z("test::z", rows, dim);
        Vector<S> const log("test::log", rows);
        space const exec;
        Kokkos::fence();
        auto const launched = [&](auto const& call) {
          tools::Recorder const recorder;
          call();
          for (auto const& event : recorder.events()) {
            EXPECT_EQ(event.kind, tools::Kind::kernel) << event;
            EXPECT_TRUE(std::string_view(event.label).starts_with("meander::")) << event;
          }
          return int(recorder.events().size());
        };
        int const launches[] = {launched([&] { meander::sample(exec, prepared, 1, 2, x, log, z); }),
                                launched([&] { meander::sample(exec, prepared, 1, 2, x); }),
                                launched([&] { meander::log_prob(exec, prepared, x, log); }),
                                launched([&] { meander::forward(exec, prepared, z, x, log); }),
                                launched([&] { meander::inverse(exec, prepared, x, x); }),
                                launched([&] { meander::fill_normal(exec, 1, 2, x); })};
        // On devices the latent rows that a sample can give as well are drawn on their own.
        constexpr int for_latent = meander::impl::is_host_space<space> ? 1 : 2;
        for (std::size_t i = 0; i < std::size(launches); ++i) {
          if (rows == 0) {
            EXPECT_EQ(launches[i], 0);
          } else if (!prepared.uses_workspace()) {
            EXPECT_EQ(launches[i], i == 0 ? for_latent : 1);
          }
        }
        Kokkos::fence();
      }
    }
}

TEST(FlowMaking, CopiesAndStacksShareMemory) {
  auto const first  = reference::random_stack(3, 4, {}, 1u);
  auto const second = reference::random_stack(3, 4, {}, 2u);
  auto stack        = fixture::prepare<double>(first);
  meander::Flow const flow(space(), meander::StandardNormal{}, stack, Direction::normalizing);
  auto const copy = flow;  // NOLINT(performance-unnecessary-copy-initialization): it is tested
  EXPECT_EQ(copy.dim(), 4);
  EXPECT_EQ(copy.direction(), Direction::normalizing);
  EXPECT_EQ(copy.layers().size(), 1u);
  EXPECT_TRUE(copy.has_standard_normal_base());
  stack.refresh(space(), fixture::parameters<double>(second));
  meander::Flow const other(space(), meander::StandardNormal{}, fixture::prepare<double>(second),
                            Direction::normalizing);
  auto const sample = [](auto const& f) {
    return sample_into<double>(f, 1, 2, fixture::DenseMatrix<double>("test::x", 10, 4));
  };
  EXPECT_EQ(sample(copy), sample(other));
}

TEST(FlowMaking, WithoutLayersItIsTheBase) {
  reference::Flow const flow{Direction::generative, {}, {0.5, -1}, {-0.25, 1}};
  auto const prepared = prepare<double>(flow);
  fixture::DenseMatrix<double> const x("test::x", 100, 2);
  auto const s = sample_into<double>(prepared, 1, 2, x);
  EXPECT_EQ(s.x, s.z);
  Vector<double> const log_prob("test::log_prob", 100);
  meander::log_prob(space(), prepared, x, log_prob);
  Kokkos::fence();
  auto const again = fixture::vector_values(log_prob);
  for (int i = 0; i < 100; ++i) {
    auto const row   = fixture::row(s.x, 2, i);
    auto const exact = double(reference::log_base(flow, {row[0], row[1]}));
    EXPECT_NEAR(s.log_prob[i], exact, 1e-14);
    EXPECT_NEAR(again[i], exact, 1e-14);
  }
}

/// A model as a file would hold it.
meander::Model model_of(reference::Flow const& flow) {
  meander::Model model;
  model.direction = flow.direction;
  if (!flow.loc.empty()) model.base = meander::DiagonalNormal{flow.loc, flow.log_scale};
  for (auto const& stack : flow.stacks)
    model.layers.emplace_back(
        meander::PlanarLayers{stack.layers, stack.dim, stack.options, stack.w, stack.u, stack.b});
  return model;
}

TEST(FlowMaking, FromAModel) {
  for (auto const& flow : some_flows(6)) {
    auto const made = meander::make_flow<double>(space(), model_of(flow));
    fixture::DenseMatrix<double> const x("test::x", 50, 6);
    EXPECT_EQ(sample_into<double>(made, 1, 2, x),
              sample_into<double>(prepare<double>(flow), 1, 2, x));
    EXPECT_EQ(made.direction(), flow.direction);
  }
}

/// Without a constraint a layer may have no inverse; make_flow finds out.
TEST(FlowMaking, FromAModelWithoutConstraint) {
  fixture::DenseMatrix<double> const x("test::x", 50, 2);
  Vector<double> const log("test::log", 50);
  reference::Stack stack{1, 2, {.constraint = meander::Constraint::none}, {1, 0}, {-0.5, 1}, {0}};
  for (auto const direction : {Direction::generative, Direction::normalizing}) {
    auto const make = [&] {
      return meander::make_flow<double>(
          space(), model_of(reference::random_flow(direction, {stack}, false, 1u)));
    };
    stack.u[0]            = -0.5;
    auto const invertible = make();
    EXPECT_NO_THROW(meander::sample(space(), invertible, 1, 2, x, log));
    EXPECT_NO_THROW(meander::log_prob(space(), invertible, x, log));
    stack.u[0]          = -1.5;
    auto const singular = make();
    if (direction == Direction::generative) {
      EXPECT_NO_THROW(meander::sample(space(), singular, 1, 2, x, log));
      EXPECT_THROW(meander::log_prob(space(), singular, x, log), std::invalid_argument);
    } else {
      EXPECT_NO_THROW(meander::log_prob(space(), singular, x, log));
      EXPECT_THROW(meander::sample(space(), singular, 1, 2, x, log), std::invalid_argument);
    }
    Kokkos::fence();
  }
}

TEST(FlowErrors, OfMaking) {
  using Flow       = meander::Flow<double, space>;
  auto const stack = fixture::prepare<double>(reference::random_stack(2, 3, {}, 1u));
  auto const other = fixture::prepare<double>(reference::random_stack(2, 4, {}, 1u));
  Vector<double> const three("three", 3), two("two", 2), none("none", 0);
  meander::StandardNormal const standard;
  auto const generative = Direction::generative;
  EXPECT_EQ(message_of([&] { Flow(space(), standard, {}, generative); }),
            "meander::Flow: argument layers is empty, expected at least one layer, which says the "
            "dimension of a flow with a standard normal base");
  EXPECT_EQ(
      message_of([&] {
        Flow(space(), standard, {stack, other}, generative);
      }),
      "meander::Flow: the dimension of element 1 of argument layers is 4, expected 3 (that of "
      "element 0)");
  EXPECT_EQ(message_of([&] { Flow(space(), standard, stack, static_cast<Direction>(7)); }),
            "meander::Flow: direction is 7, expected one of the enumeration");
  EXPECT_EQ(
      message_of([&] {
        Flow(space(), meander::DiagonalNormalParameters{two, three}, stack, generative);
      }),
      "meander::Flow: extent 0 of argument loc is 2, expected 3 (the dimension of the layers)");
  EXPECT_EQ(
      message_of([&] {
        Flow(space(), meander::DiagonalNormalParameters{three, two}, stack, generative);
      }),
      "meander::Flow: extent 0 of argument log_scale is 2, expected 3 (the dimension of the flow)");
  EXPECT_EQ(message_of([&] {
              Flow(space(), meander::DiagonalNormalParameters{none, none}, {}, generative);
            }).substr(0, 76),
            "meander::Flow: extent 0 of argument loc (the dimension) is 0, expected 1 to ");
  auto model = model_of(some_flows(3)[0]);
  std::get<meander::PlanarLayers>(model.layers[0]).b.pop_back();
  EXPECT_EQ(message_of([&] { meander::make_flow<double>(space(), model); }),
            "meander::make_flow: the model holds 4 numbers of b, expected 5");
}

TEST(FlowErrors, OfCalls) {
  auto const flow = prepare<double>(some_flows(3)[0]);
  space const exec;
  fixture::DenseMatrix<double> const x("x", 8, 3), narrow("x", 8, 2), shorter("x", 7, 3),
      z("z", 8, 3);
  Vector<double> const log("log", 8), long_log("log", 9);
  EXPECT_EQ(
      message_of([&] { meander::log_prob(exec, flow, narrow, log); }),
      "meander::log_prob: extent 1 of argument x is 2, expected 3 (the dimension of the flow)");
  EXPECT_EQ(
      message_of([&] { meander::log_prob(exec, flow, x, long_log); }),
      "meander::log_prob: extent 0 of argument log_prob is 9, expected 8 (the number of rows)");
  EXPECT_EQ(
      message_of([&] { meander::log_prob(exec, flow, x, Kokkos::subview(x, Kokkos::ALL, 1)); }),
      "meander::log_prob: argument log_prob shares memory with argument x; expected no element "
      "in common");
  EXPECT_EQ(message_of([&] { meander::forward(exec, flow, z, shorter, log); }),
            "meander::forward: extent 0 of argument x is 7, expected 8 (the number of rows)");
  EXPECT_EQ(
      message_of([&] { meander::inverse(exec, flow, narrow, z); }),
      "meander::inverse: extent 1 of argument x is 2, expected 3 (the dimension of the flow)");
  EXPECT_EQ(message_of([&] { meander::inverse(exec, flow, x, z, long_log); }),
            "meander::inverse: extent 0 of argument log_det is 9, expected 8 (the number of rows)");
  EXPECT_EQ(message_of([&] { meander::sample(exec, flow, 1, 2, narrow); }),
            "meander::sample: extent 1 of argument x is 2, expected 3 (the dimension of the flow)");
  EXPECT_EQ(message_of([&] { meander::sample(exec, flow, 1, 2, x, log, x); }),
            "meander::sample: argument z shares memory with argument x; expected no element in "
            "common");
  EXPECT_EQ(message_of([&] { meander::sample(exec, flow, 1, 2, x, log, shorter); }),
            "meander::sample: extent 0 of argument z is 7, expected 8 (the number of rows)");
  EXPECT_EQ(
      message_of([&] { meander::sample(exec, flow, 1, std::uint64_t(-1), x); }),
      "meander::sample: argument first_row is 18446744073709551615, expected no more than 2^64 "
      "- 8 (for 8 rows)");
  Kokkos::fence();
}

}  // namespace
