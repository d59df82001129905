// SPDX-License-Identifier: BSD-3-Clause
// Training: that it finds what the data was drawn from, stops, resumes, and does not depend on
// threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <Kokkos_Core.hpp>

#include <meander/flow.hpp>
#include <meander/impl/permutation.hpp>
#include <meander/model_file.hpp>
#include <meander/random.hpp>
#include <meander/trainer.hpp>

#include "message_of.hpp"
#include "planar_fixture.hpp"
#include "tools_recorder.hpp"

namespace {

using fixture::space;
using meander::Direction;
using meander::Model;
using meander::PlanarLayers;
using meander::TrainerOptions;
using meander::TrainingError;
using meander::TrainingReport;
using meander::TrainingResult;
using Trainer = meander::Trainer<double, space>;
using Rows    = Kokkos::View<double**, Kokkos::LayoutRight, space::memory_space>;
using Numbers = Kokkos::View<double*, space::memory_space>;

constexpr double nan_ = std::numeric_limits<double>::quiet_NaN();

double mean(Numbers const& numbers) {
  auto const host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), numbers);
  double sum      = 0;
  for (std::size_t i = 0; i < host.size(); ++i) sum += host(i);
  return sum / double(host.size());
}

/// Rows of a known flow, and the mean of -log q of the flow itself over them: no other model of
/// the data can be expected to do better, but for fitting the noise.
struct Known {
  Rows rows;
  double loss = 0;

  Known(int dim, Direction direction, int count, std::uint64_t seed = 3) {
    meander::InitialOptions options;
    options.u_scale = 1.5;
    options.b_scale = 0.5;
    auto const flow = meander::make_flow<double>(
        space{}, meander::initial_planar_model(2, dim, direction, 11, options));
    rows = Rows("test::rows", count, dim);
    Numbers const log_q("test::log_q", count);
    meander::sample(space{}, flow, seed, 0, rows, log_q);
    loss = -mean(log_q);
  }
};

TrainerOptions options(std::int64_t steps, std::int64_t batch = 0) {
  TrainerOptions o;
  o.steps                 = steps;
  o.batch                 = batch;
  o.seed                  = 5;
  o.learning_rate.initial = 1e-2;
  return o;
}

Trainer trainer(int dim, TrainerOptions const& o, Direction direction = Direction::normalizing,
                int layers = 6) {
  return {space{}, meander::initial_planar_model(layers, dim, direction, 1), o};
}

std::vector<std::uint64_t> bits(std::vector<double> const& numbers) {
  std::vector<std::uint64_t> result;
  result.reserve(numbers.size());
  for (double const x : numbers) result.push_back(std::bit_cast<std::uint64_t>(x));
  return result;
}

std::vector<std::uint64_t> bits(Model const& model) {
  auto const& layers = std::get<PlanarLayers>(model.layers.front());
  auto result        = bits(layers.w);
  for (auto const* part : {&layers.u, &layers.b})
    for (auto const b : bits(*part)) result.push_back(b);
  return result;
}

std::vector<std::uint64_t> bits(std::vector<meander::TrainingPoint> const& history) {
  std::vector<double> numbers;
  for (auto const& p : history)
    numbers.insert(numbers.end(), {double(p.step), p.loss, p.learning_rate, p.validation_loss});
  return bits(numbers);
}

/// A file of its own for each test, gone afterwards.
class TrainerFile : public ::testing::Test {
 protected:
  TrainerFile()
      : folder_(std::filesystem::temp_directory_path() /
                ("meander_trainer_test_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~TrainerFile() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::filesystem::path file(char const* name = "run.checkpoint") const { return folder_ / name; }
  std::filesystem::path const& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

template <class Error, class F>
std::string text_of(F const& f) {
  try {
    f();
  } catch (Error const& error) {
    return error.what();
  }
  return "nothing was thrown";
}

bool contains(std::string const& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Where training begins -------------------------------------------------------------------------

TEST(InitialModel, IsTheIdentityButForU) {
  for (auto const constraint : {meander::Constraint::softplus, meander::Constraint::log_softplus,
                                meander::Constraint::none}) {
    meander::InitialOptions initial;
    initial.planar.constraint = constraint;
    initial.u_scale           = 0;
    auto const flow           = meander::make_flow<double>(
        space{}, meander::initial_planar_model(12, 5, Direction::generative, 4, initial));
    Rows const z("test::z", 50, 5), x("test::x", 50, 5);
    Numbers const log_det("test::log_det", 50);
    meander::fill_normal(space{}, 1, 0, z);
    meander::forward(space{}, flow, z, x, log_det);
    auto const from = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), z);
    auto const to   = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), x);
    auto const log  = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), log_det);
    for (std::size_t i = 0; i < 50; ++i) {
      EXPECT_NEAR(log(i), 0, 1e-14) << to_string(constraint);
      for (std::size_t d = 0; d < 5; ++d) EXPECT_NEAR(to(i, d), from(i, d), 1e-14);
    }
  }
}

