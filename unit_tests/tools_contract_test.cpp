// SPDX-License-Identifier: BSD-3-Clause
// What a call asks of Kokkos: labels, instances, and that the hot path never allocates, copies or
// waits.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>

#include <meander/planar.hpp>

#include "tools_recorder.hpp"

namespace {

using space = Kokkos::DefaultExecutionSpace;
using tools::Event;
using tools::Kind;

template <class Space>
std::vector<Space> two_instances() {
#if defined(KOKKOS_ENABLE_OPENMP)
  // partition_space hands out the default instance twice unless nested parallelism is switched on.
  if constexpr (std::is_same_v<Space, Kokkos::OpenMP>) {
    int const threads = std::max(1, Space().concurrency() / 2);
    return {Space(threads), Space(threads)};
  }
#endif
  return Kokkos::Experimental::partition_space(Space(), std::vector<int>{1, 1});
}

template <class View>
void fill(View const& view, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  auto const host = Kokkos::create_mirror_view(view);
  for (std::size_t i = 0; i < host.span(); ++i)
    host.data()[i] = typename View::non_const_value_type(0.5 * normal(generator));
  Kokkos::deep_copy(view, host);
}

template <class T>
auto random_parameters(int layers, int dim, unsigned seed) {
  Kokkos::View<T**, space> const w("test::w", layers, dim), u("test::u", layers, dim);
  Kokkos::View<T*, space> const b("test::b", layers);
  fill(w, seed);
  fill(u, seed + 1);
  fill(b, seed + 2);
  return meander::PlanarParameters{w, u, b};
}

void expect_our_labels(std::vector<Event> const& events) {
  for (Event const& event : events) {
    if (event.kind == Kind::fence || event.kind == Kind::deep_copy) continue;
    EXPECT_TRUE(std::string_view(event.label).starts_with("meander::")) << event;
  }
}

void launch_something() {
  Kokkos::parallel_for("test::something", Kokkos::TeamPolicy<space>(1, 1),
                       KOKKOS_LAMBDA(Kokkos::TeamPolicy<space>::member_type const&){});
}

/// Nothing but kernels (and regions around them), all on the given instance.
void expect_only_kernels_on(space const& exec, std::vector<Event> const& events) {
  // Serial, OpenMP and Threads report the same id for all their instances; on a device it tells
  // them apart.
  std::uint32_t const device = Kokkos::Tools::Experimental::device_id(exec);
  for (Event const& event : events) {
    EXPECT_TRUE(event.kind == Kind::kernel || event.kind == Kind::region) << event;
    if (event.kind == Kind::kernel) {
      EXPECT_EQ(event.device, device) << event;
    }
  }
}

template <class Types>
class ToolsContract : public ::testing::Test {};

template <class S, class C>
struct Types {
  using Storage = S;
  using Compute = C;
};

struct TypeNames {
  template <class T>
  static std::string GetName(int) {
    auto const name = [](auto value) {
      return sizeof(value) == 4 ? std::string("float") : "double";
    };
    return name(typename T::Storage()) + "_" + name(typename T::Compute());
  }
};

using Pairs = ::testing::Types<Types<float, float>, Types<double, double>, Types<float, double>>;
TYPED_TEST_SUITE(ToolsContract, Pairs, TypeNames);

TEST(ToolsRecorder, SeesAllocationsCopiesFencesAndKernels) {
  tools::Recorder const recorder;
  {
    Kokkos::View<int*, space> const view("test::view", 1);
    Kokkos::deep_copy(Kokkos::create_mirror_view(view), view);
    Kokkos::deep_copy(space(), view, 1);
    launch_something();
    Kokkos::fence("test::fence");
  }
  for (Kind const kind :
       {Kind::kernel, Kind::allocation, Kind::deallocation, Kind::deep_copy, Kind::fence})
    EXPECT_FALSE(recorder.of_kind(kind).empty()) << int(kind);
}

meander::PlanarOptions const all_options[] = {
    {},
    {.activation = meander::Activation::leaky_relu,
     .constraint = meander::Constraint::log_softplus},
    {.constraint = meander::Constraint::none, .log_det_epsilon = 1e-8}};

TYPED_TEST(ToolsContract, ConstructionLabelsWhatItDoesAndStaysOnTheInstance) {
  using Compute = typename TypeParam::Compute;
  for (space const& exec : two_instances<space>())
    for (auto const& [layers, dim] : {std::pair{0, 3}, {1, 1}, {8, 32}, {70, 5}, {3, 600}}) {
      auto const parameters = random_parameters<typename TypeParam::Storage>(layers, dim, 1);
      tools::Recorder const recorder;
      {
        meander::PlanarStack<Compute> const stack(exec, parameters);
        // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): what a copy does is tested
        meander::PlanarStack<Compute> const copy = stack;
        EXPECT_EQ(copy.s().data(), stack.s().data());
        exec.fence();
      }
      expect_our_labels(recorder.events());
      EXPECT_EQ(recorder.of_kind(Kind::allocation).size(), 1u);
      EXPECT_EQ(recorder.of_kind(Kind::deallocation).size(), 1u);
      EXPECT_TRUE(recorder.of_kind(Kind::deep_copy).empty());
      EXPECT_EQ(recorder.of_kind(Kind::kernel).empty(), layers == 0);
      expect_only_kernels_on(exec, recorder.of_kind(Kind::kernel));
    }
}

TYPED_TEST(ToolsContract, RefreshOnlyLaunchesKernelsOnTheInstance) {
  using Compute = typename TypeParam::Compute;
  for (auto const& options : all_options)
    for (auto const& [layers, dim] : {std::pair{0, 3}, {1, 1}, {8, 32}, {70, 5}, {3, 600}}) {
      auto const as_double = random_parameters<double>(layers, dim, 3);
      auto const as_float  = random_parameters<float>(layers, dim, 4);
      meander::PlanarStack<Compute> stack(space(), as_double, options);
      for (space const& exec : two_instances<space>()) {
        Kokkos::fence();
        tools::Recorder const recorder;
        stack.refresh(exec, as_double);
        stack.refresh(exec, as_float);
        expect_our_labels(recorder.events());
        expect_only_kernels_on(exec, recorder.events());
        EXPECT_EQ(recorder.events().empty(), layers == 0);
      }
    }
}

template <class Compute, class Matrix, class Vector>
void expect_asynchronous_maps(meander::PlanarStack<Compute> const& stack, Matrix const& z,
                              Matrix const& y, Vector const& log_det) {
  SCOPED_TRACE("L = " + std::to_string(stack.num_layers()) +
               ", D = " + std::to_string(stack.dim()) + ", B = " + std::to_string(z.extent(0)));
  bool const has_inverse = stack.options().constraint != meander::Constraint::none;
  // Instances that have never run anything: no map needs a warm-up.
  for (space const& exec : two_instances<space>()) {
    Kokkos::fence();
    tools::Recorder const recorder;
    meander::forward(exec, stack, z, y, log_det);
    meander::forward(exec, stack, z, y);
    meander::forward(exec, stack, y, y, log_det);
    if (has_inverse) {
      meander::inverse(exec, stack, y, z, log_det);
      meander::inverse(exec, stack, y, z);
      meander::inverse(exec, stack, z, z, log_det);
    }
    expect_our_labels(recorder.events());
    expect_only_kernels_on(exec, recorder.events());
    EXPECT_EQ(recorder.of_kind(Kind::kernel).empty(), z.extent(0) == 0);
  }
}

TYPED_TEST(ToolsContract, MapsOnlyLaunchKernelsOnTheInstance) {
  using Storage = typename TypeParam::Storage;
  using Compute = typename TypeParam::Compute;
  for (auto const& options : all_options)
    for (auto const& [layers, dim] :
         {std::pair{0, 3}, {1, 1}, {8, 2}, {5, 7}, {8, 32}, {70, 5}, {33, 100}, {3, 600}}) {
      meander::PlanarStack<Compute> const stack(space(), random_parameters<Storage>(layers, dim, 5),
                                                options);
      for (int const batch : {0, 1, 257, 10000}) {
        Kokkos::View<Storage*, space> const log_det("test::log_det", batch);
        Kokkos::View<Storage**, Kokkos::LayoutRight, space> const z("test::z", batch, dim + 1);
        Kokkos::View<Storage**, Kokkos::LayoutRight, space> const y("test::y", batch, dim + 1);
        Kokkos::View<Storage**, Kokkos::LayoutLeft, space> const z_left("test::z", batch, dim);
        Kokkos::View<Storage**, Kokkos::LayoutLeft, space> const y_left("test::y", batch, dim);
        auto const odd = std::pair(1, dim + 1);
        expect_asynchronous_maps(stack, Kokkos::subview(z, Kokkos::ALL, odd),
                                 Kokkos::subview(y, Kokkos::ALL, odd), log_det);
        expect_asynchronous_maps(stack, z_left, y_left, log_det);
      }
    }
}

/// Only the check for an inverse waits, and only on the instance.
TYPED_TEST(ToolsContract, CheckingForAnInverseWaitsForTheInstance) {
  using Storage = typename TypeParam::Storage;
  Kokkos::View<Storage**, space> const w("test::w", 5, 3);
  Kokkos::View<Storage*, space> const b("test::b", 5);
  auto const parameters = meander::PlanarParameters{w, w, b};
  meander::PlanarOptions options;
  options.constraint = meander::Constraint::none;
  options.invertible = true;
  for (space const& exec : two_instances<space>()) {
    Kokkos::fence();
    tools::Recorder const recorder;
    {
      meander::PlanarStack<typename TypeParam::Compute> const stack(exec, parameters, options);
      exec.fence();
    }
    expect_our_labels(recorder.events());
    EXPECT_TRUE(recorder.of_kind(Kind::deep_copy).empty());
    expect_only_kernels_on(exec, recorder.of_kind(Kind::kernel));
  }
}

template <class View>
bool same_bits(View const& a, View const& b) {
  auto const x = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), a);
  auto const y = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), b);
  return x.span() == y.span() &&
         std::memcmp(x.data(), y.data(), x.span() * sizeof(typename View::value_type)) == 0;
}

