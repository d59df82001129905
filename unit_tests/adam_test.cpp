// SPDX-License-Identifier: BSD-3-Clause
// Adam against a slow reference in long double, and against numbers of PyTorch.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include <Kokkos_Core.hpp>

#include <meander/adam.hpp>

#include "message_of.hpp"
#include "planar_fixture.hpp"
#include "tools_recorder.hpp"

namespace {

using fixture::space;
using meander::AdamOptions;
using Numbers = std::vector<double>;
using Loss    = Kokkos::View<double, space::memory_space>;

constexpr double nan_ = std::numeric_limits<double>::quiet_NaN();
constexpr double inf_ = std::numeric_limits<double>::infinity();

/// Kingma & Ba 2015, algorithm 1, and Loshchilov & Hutter 2019, algorithm 2, word for word.
struct Reference {
  using real = long double;
  AdamOptions o;
  std::vector<real> p, m, v, p_before, m_before, v_before;
  long t = 0, most = 0, refused = 0, undone = 0, stalled = 0;
  bool can_undo = false;
  real factor   = 1;

  Reference(AdamOptions const& options, Numbers const& start)
      : o(options), p(start.begin(), start.end()), m(p.size()), v(p.size()) {}

  void step(real rate, Numbers const& g, double loss) {
    real square = 0;
    for (double const x : g) square += real(x) * x;
    ++stalled;
    if (!std::isfinite(double(square)) || !std::isfinite(loss)) return refuse();
    p_before = p;
    m_before = m;
    v_before = v;
    ++t;
    real const clip = std::min<real>(1, real(o.max_grad_norm) / (std::sqrt(square) + 1e-6L));
    rate *= factor;
    for (std::size_t i = 0; i < p.size(); ++i) {
      real const gradient = clip * g[i] + (o.decoupled ? 0 : o.weight_decay * p[i]);
      m[i]                = o.beta1 * m[i] + (1 - real(o.beta1)) * gradient;
      v[i]                = o.beta2 * v[i] + (1 - real(o.beta2)) * gradient * gradient;
      real const m_hat    = m[i] / (1 - std::pow(real(o.beta1), real(t)));
      real const v_hat    = v[i] / (1 - std::pow(real(o.beta2), real(t)));
      if (o.decoupled) p[i] -= rate * o.weight_decay * p[i];
      p[i] -= rate * m_hat / (std::sqrt(v_hat) + o.epsilon);
    }
    can_undo = true;
    factor   = std::min<real>(1, factor * 1.1L);
    if (t > most) {
      most    = t;
      stalled = 0;
    }
  }

  void refuse() {
    ++refused;
    if (!can_undo) return;
    can_undo = false;
    p        = p_before;
    m        = m_before;
    v        = v_before;
    factor /= 2;
    --t;
    ++undone;
  }
};

/// Parameters or gradients: w, u, b side by side, as Views of any type and layout.
template <class T, class Layout>
struct Views {
  using Matrix = Kokkos::View<T**, Layout, space::memory_space>;
  using Vector = Kokkos::View<T*, space::memory_space>;
  int layers, dim;
  meander::PlanarParameters<Matrix, Matrix, Vector> views;

  Views(int layers_, int dim_, Numbers const& values) : layers(layers_), dim(dim_) {
    auto const part = [&](int begin, int end) {
      return Numbers(values.begin() + begin, values.begin() + end);
    };
    int const n = layers * dim;
    views       = {fixture::matrix<T, Layout>(part(0, n), layers, dim),
                   fixture::matrix<T, Layout>(part(n, 2 * n), layers, dim),
                   fixture::vector<T>(part(2 * n, 2 * n + layers))};
  }

  Numbers values() const {
    Numbers result;
    auto const append = [&](auto const& matrix) {
      auto const host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), matrix);
      for (int l = 0; l < layers; ++l)
        for (int d = 0; d < dim; ++d) result.push_back(host(l, d));
    };
    append(views.w);
    append(views.u);
    auto const host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), views.b);
    for (int l = 0; l < layers; ++l) result.push_back(host(l));
    return result;
  }
};

Numbers start(int count) {
  Numbers result;
  for (int i = 0; i < count; ++i) result.push_back(std::sin(i + 1));
  return result;
}

Numbers gradient(int count, int step) {
  Numbers result;
  for (int i = 0; i < count; ++i) result.push_back(std::cos(0.3 * step + i) * (i % 17 + 1) / 4);
  return result;
}

Loss loss_of(double value) {
  Loss loss("test::loss");
  Kokkos::deep_copy(loss, value);
  return loss;
}

AdamOptions clipped_adamw() {
  return {.beta1 = 0.85, .beta2 = 0.99, .weight_decay = 0.1, .decoupled = true, .max_grad_norm = 3};
}