TEST(InitialModel, HasTheSpreadsThatAreAskedFor) {
  meander::InitialOptions const initial{.w_scale = 2, .u_scale = 0.5, .b_scale = 3};
  constexpr int layers = 199, dim = 200;  // fewer layers: u is about zero
  auto const model = meander::initial_planar_model(layers, dim, Direction::normalizing, 1, initial);
  auto const& made = std::get<PlanarLayers>(model.layers.front());
  auto const spread = [](std::vector<double> const& numbers) {
    double sum = 0;
    for (double const x : numbers) sum += x * x;
    return std::sqrt(sum / double(numbers.size()));
  };
  EXPECT_NEAR(spread(made.w) * std::sqrt(dim), 2, 0.03);
  EXPECT_NEAR(spread(made.u) * std::sqrt(dim), 0.5, 0.01);
  EXPECT_NEAR(spread(made.b), 3, 0.6);
  EXPECT_EQ(model.direction, Direction::normalizing);
  EXPECT_EQ(model, meander::initial_planar_model(layers, dim, Direction::normalizing, 1, initial));
  EXPECT_NE(model, meander::initial_planar_model(layers, dim, Direction::normalizing, 2, initial));
  EXPECT_EQ(message_of([] {
              meander::initial_planar_model(1, 1, Direction::generative, 1, {.w_scale = -1});
            }),
            "meander::initial_planar_model: options.w_scale is -1, expected a finite number >= 0");
}

// Fitting ---------------------------------------------------------------------------------------

struct FitCase {
  int dim;
  Direction data, fitted;
  std::int64_t batch;
};

void fits(FitCase const& c) {
  Known const train(c.dim, c.data, 2000, 3), validation(c.dim, c.data, 2000, 4);
  auto o                = options(1500, c.batch);
  o.learning_rate.decay = meander::Decay::cosine;
  auto idle             = trainer(c.dim, options(0), c.fitted);
  EXPECT_GT(idle.maximum_likelihood(train.rows, validation.rows).validation_loss,
            validation.loss + 0.2);
  auto t            = trainer(c.dim, o, c.fitted);
  auto const result = t.maximum_likelihood(train.rows, validation.rows);
  EXPECT_LT(result.best_validation_loss, validation.loss + 0.04);
  EXPECT_GT(result.best_validation_loss, validation.loss - 0.04);
  EXPECT_EQ(result.steps, 1500);
  EXPECT_EQ(result.history.size(), 15U);
  EXPECT_EQ(result.undone_steps, 0);
  EXPECT_FALSE(result.stopped_early);
  EXPECT_FALSE(result.interrupted);
}

TEST(Trainer, FindsAFlowOnTheLine) {
  fits({1, Direction::generative, Direction::normalizing, 0});
  fits({1, Direction::normalizing, Direction::generative, 200});
}

TEST(Trainer, FindsAFlowInThePlane) {
  fits({2, Direction::generative, Direction::normalizing, 256});
  fits({2, Direction::normalizing, Direction::generative, 256});
}

TEST(Trainer, TakesTheBatchesOfASimulation) {
  Known const known(2, Direction::generative, 4096);
  auto o            = options(0);
  o.report_interval = 40;
  meander::Trainer<float, space> t(
      space{}, meander::initial_planar_model(6, 2, Direction::normalizing, 1), o);
  Kokkos::View<float**, Kokkos::LayoutLeft, space::memory_space> const rows("test::rows", 64, 2);
  auto const step = [&](int i) {
    fixture::copy_rows(
        rows,
        Kokkos::subview(known.rows, Kokkos::pair(i % 64 * 64, i % 64 * 64 + 64), Kokkos::ALL()));
    t.step(rows);
  };
  step(0);
  double const first = t.losses().back();
  for (int i = 1; i < 1000; ++i) step(i);
  EXPECT_EQ(t.steps(), 1000);
  EXPECT_EQ(t.losses().size(), 40U);
  double sum = 0;
  for (double const loss : t.losses()) sum += loss;
  EXPECT_LT(sum / 40, first - 0.1);
  EXPECT_LT(sum / 40, known.loss + 0.15);
  EXPECT_EQ(t.progress().taken, 1000);

  // The flow is that of the last step.
  Kokkos::View<float*, space::memory_space> const now("test::now", 64), again("test::again", 64);
  meander::log_prob(space{}, t.flow(), rows, now);
  meander::log_prob(space{}, meander::make_flow<float>(space{}, t.model()), rows, again);
  auto const a = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), now);
  auto const b = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), again);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a(i), b(i));
}