/// One host thread's share of the test below.
template <class Storage>
struct Batch {
  using Matrix = Kokkos::View<Storage**, Kokkos::LayoutRight, space>;
  using Vector = Kokkos::View<Storage*, space>;

  Batch(int rows, int dim, unsigned seed)
      : z("test::z", rows, dim),
        y("test::y", rows, dim),
        expected_y("test::expected_y", rows, dim),
        log_det("test::log_det", rows),
        expected_log_det("test::expected_log_det", rows) {
    fill(z, seed);
  }

  Matrix z, y, expected_y;
  Vector log_det, expected_log_det;
};

TYPED_TEST(ToolsContract, TwoInstancesShareAStackFromTwoHostThreads) {
  using Storage = typename TypeParam::Storage;
  // The Threads back end may only be used from the thread that initialized Kokkos.
  if (std::string_view(space::name()) == "Threads") GTEST_SKIP() << "Threads has one instance.";
  constexpr int dim = 19;
  meander::PlanarStack<typename TypeParam::Compute> const stack(
      space(), random_parameters<Storage>(13, dim, 6));
  Batch<Storage> batches[] = {{1003, dim, 7}, {407, dim, 8}};
  for (auto const& batch : batches)
    meander::forward(space(), stack, batch.z, batch.expected_y, batch.expected_log_det);
  Kokkos::fence();

  auto const instances = two_instances<space>();
  int wrong[]          = {0, 0};
  auto const work      = [&](int i) {
    auto const& batch = batches[i];
    for (int repeat = 0; repeat < 100; ++repeat) {
      Kokkos::deep_copy(instances[i], batch.y, Storage(0));
      meander::forward(instances[i], stack, batch.z, batch.y, batch.log_det);
      instances[i].fence();
      if (!same_bits(batch.y, batch.expected_y) ||
          !same_bits(batch.log_det, batch.expected_log_det))
        ++wrong[i];
    }
  };
  std::thread first(work, 0), second(work, 1);
  first.join();
  second.join();
  EXPECT_EQ(wrong[0], 0);
  EXPECT_EQ(wrong[1], 0);
}

}  // namespace