template <class P, class G, class Layout>
void agrees_with_the_reference(int layers, int dim, AdamOptions const& options, double tolerance) {
  int const count = layers * (2 * dim + 1);
  Views<P, Layout> const parameters(layers, dim, start(count));
  Reference reference(options, parameters.values());
  meander::Adam<space> adam(space{}, layers, dim, options);
  for (int step = 0; step < 30; ++step) {
    // Now and then a gradient or a loss that is not finite, twice in a row as well, and first.
    bool const bad_gradient = step == 7 || step == 8 || step == 20;
    double const loss       = step == 0 || step == 15 ? nan_ : 1.0;
    Numbers g               = gradient(count, step);
    if (bad_gradient) g[std::size_t(step) % g.size()] = step == 20 ? -inf_ : nan_;
    Views<G, Layout> const gradients(layers, dim, g);
    double const rate = 0.05 / (1 + step);
    adam.step(space{}, rate, parameters.views, gradients.views, loss_of(loss));
    reference.step(rate, gradients.values(), loss);
    auto const came = parameters.values();
    for (int i = 0; i < count; ++i)
      ASSERT_NEAR(came[std::size_t(i)], double(reference.p[std::size_t(i)]), tolerance)
          << "parameter " << i << " in step " << step;
    auto const progress = adam.progress(space{});
    ASSERT_EQ(progress.taken, reference.t) << step;
    ASSERT_EQ(progress.refused, reference.refused) << step;
    ASSERT_EQ(progress.undone, reference.undone) << step;
    ASSERT_EQ(progress.stalled, reference.stalled) << step;
    ASSERT_NEAR(progress.rate_factor, double(reference.factor), 1e-14) << step;
  }
  EXPECT_EQ(reference.undone, 3);
  EXPECT_EQ(reference.refused, 5);
}

TEST(Adam, AgreesWithTheReferenceInEveryStep) {
  agrees_with_the_reference<double, double, Kokkos::LayoutRight>(2, 3, {}, 1e-14);
  agrees_with_the_reference<double, double, Kokkos::LayoutLeft>(3, 5, clipped_adamw(), 1e-14);
  agrees_with_the_reference<double, float, Kokkos::LayoutLeft>(
      1, 1, {.weight_decay = 0.2, .max_grad_norm = 1}, 1e-14);
  agrees_with_the_reference<float, double, Kokkos::LayoutRight>(4, 2, clipped_adamw(), 1e-5);
  agrees_with_the_reference<float, float, Kokkos::LayoutLeft>(2, 2, {}, 1e-5);
}

TEST(Adam, AgreesWithTheReferenceInSeveralChunks) {
  // 12 * 1001 parameters: three chunks, the last not full.
  agrees_with_the_reference<double, double, Kokkos::LayoutLeft>(12, 500, clipped_adamw(), 1e-14);
}

/// Ten steps with the learning rate 0.05 from start(14) with gradient(14, step).
void expect_numbers(AdamOptions const& options, Numbers const& expected) {
  Views<double, Kokkos::LayoutRight> const parameters(2, 3, start(14));
  meander::Adam<space> adam(space{}, 2, 3, options);
  for (int step = 0; step < 10; ++step) {
    Views<double, Kokkos::LayoutRight> const gradients(2, 3, gradient(14, step));
    adam.step(space{}, 0.05, parameters.views, gradients.views);
  }
  auto const came = parameters.values();
  for (std::size_t i = 0; i < came.size(); ++i) EXPECT_NEAR(came[i], expected[i], 2e-15) << i;
}

// The numbers of torch 2.15 in float64.
TEST(Adam, GivesTheNumbersOfPyTorch) {
  expect_numbers(
      {}, {0.50267486607124745, 0.95543921511684748, 0.62674289623237256, -0.38642309999233865,
           -0.93155972051355274, -0.76617905294770872, 0.25939861898511896, 0.89470724533135892,
           0.89309087119830599, -0.12317973729081982, -0.84454686246160993, -0.99756785536498649,
           -0.020310630074432418, 0.78087086868199285});
}

TEST(Adam, GivesTheNumbersOfPyTorchWithDecayAndClipping) {
  expect_numbers(
      {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.1, .max_grad_norm = 3},
      {0.45851615993035993, 0.85280498147500894, 0.61610388983130504, -0.40454450100204681,
       -0.93149301886321878, -0.76434585200408522, 0.28463948903964997, 0.92351948482161506,
       0.89687263438599729, -0.14740563088664779, -0.88598089597425955, -0.90502585931032553,
       0.00055283339613917265, 0.82744083228288534});
}