TEST(Trainer, StepsAreAsynchronous) {
  Known const known(2, Direction::generative, 256);
  auto t = trainer(2, options(10));
  t.step(known.rows);
  tools::Recorder const recorder;
  t.step(known.rows);
  EXPECT_LE(recorder.events().size(), 8U);
  for (auto const& event : recorder.events()) {
    EXPECT_EQ(event.kind, tools::Kind::kernel) << event;
    EXPECT_TRUE(std::string_view(event.label).starts_with("meander::")) << event;
  }
}

TEST(Trainer, BeginsWithParametersInDeviceMemory) {
  auto const model   = meander::initial_planar_model(3, 2, Direction::generative, 9);
  auto const& layers = std::get<PlanarLayers>(model.layers.front());
  meander::PlanarParameters const parameters{
      fixture::matrix<double, Kokkos::LayoutLeft>(layers.w, 3, 2),
      fixture::matrix<double, Kokkos::LayoutLeft>(layers.u, 3, 2),
      fixture::vector<double>(layers.b)};
  Trainer const t(space{}, parameters, layers.options, Direction::generative);
  EXPECT_EQ(t.model(), model);
}

TEST(Trainer, KeepsTheBase) {
  auto model = meander::initial_planar_model(3, 2, Direction::normalizing, 9);
  model.base = meander::DiagonalNormal{{0.5, -1}, {0.25, -0.25}};
  Known const known(2, Direction::generative, 500);
  Trainer t(space{}, model, options(3));
  auto const result = t.maximum_likelihood(known.rows);
  EXPECT_EQ(result.last.base, model.base);
  Numbers const log_q("test::log_q", 500);
  meander::log_prob(space{}, meander::make_flow<double>(space{}, model), known.rows, log_q);
  EXPECT_NEAR(t.losses().front(), -mean(log_q), 1e-13);
}

// Reverse KL ------------------------------------------------------------------------------------

/// A normal distribution, not normalized: independent coordinates of mean 1 and deviation 1/2.
struct Normal {
  template <class Row, class Grad>
  KOKKOS_FUNCTION double operator()(Row const& row, Grad const& grad) const {
    double sum = 0;
    for (int d = 0; d < 2; ++d) {
      double const from_mean = row(d) - 1;
      sum -= 2 * from_mean * from_mean;
      grad(d) = -4 * from_mean;
    }
    return sum;
  }
};

/// KL(q, p) - log Z of a perfect fit: Z is two pi times the variance.
double const least_loss = -std::log(2 * 3.14159265358979323846 * 0.25);

TrainerOptions reverse_kl_options(std::int64_t steps) {
  auto o                = options(steps, 256);
  o.learning_rate.decay = meander::Decay::cosine;
  return o;
}

TEST(Trainer, FindsADensityByReverseKl) {
  auto idle = trainer(2, reverse_kl_options(0), Direction::generative, 6);
  EXPECT_GT(idle.reverse_kl(Normal{}, {.validation_batch = 4000}).validation_loss, least_loss + 1);
  for (bool const path_gradient : {false, true}) {
    for (double const beta_start : {1.0, 0.1}) {
      auto t            = trainer(2, reverse_kl_options(1000), Direction::generative, 6);
      auto const result = t.reverse_kl(Normal{}, {.path_gradient    = path_gradient,
                                                  .beta_start       = beta_start,
                                                  .beta_steps       = 300,
                                                  .validation_batch = 4000});
      // Planar layers cannot scale a plane exactly; and 4000 rows have an error of their own.
      EXPECT_LT(result.best_validation_loss, least_loss + 0.05);
      EXPECT_GT(result.best_validation_loss, least_loss - 0.02);
      EXPECT_EQ(result.undone_steps, 0);
    }
  }
}

TEST(ReverseKlTraining, AnnealsLinearly) {
  meander::ReverseKlTraining const training{.beta_start = 0.2, .beta_steps = 4};
  EXPECT_EQ(training.beta(0), 0.2);
  EXPECT_NEAR(training.beta(1), 0.4, 1e-15);
  EXPECT_EQ(training.beta(4), 1);
  EXPECT_EQ(training.beta(1000), 1);
  EXPECT_EQ(meander::ReverseKlTraining{}.beta(0), 1);
  EXPECT_EQ(message_of([] { meander::ReverseKlTraining{.beta_start = 2}.check(); }),
            "meander::ReverseKlTraining: beta_start is 2, expected a number in [0, 1]");
  auto t = trainer(2, options(1), Direction::generative);
  EXPECT_EQ(message_of([&] { t.reverse_kl(Normal{}); }),
            "meander::Trainer: options.batch is 0, expected the number of rows that a step of "
            "reverse KL draws, 1 or more");
}

TEST(Trainer, TakesSingleStepsOfReverseKl) {
  auto whole = trainer(2, options(20, 64), Direction::generative);
  whole.reverse_kl(Normal{});
  auto t = trainer(2, options(20, 64), Direction::generative);
  meander::ReverseKlWorkspace<double, space> const workspace(space{}, t.flow(), 64);
  for (int i = 0; i < 20; ++i) t.reverse_kl_step(workspace, Normal{});
  EXPECT_EQ(bits(whole.model()), bits(t.model()));
  EXPECT_EQ(bits(whole.losses()), bits(t.losses()));
}

// Stopping --------------------------------------------------------------------------------------

TEST(Trainer, StopsEarlyAndKeepsTheBest) {
  // Twenty rows are soon fitted better than what they were drawn from.
  Known const train(2, Direction::generative, 20), validation(2, Direction::generative, 2000, 4);
  auto o                = options(100'000);
  o.validation_interval = 20;
  o.patience            = 5;
  auto t                = trainer(2, o);
  auto const result     = t.maximum_likelihood(train.rows, validation.rows);
  EXPECT_TRUE(result.stopped_early);
  EXPECT_LT(result.steps, 5000);
  EXPECT_EQ(result.steps, result.best_step + 100);  // five validations
  EXPECT_EQ(result.best_step % 20, 0);
  EXPECT_GT(result.validation_loss, result.best_validation_loss);
  EXPECT_NE(result.best, result.last);
  EXPECT_EQ(bits(result.last), bits(t.model()));
  Numbers const log_q("test::log_q", 2000);
  meander::log_prob(space{}, meander::make_flow<double>(space{}, result.best), validation.rows,
                    log_q);
  EXPECT_NEAR(-mean(log_q), result.best_validation_loss, 1e-12);
}

TEST(Trainer, SplitsValidationRowsOff) {
  Known const known(2, Direction::generative, 400);
  auto o                = options(200);
  o.validation_fraction = 0.25;
  o.validation_interval = 50;
  o.report_interval     = 25;
  auto t                = trainer(2, o);
  auto const result     = t.maximum_likelihood(known.rows);
  EXPECT_TRUE(std::isfinite(result.best_validation_loss));
  EXPECT_NE(t.losses().back(), result.validation_loss);
  // Every second point has seen a validation.
  ASSERT_EQ(result.history.size(), 8U);
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_EQ(std::isnan(result.history[i].validation_loss), i % 2 == 0) << i;
  Rows const one("test::rows", 1, 2);
  EXPECT_TRUE(contains(message_of([&] { trainer(2, o).maximum_likelihood(one); }),
                       "expected 2 rows or more to split validation rows off"));
}

TEST(Trainer, ShowsTheValidationAfterTheLastStep) {
  Known const train(2, Direction::generative, 100), validation(2, Direction::generative, 50, 4);
  auto o                = options(200);
  o.validation_interval = 1000;
  o.report_interval     = 50;
  auto const result     = trainer(2, o).maximum_likelihood(train.rows, validation.rows);
  ASSERT_EQ(result.history.size(), 4U);
  EXPECT_EQ(result.history.back().validation_loss, result.validation_loss);
  EXPECT_TRUE(std::isnan(result.history.front().validation_loss));
}

TEST(Trainer, StopsWhenTheReportSaysSo) {
  Known const known(2, Direction::generative, 100);
  auto o            = options(1000, 10);
  o.report_interval = 7;
  auto t            = trainer(2, o);
  std::vector<std::int64_t> seen;
  auto const result = t.maximum_likelihood(known.rows, [&](TrainingReport const& report) {
    seen.push_back(report.point.step);
    EXPECT_EQ(report.steps, 1000);
    EXPECT_TRUE(std::isfinite(report.gradient_norm));
    return seen.size() < 3;
  });
  EXPECT_EQ(seen, (std::vector<std::int64_t>{7, 14, 21}));
  EXPECT_EQ(result.steps, 21);
  EXPECT_TRUE(result.interrupted);
}

TEST(Trainer, UndoesStepsOfRowsThatAreNaN) {
  Known const known(2, Direction::generative, 1000);
  auto const host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), known.rows);
  host(123, 1)    = nan_;
  Kokkos::deep_copy(known.rows, host);
  auto t            = trainer(2, options(1000, 100));
  auto const result = t.maximum_likelihood(known.rows);
  // One batch of each epoch.
  EXPECT_EQ(result.refused_steps, 100);
  EXPECT_GE(result.undone_steps, 90);
  EXPECT_LE(result.undone_steps, 100);
  EXPECT_EQ(t.progress().taken, 1000 - result.refused_steps - result.undone_steps);
  EXPECT_LT(result.history.back().loss, known.loss + 0.2);
  EXPECT_TRUE(std::isfinite(result.history.back().loss));
}