TEST(Adam, GivesTheNumbersOfPyTorchsAdamW) {
  expect_numbers(
      {.weight_decay = 0.1, .decoupled = true, .max_grad_norm = 3},
      {0.46887693234538907, 0.92211040459668525, 0.60756108277256293, -0.35608888780187431,
       -0.89814970936813576, -0.73948497070936459, 0.23383338562360481, 0.86051610858602279,
       0.85971627187442456, -0.10352842163486956, -0.80921111172662541, -0.9591312106309593,
       -0.033121290714248387, 0.74453287682909242});
}

TEST(Adam, UndoesToTheBit) {
  Views<double, Kokkos::LayoutRight> const parameters(2, 3, start(14));
  meander::Adam<space> adam(space{}, 2, 3);
  auto const step = [&](double loss) {
    Views<double, Kokkos::LayoutRight> const gradients(2, 3, gradient(14, 0));
    adam.step(space{}, 0.05, parameters.views, gradients.views, loss_of(loss));
    return parameters.values();
  };
  auto const first  = step(1);
  auto const second = step(1);
  EXPECT_NE(first, second);
  EXPECT_EQ(step(inf_), first);
  EXPECT_EQ(step(nan_), first);
  EXPECT_EQ(adam.progress(space{}).taken, 1);
  EXPECT_EQ(adam.progress(space{}).rate_factor, 0.5);
  EXPECT_EQ(adam.progress(space{}).stalled, 2);
  adam.reset(space{});
  EXPECT_EQ(adam.progress(space{}).taken, 0);
  EXPECT_EQ(adam.progress(space{}).rate_factor, 1);
}

TEST(Adam, IsAShortListOfAsynchronousKernels) {
  for (int const dim : {3, 3000}) {
    int const count = 2 * dim + 1;
    Views<double, Kokkos::LayoutRight> const parameters(1, dim, start(count));
    Views<double, Kokkos::LayoutRight> const gradients(1, dim, gradient(count, 0));
    meander::Adam<space> adam(space{}, 1, dim);
    auto const loss = loss_of(1);
    space const exec;
    tools::Recorder const recorder;
    adam.step(exec, 0.1, parameters.views, gradients.views, loss);
    EXPECT_EQ(recorder.events().size(), dim == 3 ? 1U : 2U);
    for (auto const& event : recorder.events()) {
      EXPECT_EQ(event.kind, tools::Kind::kernel) << event;
      EXPECT_TRUE(std::string_view(event.label).starts_with("meander::Adam::step")) << event;
    }
  }
}

TEST(Adam, RefusesWhatIsOutOfRange) {
  auto const options = [](AdamOptions const& o) { return message_of([&] { o.check(); }); };
  EXPECT_EQ(options({.beta1 = 1}), "meander::AdamOptions: beta1 is 1, expected a number in [0, 1)");
  EXPECT_EQ(options({.beta2 = nan_}),
            "meander::AdamOptions: beta2 is nan, expected a number in [0, 1)");
  EXPECT_EQ(options({.epsilon = 0}),
            "meander::AdamOptions: epsilon is 0, expected a finite number > 0");
  EXPECT_EQ(options({.weight_decay = -1}),
            "meander::AdamOptions: weight_decay is -1, expected a finite number >= 0");
  EXPECT_EQ(options({.max_grad_norm = 0}),
            "meander::AdamOptions: max_grad_norm is 0, expected a number > 0");

  Views<double, Kokkos::LayoutRight> const parameters(2, 3, start(14));
  Views<double, Kokkos::LayoutRight> const gradients(2, 3, gradient(14, 0));
  meander::Adam<space> two(space{}, 2, 3), three(space{}, 3, 3);
  EXPECT_EQ(message_of([&] { three.step(space{}, 0.1, parameters.views, gradients.views); }),
            "meander::Adam::step: extent 0 of argument w is 2, expected 3 (the number of layers)");
  EXPECT_EQ(message_of([&] { two.step(space{}, -0.1, parameters.views, gradients.views); }),
            "meander::Adam::step: argument learning_rate is -0.1, expected a finite number >= 0");
  EXPECT_NE(message_of([&] { two.step(space{}, 0.1, parameters.views, parameters.views); }),
            "nothing was thrown");
  Kokkos::View<double, Kokkos::MemoryUnmanaged> const inside(parameters.views.w.data());
  EXPECT_NE(message_of([&] { two.step(space{}, 0.1, parameters.views, gradients.views, inside); }),
            "nothing was thrown");
  EXPECT_EQ(message_of([] { meander::Adam<space>(space{}, -1, 3); }),
            "meander::Adam: argument num_layers is -1, expected 0 to 1073741823");
  EXPECT_EQ(message_of([] { meander::Adam<space>(space{}, 1, 0); }),
            "meander::Adam: argument dim is 0, expected 1 to 1073741823");
}

}  // namespace