TEST(Trainer, TakesTheLastModelWhereNoValidationGaveANumber) {
  Known const train(2, Direction::generative, 100), validation(2, Direction::generative, 10);
  Kokkos::deep_copy(validation.rows, nan_);
  auto t            = trainer(2, options(110));
  auto const result = t.maximum_likelihood(train.rows, validation.rows);
  EXPECT_TRUE(std::isnan(result.best_validation_loss));
  EXPECT_EQ(bits(result.best), bits(result.last));
  EXPECT_EQ(bits(result.last), bits(t.model()));
}

TEST(Trainer, GivesUpWhereNoStepCanBeTaken) {
  Known const known(2, Direction::generative, 100);
  auto const host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), known.rows);
  host(12, 0)     = std::numeric_limits<double>::infinity();
  Kokkos::deep_copy(known.rows, host);
  auto t          = trainer(2, options(100'000));
  auto const text = text_of<TrainingError>([&] { t.maximum_likelihood(known.rows); });
  EXPECT_TRUE(contains(text,
                       "meander::Trainer: gave up at step 100: the last 100 steps led "
                       "nowhere, since loss or gradient was not finite in 100 of all"))
      << text;
  auto few = trainer(2, options(10));
  EXPECT_TRUE(contains(text_of<TrainingError>([&] { few.maximum_likelihood(known.rows); }),
                       "gave up at step 10"));
}

// The order of the rows -------------------------------------------------------------------------

TEST(Permutation, IsABijectionOfEverySize) {
  for (std::uint64_t const size :
       {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 455, 1024, 1025, 40'000}) {
    for (std::uint64_t const epoch : {0, 1, 77}) {
      auto const order = meander::impl::permutation(42, epoch, size);
      std::vector<char> seen(size);
      for (std::uint64_t i = 0; i < size; ++i) {
        auto const to = order(i);
        ASSERT_LT(to, size);
        ASSERT_EQ(seen[to], 0) << size;
        seen[to] = 1;
      }
    }
  }
}

TEST(Permutation, TakesAnySizeUpTo2To62) {
  auto const order = meander::impl::permutation(1, 2, std::uint64_t{1} << 62);
  EXPECT_LT(order((std::uint64_t{1} << 62) - 1), std::uint64_t{1} << 62);
  EXPECT_NE(order(0), order(1));
}

TEST(Permutation, LooksRandom) {
  constexpr std::uint64_t size = 1000;
  auto const a = meander::impl::permutation(1, 0, size), b = meander::impl::permutation(1, 1, size),
             c   = meander::impl::permutation(2, 0, size);
  int same_epoch = 0, same_seed = 0, fixed = 0;
  double products = 0;
  for (std::uint64_t i = 0; i < size; ++i) {
    same_epoch += a(i) == b(i) ? 1 : 0;
    same_seed += a(i) == c(i) ? 1 : 0;
    fixed += a(i) == i ? 1 : 0;
    products += (double(a(i)) - 499.5) * (double(i) - 499.5);
  }
  // One is expected of each; the correlation has a standard deviation of 1 / sqrt(999).
  EXPECT_LT(same_epoch, 8);
  EXPECT_LT(same_seed, 8);
  EXPECT_LT(fixed, 8);
  EXPECT_LT(std::abs(products / (size * (size * double(size) - 1) / 12)), 0.15);
}

// Every row is seen once an epoch: the mean of the losses of an epoch without steps is the mean
// over all rows, whichever way the batches are cut.
TEST(Trainer, SeesEveryRowOnceAnEpoch) {
  Known const known(2, Direction::generative, 360);
  auto o                  = options(40, 27);  // 27 rows * 40 steps are three epochs
  o.learning_rate.initial = 1e-300;
  o.report_interval       = 40;
  auto t                  = trainer(2, o);
  Numbers const log_q("test::log_q", 360);
  meander::log_prob(space{}, t.flow(), known.rows, log_q);
  auto const result = t.maximum_likelihood(known.rows);
  EXPECT_NEAR(result.history.front().loss, -mean(log_q), 1e-12);
  auto const losses = t.losses();
  EXPECT_GT(*std::ranges::max_element(losses) - *std::ranges::min_element(losses), 0.01);
}

// Checkpoints -----------------------------------------------------------------------------------

TrainerOptions checkpointed(std::int64_t steps, std::filesystem::path const& file) {
  auto o                = options(steps, 50);
  o.learning_rate.decay = meander::Decay::exponential;
  o.learning_rate.final = 1e-4;
  o.learning_rate.steps = 500;
  o.validation_fraction = 0.2;
  o.validation_interval = 15;
  o.report_interval     = 40;
  o.checkpoint          = file;
  o.checkpoint_interval = file.empty() ? 0 : 50;
  o.adam.max_grad_norm  = 2;
  return o;
}

/// Rows with a NaN, so that steps are undone on the way.
Rows rows_with_nan() {
  Known const known(2, Direction::generative, 500);
  auto const host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), known.rows);
  host(7, 0)      = nan_;
  Kokkos::deep_copy(known.rows, host);
  return known.rows;
}

void expect_same(TrainingResult const& a, TrainingResult const& b) {
  EXPECT_EQ(bits(a.last), bits(b.last));
  EXPECT_EQ(bits(a.best), bits(b.best));
  EXPECT_EQ(bits(a.history), bits(b.history));
  EXPECT_EQ(a.best_step, b.best_step);
  EXPECT_EQ(a.best_validation_loss, b.best_validation_loss);
  EXPECT_EQ(a.validation_loss, b.validation_loss);
  EXPECT_EQ(a.steps, b.steps);
  EXPECT_EQ(a.undone_steps, b.undone_steps);
  EXPECT_EQ(a.refused_steps, b.refused_steps);
}

TEST_F(TrainerFile, ResumesToTheBit) {
  auto const rows         = rows_with_nan();
  auto whole              = trainer(2, checkpointed(200, {}));
  auto const whole_result = whole.maximum_likelihood(rows);

  // Neither a report nor a validation falls on step 110, where it ends the first time.
  auto first = trainer(2, checkpointed(110, file()));
  first.maximum_likelihood(rows);
  auto second = trainer(2, checkpointed(200, file()));
  second.resume(file());
  EXPECT_EQ(second.steps(), 110);
  expect_same(second.maximum_likelihood(rows), whole_result);
  EXPECT_EQ(bits(second.losses()).back(), bits(whole.losses()).back());

  // The checkpoint at the end says that nothing is left to do.
  auto third = trainer(2, checkpointed(200, file()));
  third.resume(file());
  expect_same(third.maximum_likelihood(rows), whole_result);
  EXPECT_GT(whole_result.undone_steps, 0);
}

TEST_F(TrainerFile, ResumesWhatAReportStopped) {
  auto const rows         = rows_with_nan();
  auto whole              = trainer(2, checkpointed(200, {}));
  auto const whole_result = whole.maximum_likelihood(rows);
  auto first              = trainer(2, checkpointed(200, file()));
  first.maximum_likelihood(rows, [](TrainingReport const& r) { return r.point.step < 80; });
  EXPECT_EQ(first.steps(), 80);
  auto second = trainer(2, checkpointed(200, file()));
  second.resume(file());
  expect_same(second.maximum_likelihood(rows), whole_result);
}

TEST_F(TrainerFile, ResumesReverseKl) {
  meander::ReverseKlTraining const training{
      .beta_start = 0.1, .beta_steps = 50, .validation_batch = 100};
  auto o                = reverse_kl_options(60);
  o.learning_rate.steps = 60;
  auto whole            = trainer(2, o, Direction::generative);
  auto const expected   = whole.reverse_kl(Normal{}, training);
  o.steps               = 33;
  o.checkpoint          = file();
  trainer(2, o, Direction::generative).reverse_kl(Normal{}, training);
  o.steps = 60;
  auto t  = trainer(2, o, Direction::generative);
  t.resume(file());
  expect_same(t.reverse_kl(Normal{}, training), expected);
  t.resume(file());
  EXPECT_TRUE(contains(text_of<TrainingError>([&] { t.reverse_kl(Normal{}); }),
                       "'run.beta_start' '0.1', this run has '1'"));
}

TEST_F(TrainerFile, ResumesTheStepsOfASimulation) {
  Known const known(2, Direction::generative, 100);
  auto whole = trainer(2, options(0));
  for (int i = 0; i < 30; ++i) whole.step(known.rows);
  auto first = trainer(2, options(0));
  for (int i = 0; i < 13; ++i) first.step(known.rows);
  first.write_checkpoint(file());
  auto second = trainer(2, options(0));
  second.resume(file());
  for (int i = 13; i < 30; ++i) second.step(known.rows);
  EXPECT_EQ(bits(whole.model()), bits(second.model()));
  EXPECT_EQ(bits(whole.losses()), bits(second.losses()));
}

TEST_F(TrainerFile, RefusesCheckpointsOfOtherRuns) {
  auto const rows = rows_with_nan();
  trainer(2, checkpointed(50, file())).maximum_likelihood(rows);
  auto const resume = [&](Trainer t) { return text_of<TrainingError>([&] { t.resume(file()); }); };
  auto o            = checkpointed(50, file());
  o.batch           = 51;
  EXPECT_TRUE(contains(resume(trainer(2, o)),
                       "the checkpoint was written with 'batch' '50', this run has '51'"));
  o                       = checkpointed(50, file());
  o.learning_rate.initial = 0.25;
  EXPECT_TRUE(
      contains(resume(trainer(2, o)), "'learning_rate.initial' '0.01', this run has '0.25'"));
  o = checkpointed(50, file());
  EXPECT_TRUE(contains(resume(trainer(3, o)),
                       "a checkpoint of a flow whose w has shape (6, 2), this one's has (6, 3)"));
  EXPECT_TRUE(contains(resume(trainer(2, o, Direction::generative)), "'direction' 'normalizing'"));
  auto model = meander::initial_planar_model(6, 2, Direction::normalizing, 1);
  model.base = meander::DiagonalNormal{{0, 0}, {0, 0}};
  EXPECT_TRUE(contains(resume(Trainer(space{}, model, o)), "of a flow with another base"));

  auto t = trainer(2, o);
  t.resume(file());
  Known const other(2, Direction::generative, 501);
  EXPECT_TRUE(contains(text_of<TrainingError>([&] { t.maximum_likelihood(other.rows); }),
                       "'run.train_rows' '400', this run has '401'"));
  // A refusal changes nothing: what it is of can still be resumed.
  EXPECT_EQ(t.maximum_likelihood(rows).steps, 50);
}

TEST_F(TrainerFile, RefusesWhatIsNoCheckpoint) {
  auto t             = trainer(2, options(50));
  auto const refusal = [&] { return text_of<meander::ModelFileError>([&] { t.resume(file()); }); };
  EXPECT_TRUE(contains(refusal(), "No such file"));
  meander::write_model(file(), t.model());
  EXPECT_TRUE(contains(refusal(), "not a checkpoint of Meander"));

  t.write_checkpoint(file());
  t.resume(file());
  std::ifstream in(file(), std::ios::binary);
  std::string const good((std::istreambuf_iterator<char>(in)), {});
  auto const spoiled = [&](std::string const& from, std::string const& to) {
    auto text     = good;
    auto const at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    std::ofstream(file(), std::ios::binary) << text;
    return refusal();
  };
  EXPECT_TRUE(contains(spoiled(R"("meander_checkpoint":"1")", R"("meander_checkpoint":"2")"),
                       "a checkpoint of version '2'"));
  EXPECT_TRUE(contains(spoiled(R"("step":"0")", R"("step":"-")"),
                       "'step' '-', expected a whole number from 0 to 2^53"));
  EXPECT_TRUE(contains(spoiled(R"("best_step")", R"("bext_step")"), "has no 'best_step'"));
  EXPECT_TRUE(contains(spoiled(R"("adam":)", R"("adan":)"), "tensor 'adam' is missing"));
  // Cut anywhere, it is refused.
  for (std::size_t size = 0; size < good.size(); size += 97) {
    std::ofstream(file(), std::ios::binary) << good.substr(0, size);
    EXPECT_NE(refusal(), "nothing was thrown") << size;
  }
  // Counts of Adam that are no counts: the state begins behind the parameters.
  auto broken          = good;
  auto const header    = good.find("\"adam\":");
  auto const begin     = good.find('[', good.find("data_offsets", header));
  auto const offset    = std::stoull(good.substr(begin + 1));
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length * 256 + static_cast<unsigned char>(good[std::size_t(i)]);
  auto const number = std::bit_cast<std::array<char, 8>>(1e300);
  broken.replace(std::size_t(8 + length + offset), 8, number.data(), 8);
  std::ofstream(file(), std::ios::binary) << broken;
  EXPECT_TRUE(contains(refusal(), "value 0 of tensor 'adam' is 1e+300, expected a whole number"));
}

// A child that trains and writes checkpoints all the time is killed at any moment: what its file
// holds is a whole checkpoint each time, from which a run ends where it would have ended.
TEST_F(TrainerFile, SurvivesKill) {
  char const* const self = "/proc/self/exe";
  if (!std::filesystem::exists(self)) GTEST_SKIP() << "there is no /proc/self/exe";
  auto const program = std::filesystem::read_symlink(self).string();
  auto const rows    = rows_with_nan();
  std::int64_t most  = 0;
  for (int round = 0; round < 6; ++round) {
    pid_t const child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::setenv("MEANDER_TRAINER_TEST_CHECKPOINT", file().c_str(), 1);
      ::execl(program.c_str(), program.c_str(), "--gtest_filter=TrainerChild.*",
              "--gtest_also_run_disabled_tests", "--gtest_brief=1", nullptr);
      ::_exit(127);
    }
    auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (round == 0 && !std::filesystem::exists(file()) &&
           std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(300 + 37 * round));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself";
    auto t = trainer(2, checkpointed(1'000'000'000, file()));
    ASSERT_NO_THROW(t.resume(file())) << round;
    EXPECT_GE(t.steps(), most);
    most = t.steps();
  }
  EXPECT_GT(most, 0);
  auto const end = most + 20;
  auto resumed   = trainer(2, checkpointed(end, {}));
  resumed.resume(file());
  auto whole = trainer(2, checkpointed(end, {}));
  expect_same(resumed.maximum_likelihood(rows), whole.maximum_likelihood(rows));
}

// Run by SurvivesKill in a process of its own.
TEST(TrainerChild, DISABLED_TrainsForEver) {
  char const* const file = std::getenv("MEANDER_TRAINER_TEST_CHECKPOINT");
  if (file == nullptr) GTEST_SKIP() << "only for SurvivesKill";
  auto o                = checkpointed(1'000'000'000, file);
  o.checkpoint_interval = 1;
  auto t                = trainer(2, o);
  if (std::filesystem::exists(file)) t.resume(file);
  t.maximum_likelihood(rows_with_nan());
}

// Misuse ----------------------------------------------------------------------------------------

TEST(Trainer, RefusesWhatIsOutOfRange) {
  auto const refusal = [](auto const& change) {
    TrainerOptions o;
    change(o);
    return message_of([&] { trainer(2, o); });
  };
  EXPECT_EQ(refusal([](auto& o) { o.steps = -1; }),
            "meander::TrainerOptions: steps is -1, expected a number >= 0");
  EXPECT_EQ(refusal([](auto& o) { o.report_interval = 0; }),
            "meander::TrainerOptions: report_interval is 0, expected a number >= 1");
  EXPECT_EQ(refusal([](auto& o) { o.validation_fraction = 1; }),
            "meander::TrainerOptions: validation_fraction is 1, expected a number in [0, 1)");
  EXPECT_EQ(refusal([](auto& o) { o.checkpoint_interval = 5; }),
            "meander::TrainerOptions: checkpoint_interval is 5, but checkpoint names no file");
  EXPECT_EQ(refusal([](auto& o) { o.adam.beta1 = 2; }),
            "meander::AdamOptions: beta1 is 2, expected a number in [0, 1)");

  auto t = trainer(2, options(1));
  Rows const wide("test::rows", 5, 3), none("test::rows", 0, 2), good("test::rows", 5, 2);
  EXPECT_EQ(message_of([&] { t.step(wide); }),
            "meander::Trainer: extent 1 of argument rows is 3, expected 2 (the dimension of the "
            "flow)");
  EXPECT_EQ(message_of([&] { t.maximum_likelihood(none); }),
            "meander::Trainer: extent 0 of argument train is 0, expected 1 or more");
  EXPECT_EQ(message_of([&] { t.maximum_likelihood(good, none); }),
            "meander::Trainer: extent 0 of argument validation is 0, expected 1 or more");
  Model model;
  EXPECT_TRUE(
      contains(message_of([&] { Trainer(space{}, model); }), "argument initial has 0 runs"));
  EXPECT_TRUE(
      contains(message_of([&] { meander::initial_planar_model(0, 2, Direction::generative, 1); }),
               "argument num_layers is 0, expected a number from 1 to 2147483647"));
}

}  // namespace
