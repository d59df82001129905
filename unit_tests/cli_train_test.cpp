// SPDX-License-Identifier: BSD-3-Clause
// `meander train`, run as a user would.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <meander/model_file.hpp>

#include "cli/loss_curve.hpp"
#include "tool/cli_fixture.hpp"
#include "tool/files.hpp"

namespace meander::test {

namespace {

constexpr int usage = 2;

class CliTrain : public Cli {
 protected:
  // On a machine that is busy, threads that wait for each other at every step take minutes.
  CliTrain() { environment_ = {{"OMP_NUM_THREADS", "1"}}; }

  /// Rows on a bent band: y = x^2 / 2 + noise, and z tells x's sign; moved and stretched.
  template <class Value>
  void make_data(std::string const& name, int rows, unsigned seed, double scale = 1,
                 double shift = 0) {
    std::mt19937 generator(seed);
    std::vector<Value> values;
    auto const normal = [&] {  // std::normal_distribution is another one elsewhere
      double sum = 0;
      for (int i = 0; i < 12; ++i) sum += double(generator()) / 4294967296.0;
      return sum - 6;
    };
    for (int i = 0; i < rows; ++i) {
      double const x = normal(), y = x * x / 2 + 0.3 * normal(),
                   z = std::tanh(2 * x) + 0.2 * normal();
      for (double const value : {x, y, z}) values.push_back(Value(shift + scale * value));
    }
    write_rows(name, values, std::size_t(rows));
  }

  /// A short run on train.npy.
  Arguments train(Arguments const& more = {}, std::string const& out = "m.safetensors") const {
    Arguments arguments = {
        "train", "--data", file("train.npy"), "--flow", "planar:4", "--steps", "60",
        "--lr",  "0.02",   "--seed",          "5",      "--out",    file(out)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  static Arguments changed(Arguments arguments, std::string const& option,
                           std::string const& value) {
    auto const at = std::ranges::find(arguments, option);
    EXPECT_NE(at, arguments.end());
    at[1] = value;
    return arguments;
  }

  std::string trained(Arguments const& arguments, std::string const& notes = "") {
    auto const outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, notes);
    EXPECT_EQ(std::ranges::count(outcome.out, '\n'), 1) << outcome.out;
    return outcome.out;
  }

  /// The number after a name in the summary.
  static double number(std::string const& summary, std::string const& name) {
    auto const at = summary.find(name + " ");
    EXPECT_NE(at, std::string::npos) << name << " in " << summary;
    return at == std::string::npos ? NAN : std::stod(summary.substr(at + name.size()));
  }

  /// What log-prob says of a model.
  double loss(std::string const& rows, Arguments const& more = {}) {
    Arguments arguments = {"log-prob", "--model", file("m.safetensors"), "--in",
                           file(rows), "--out",   file("q.npy")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_success(arguments);
    auto const q = read_array(file("q.npy"));
    double sum   = 0;
    for (double const value : q.values) sum -= value;
    return sum / double(q.values.size());
  }

  static std::vector<std::vector<std::string>> cells(std::string const& csv) {
    std::vector<std::vector<std::string>> lines;
    std::istringstream text(csv);
    for (std::string line; std::getline(text, line);) {
      auto& cells = lines.emplace_back();
      std::istringstream rest(line);
      for (std::string cell; std::getline(rest, cell, ',');) cells.push_back(cell);
    }
    return lines;
  }

  /// All columns but the time.
  std::vector<std::vector<std::string>> log_without_time(std::string const& name) const {
    auto lines = cells(read_bytes(file(name)));
    for (auto& line : lines) {
      EXPECT_EQ(line.size(), 5U);
      line.pop_back();
    }
    return lines;
  }

  /// Waits until the run has written a file.
  void wait_for(std::string const& name) const {
    using namespace std::chrono_literals;
    auto const deadline = std::chrono::steady_clock::now() + 30s;
    while (!std::filesystem::exists(file(name)) && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(1ms);
    ASSERT_TRUE(std::filesystem::exists(file(name)));
  }
};

// The model that is written
// ------------------------------------------------------------------------

TEST_F(CliTrain, LossesAreThoseOfTheOtherCommands) {
  make_data<float>("train.npy", 300, 1);
  make_data<float>("validation.npy", 111, 2);
  for (Arguments const& more :
       std::vector<Arguments>{{},
                              {"--direction", "generative"},
                              {"--standardize"},
                              {"--standardize", "--direction", "generative", "--type", "float64"},
                              {"--activation", "leaky_relu", "--slope", "0.4", "--batch", "64"},
                              {"--constraint", "none", "--compute", "float"},
                              {"--compute", "float", "--standardize"}}) {
    SCOPED_TRACE(::testing::PrintToString(more));
    auto arguments = train({"--validation", file("validation.npy"), "--validation-interval", "10"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    auto const summary      = trained(arguments);
    bool const single       = std::ranges::count(more, "float") > 0;
    Arguments const compute = {"--compute", single ? "float" : "double"};
    EXPECT_NEAR(number(summary, "train loss"), loss("train.npy", compute), 2e-6);
    EXPECT_NEAR(number(summary, "validation loss"), loss("validation.npy", compute), 2e-6);
    EXPECT_EQ(number(summary, "steps"), 60);
    EXPECT_EQ(number(summary, "undone steps"), 0);
    EXPECT_LE(number(summary, "kept step"), 60);
    auto const model = read_model(file("m.safetensors"));
    EXPECT_EQ(model.stored,
              std::ranges::count(more, "float64") > 0 ? ScalarType::float64 : ScalarType::float32);
    EXPECT_EQ(model.layers.size(), std::ranges::count(more, "--standardize") > 0 ? 2U : 1U);
  }
}

TEST_F(CliTrain, LearnsTheBand) {
  make_data<double>("train.npy", 600, 1);
  auto arguments = changed(train({"--schedule", "cosine", "--warmup", "20"}), "--steps", "1500");
  auto const summary = trained(changed(arguments, "--flow", "planar:12"));
  // A Gaussian with the rows' covariance has 3.5; the entropy of the rows is 1.18.
  EXPECT_LT(number(summary, "train loss"), 1.9);
  EXPECT_GT(number(summary, "train loss"), 1.0);
}

/// Units change log q by the logarithm of their scale, whatever they are.
TEST_F(CliTrain, StandardisationLearnsTheSameInAnyUnits) {
  make_data<double>("train.npy", 200, 1);
  Arguments const more   = {"--standardize", "--type", "float64"};
  auto const as_they_are = trained(train(more));
  for (std::string const direction : {"normalizing", "generative"}) {
    make_data<double>("train.npy", 200, 1, 1e-6, 5);
    auto const summary = trained(changed(
        train({"--standardize", "--type", "float64", "--direction", direction}), "--steps", "60"));
    EXPECT_NEAR(number(summary, "train loss"), loss("train.npy"), 2e-6);
    if (direction == "normalizing") {
      EXPECT_NEAR(number(summary, "train loss"),
                  number(as_they_are, "train loss") + 3 * std::log(1e-6), 1e-4);
    }
    // Rows drawn are in the data's units.
    expect_success({"sample", "--model", file("m.safetensors"), "-n", "2000", "--seed", "1",
                    "--out", file("x.npy"), "--type", "float64"});
    double largest = 0;
    for (double const x : read_array(file("x.npy")).values)
      largest = std::max(largest, std::abs(x - 5));
    EXPECT_LT(largest, 2e-5);
    EXPECT_GT(largest, 2e-6);
  }
}

TEST_F(CliTrain, MeansThatFloatCannotHoldAreRefused) {
  make_data<double>("train.npy", 200, 1, 1e-3, 1e6);
  expect_failure(train({"--standardize"}),
                 quoted("train.npy") +
                     ": the mean of column 0 is too large beside its spread for a model stored as "
                     "float32; give --type float64");
  trained(train({"--standardize", "--type", "float64"}));
}

TEST_F(CliTrain, AModelOfNoUseIsAFailure) {
  make_data<double>("train.npy", 40, 1);
  auto const outcome =
      run(changed(changed(train({"--type", "float64"}), "--lr", "1e160"), "--steps", "31"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find(": the loss of the model that was written is "), std::string::npos)
      << outcome.err;
}

TEST_F(CliTrain, ConstantColumnsAreNotScaled) {
  std::vector<float> values;
  for (int i = 0; i < 50; ++i) values.insert(values.end(), {float(i), 0.1F});
  write_rows("train.npy", values, 50);
  auto const summary = trained(train({"--standardize"}),
                               "meander: column 1 of " + quoted("train.npy") +
                                   " is constant (0.1); it is moved to zero, not scaled\n");
  EXPECT_TRUE(std::isfinite(number(summary, "train loss")));
  auto const model = read_model(file("m.safetensors"));
  EXPECT_EQ(std::get<AffineLayer>(model.layers[0]).log_scale[1], 0);
}

TEST_F(CliTrain, ValidationRowsChooseTheModel) {
  make_data<float>("train.npy", 20, 1);  // so few that the flow learns them by heart
  make_data<float>("validation.npy", 200, 2);
  auto arguments = changed(train({"--validation", file("validation.npy"), "--validation-interval",
                                  "20", "--log", file("loss.csv")}),
                           "--steps", "1000");
  auto const summary = trained(arguments);
  EXPECT_LT(number(summary, "kept step"), 1000);
  double least = HUGE_VAL;
  for (auto const& line : log_without_time("loss.csv")) {
    if (line[0] != "step" && !line[2].empty()) least = std::min(least, std::stod(line[2]));
  }
  EXPECT_NEAR(number(summary, "validation loss"), least, 1e-5);
  arguments.insert(arguments.end(), {"--patience", "3"});
  auto const early = trained(arguments);
  EXPECT_NE(early.find(", stopped early\n"), std::string::npos) << early;
  EXPECT_EQ(number(early, "steps"), number(early, "kept step") + 60);
}

TEST_F(CliTrain, RowsSetApartAreNotTrainedOn) {
  make_data<float>("train.npy", 100, 1);
  auto const summary =
      trained(train({"--validation-fraction", "0.25", "--validation-interval", "5"}));
  // 75 and 25 rows make up the 100.
  EXPECT_NEAR(0.75 * number(summary, "train loss") + 0.25 * number(summary, "validation loss"),
              loss("train.npy"), 2e-6);
  EXPECT_NE(number(summary, "train loss"), number(summary, "validation loss"));
}

TEST_F(CliTrain, FilesOfAnyLayoutTrainTheSame) {
  make_data<float>("train.npy", 64, 1);
  auto const rows = read_array(file("train.npy"));
  trained(train());
  auto const model = read_bytes(file("m.safetensors"));
  std::vector<float> by_columns;
  for (std::size_t d = 0; d < 3; ++d)
    for (std::size_t i = 0; i < 64; ++i) by_columns.push_back(float(rows.values[3 * i + d]));
  write_bytes(file("train.npy"), npy(npy_header("<f4", true, "(64, 3)"), bytes_of(by_columns)));
  trained(train());
  EXPECT_EQ(read_bytes(file("m.safetensors")), model);
}

TEST_F(CliTrain, ThreadsDoNotMatterAndSeedsDo) {
  make_data<float>("train.npy", 500, 1);
  Arguments const more = {"--batch", "100", "--threads", "1"};
  trained(train(more));
  auto const model = read_bytes(file("m.safetensors"));
  trained(changed(train(more), "--threads", "2"));
  EXPECT_EQ(read_bytes(file("m.safetensors")), model);
  trained(changed(train(more), "--seed", "6"));
  EXPECT_NE(read_bytes(file("m.safetensors")), model);
}

// Log, picture, lines
// -------------------------------------------------------------------------------

TEST_F(CliTrain, LogAndPicture) {
  make_data<float>("train.npy", 100, 1);
  trained(train({"--validation-fraction", "0.2", "--validation-interval", "20", "--report-interval",
                 "10", "--log", file("loss.csv"), "--plot", file("loss.png")}));
  auto const lines = cells(read_bytes(file("loss.csv")));
  ASSERT_EQ(lines.size(), 7U);
  EXPECT_EQ(read_bytes(file("loss.csv")).substr(0, 47),
            "step,loss,validation_loss,learning_rate,seconds");
  double seconds = 0;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    ASSERT_EQ(lines[i].size(), 5U);
    EXPECT_EQ(lines[i][0], std::to_string(10 * i));
    EXPECT_TRUE(std::isfinite(std::stod(lines[i][1])));
    EXPECT_EQ(lines[i][2].empty(), i % 2 == 1 && i > 1) << i;
    EXPECT_EQ(lines[i][3], "0.02");
    EXPECT_GE(std::stod(lines[i][4]), seconds);
    seconds = std::stod(lines[i][4]);
  }
  auto const png = read_bytes(file("loss.png"));
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  EXPECT_GT(png.size(), 2000U);
  auto const extent = [&](std::size_t at) {
    return (std::uint8_t(png[at + 2]) << 8U) + std::uint8_t(png[at + 3]);
  };
  EXPECT_GT(extent(16), 700);
  EXPECT_GT(extent(20), 400);
  EXPECT_EQ(folder_.list(), "loss.csv loss.png m.safetensors train.npy");
}

TEST_F(CliTrain, PicturesOfOddCurves) {
  double const nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  using Points = std::vector<cli::LossCurve::Point>;
  for (Points const& points :
       {Points{}, Points{{1, 5}}, Points{{1, nan}, {2, inf}}, Points{{1, 5}, {2, 5}},
        Points{{1, 1e300}, {2, -1e300}, {3, 0}}, Points{{1, 1e18}, {2, 3}, {1000000, 2}}}) {
    cli::LossCurve curve;
    curve.train = curve.validation = points;
    if (!points.empty()) curve.best = points.back();
    curve.floor      = -1.5;
    curve.floor_name = "-log z";
    cli::draw_loss_curve(curve, file("p.png"));
    EXPECT_GT(read_bytes(file("p.png")).size(), 500U);
  }
}

TEST_F(CliTrain, LinesNowAndThenOnlyIfAskedFor) {
  make_data<float>("train.npy", 50, 1);
  trained(train());
  auto const outcome = run(train({"--verbose", "--report-interval", "2"}));
  EXPECT_EQ(outcome.code, 0);
  auto const lines = std::ranges::count(outcome.err, '\n');
  EXPECT_GE(lines, 9);
  EXPECT_LE(lines, 11);
  EXPECT_TRUE(outcome.err.starts_with("meander: step ")) << outcome.err;
  EXPECT_NE(outcome.err.find("meander: step 60/60  loss "), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find('\x1b'), std::string::npos);
}

// Checkpoints
// ---------------------------------------------------------------------------------------

class CliResume : public CliTrain {
 protected:
  void SetUp() override {
    make_data<float>("train.npy", 2000, 1);
    trained(long_run("whole", {}));
  }

  Arguments long_run(std::string const& name, Arguments const& more,
                     std::string const& steps = "3000") {
    auto arguments = changed(train({"--batch", "200", "--standardize", "--validation-fraction",
                                    "0.1", "--schedule", "exponential", "--final-lr", "1e-3",
                                    "--report-interval", "10", "--log", file(name + ".csv")},
                                   name),
                             "--steps", steps);
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  Arguments with_checkpoint(std::string const& interval = "20") {
    return long_run("part",
                    {"--checkpoint", file("c"), "--checkpoint-interval", interval, "--resume"});
  }

  void expect_as_whole() {
    trained(with_checkpoint());
    EXPECT_EQ(read_bytes(file("part")), read_bytes(file("whole")));
    EXPECT_EQ(log_without_time("part.csv"), log_without_time("whole.csv"));
  }

  std::string new_run_note() const {
    return "meander: " + quoted("c") + " does not exist yet; training begins at step 0\n";
  }
};

TEST_F(CliResume, AfterKillsAtAnyMoment) {
  int interrupted = 0;
  for (int round = 0; round < 6; ++round) {
    auto const child = start(with_checkpoint());
    if (round == 0) wait_for("c");
    std::this_thread::sleep_for(std::chrono::milliseconds(7 * round + 1));
    ::kill(child, SIGKILL);
    auto const outcome = wait(child);
    if (outcome.code == -SIGKILL) ++interrupted;
    if (round == 0) {
      EXPECT_EQ(outcome.code, -SIGKILL);
    }
  }
  EXPECT_GT(interrupted, 0);
  expect_as_whole();
}

TEST_F(CliResume, AfterSignals) {
  for (int const signal : {SIGTERM, SIGINT}) {
    auto const child = start(with_checkpoint("1000000"));
    wait_for("part.csv");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ::kill(child, signal);
    auto const outcome = wait(child);
    EXPECT_EQ(outcome.code, -signal);
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err.find("meander: stopped by a signal at step "), std::string::npos)
        << outcome.err;
    EXPECT_NE(outcome.err.find("; --resume goes on from " + quoted("c") + "\n"), std::string::npos)
        << outcome.err;
    EXPECT_EQ(folder_.list(), "c part.csv train.npy whole whole.csv");
    std::filesystem::remove(file("part.csv"));
  }
  trained(with_checkpoint());
  EXPECT_EQ(read_bytes(file("part")), read_bytes(file("whole")));
}

TEST_F(CliResume, ASignalAfterTheLastStepLosesNothing) {
  // Signals are looked at with each report: here with the last step.
  auto const child = start(changed(with_checkpoint("1000000"), "--report-interval", "3000"));
  wait_for("part.csv");
  ::kill(child, SIGTERM);
  auto const code = wait(child).code;
  EXPECT_TRUE(code == -SIGTERM || code == 0) << code;  // 0: the run was faster than the signal
  EXPECT_EQ(read_bytes(file("part")), read_bytes(file("whole")));
}

TEST_F(CliResume, WithoutACheckpointASignalEndsTheRun) {
  auto const child = start(long_run("part", {}, "1000000000"));
  wait_for("part.csv");
  ::kill(child, SIGTERM);
  EXPECT_EQ(wait(child).code, -SIGTERM);
  EXPECT_EQ(folder_.list(), "part.csv train.npy whole whole.csv");
}

TEST_F(CliResume, ToMoreSteps) {
  auto const constant = [&](std::string const& steps, Arguments const& more) {
    auto arguments =
        changed(train({"--batch", "200", "--log", file("l.csv")}, "m"), "--steps", steps);
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  trained(constant("90", {}));
  auto const whole = read_bytes(file("m"));
  auto const log   = log_without_time("l.csv");
  trained(constant("50", {"--checkpoint", file("c"), "--resume"}), new_run_note());
  for (int again = 0; again < 2; ++again) {
    trained(constant("90", {"--checkpoint", file("c"), "--resume"}));
    EXPECT_EQ(read_bytes(file("m")), whole);
  }
  EXPECT_EQ(log_without_time("l.csv"), log);
}

TEST_F(CliResume, OfOtherRunsIsRefused) {
  trained(long_run("part", {"--checkpoint", file("c")}, "20"));
  expect_failure(long_run("part", {"--checkpoint", file("c")}, "20"),
                 quoted("c") + " exists; give --resume to go on from it, or another name");
  auto const refused = [&](Arguments const& arguments) {
    auto const outcome = run(arguments);
    EXPECT_EQ(outcome.code, 1) << outcome.out;
    EXPECT_TRUE(outcome.err.starts_with("meander: " + quoted("c") + ": ")) << outcome.err;
  };
  auto const resumed = long_run("part", {"--checkpoint", file("c"), "--resume"}, "20");
  refused(changed(resumed, "--seed", "8"));
  refused(changed(resumed, "--flow", "planar:5"));
  refused(changed(resumed, "--batch", "100"));
  refused(changed(resumed, "--validation-fraction", "0.2"));
  auto as_they_are = resumed;
  std::erase(as_they_are, "--standardize");
  refused(as_they_are);
  write_bytes(file("c"), "no checkpoint");
  refused(resumed);
  trained(changed(long_run("part", {"--checkpoint", file("d")}, "20"), "--log", file("e.csv")));
  write_bytes(file("e.csv"), "a,b\n1,2\n");
  expect_failure(changed(long_run("part", {"--checkpoint", file("d"), "--resume"}, "20"), "--log",
                         file("e.csv")),
                 quoted("e.csv") +
                     " begins with 'a,b', expected the log of an earlier run, "
                     "'step,loss,validation_loss,learning_rate,seconds'");
  EXPECT_EQ(read_bytes(file("e.csv")), "a,b\n1,2\n");
}

// Targets
// -------------------------------------------------------------------------------------------

class CliTarget : public CliTrain {
 protected:
  Arguments target(std::string const& name, Arguments const& more = {}) const {
    Arguments arguments = {"train",
                           "--target",
                           name,
                           "--flow",
                           "planar:8",
                           "--steps",
                           "300",
                           "--batch",
                           "128",
                           "--lr",
                           "0.01",
                           "--seed",
                           "1",
                           "--out",
                           file("m.safetensors"),
                           "--estimate-rows",
                           "20000"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
};

TEST_F(CliTarget, TheDivergenceFalls) {
  std::vector<double> const log_z = {1.877502, 2.157505, 2.717121, 2.786114};
  for (int number = 1; number <= 4; ++number) {
    auto const name  = "U" + std::to_string(number);
    auto const first = trained(changed(target(name), "--steps", "1"));
    auto const last  = trained(target(name));
    SCOPED_TRACE(last);
    EXPECT_NEAR(CliTrain::number(last, "log Z"), log_z[std::size_t(number - 1)], 1e-6);
    EXPECT_NEAR(CliTrain::number(last, "KL"),
                CliTrain::number(last, "loss") + CliTrain::number(last, "log Z"), 2e-6);
    EXPECT_LT(CliTrain::number(last, "KL"), 0.5 * CliTrain::number(first, "KL"));
    EXPECT_GT(CliTrain::number(last, "KL"), 0);
    EXPECT_GT(CliTrain::number(last, "+-"), 0);
    EXPECT_LT(CliTrain::number(last, "+-"), 0.05);
    EXPECT_GT(CliTrain::number(last, "ESS"), 0);
    EXPECT_LE(CliTrain::number(last, "ESS"), 1);
    EXPECT_EQ(read_model(file("m.safetensors")).direction, Direction::generative);
  }
}

TEST_F(CliTarget, OptionsOfReverseKl) {
  for (Arguments const& more : std::vector<Arguments>{
           {"--path-gradient", "--anneal", "100"},
           {"--direction", "normalizing"},
           {"--compute", "float", "--validation-rows", "500", "--validation-interval", "50"},
           {"--constraint", "none"}}) {
    SCOPED_TRACE(::testing::PrintToString(more));
    auto arguments = target("U1", {"--log", file("l.csv"), "--plot", file("p.png")});
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_LT(CliTrain::number(trained(arguments), "KL"), 2);
    EXPECT_GT(cells(read_bytes(file("l.csv"))).size(), 10U);
    EXPECT_GT(read_bytes(file("p.png")).size(), 2000U);
  }
}

TEST_F(CliTarget, ResumesAsItWouldHaveGoneOn) {
  trained(target("U2", {"--anneal", "200"}));
  auto const whole           = read_bytes(file("m.safetensors"));
  Arguments const checkpoint = {"--anneal", "200", "--checkpoint", file("c")};
  trained(changed(target("U2", checkpoint), "--steps", "110"));
  auto resumed = target("U2", checkpoint);
  resumed.emplace_back("--resume");
  trained(resumed);
  EXPECT_EQ(read_bytes(file("m.safetensors")), whole);
}

// Misuse
// --------------------------------------------------------------------------------------------

TEST_F(CliTrain, WrongUsage) {
  make_data<float>("train.npy", 20, 1);
  make_data<float>("validation.npy", 20, 1);
  auto const wrong = [&](Arguments const& arguments, std::string const& text) {
    expect_failure(arguments, text, usage);
  };
  auto const with = [&](Arguments const& more, std::string const& text) {
    wrong(train(more), text);
  };
  for (std::string const flow : {"radial:3", "planar", "16", ""})
    wrong(changed(train(), "--flow", flow),
          "--flow: expected planar:L, L layers, got '" + flow + "'");
  for (std::string const layers : {"0", "-1", "x", "", "1e3", "1000001"})
    wrong(changed(train(), "--flow", "planar:" + layers),
          "--flow: planar:L: expected a whole number from 1 to 1000000, got '" + layers + "'");
  for (std::string const steps : {"0", "-5", "1.5"})
    wrong(changed(train(), "--steps", steps),
          "--steps: expected a whole number from 1 to 2^63 - 1, got '" + steps + "'");
  for (std::string const rate : {"0", "-1", "nan", "inf", "x"})
    wrong(changed(train(), "--lr", rate), "--lr: expected a finite number > 0, got '" + rate + "'");
  with({"--batch", "0"}, "--batch: expected a whole number from 1 to 2^63 - 1, got '0'");
  for (std::string const part : {"0", "1", "-0.1", "nan"})
    with({"--validation-fraction", part},
         "--validation-fraction: expected a number above 0 and below 1, got '" + part + "'");
  with({"--validation-fraction", "0.1", "--validation", file("validation.npy")},
       "--validation-fraction: give either --validation or --validation-fraction");
  with({"--patience", "3"}, "--patience: needs --validation or --validation-fraction");
  with({"--validation-interval", "3"},
       "--validation-interval: needs --validation or --validation-fraction");
  with({"--resume"}, "--resume: needs --checkpoint");
  with({"--checkpoint-interval", "5"}, "--checkpoint-interval: needs --checkpoint");
  with({"--warmup", "61"}, "--warmup: expected no more than the 60 steps of --steps, got 61");
  with({"--final-lr", "1e-4"}, "--final-lr: goes with --schedule cosine or exponential");
  with({"--schedule", "exponential"}, "--schedule: exponential needs a --final-lr above zero");
  with({"--schedule", "cosine", "--final-lr", "1"}, "--final-lr: is more than --lr");
  with({"--slope", "0.1"}, "--slope: goes with --activation leaky_relu only");
  with({"--constraint", "none", "--direction", "generative"},
       "--constraint: without one a layer may have no inverse, which this training needs "
       "(--direction normalizing does not)");
  with({"--path-gradient"}, "--path-gradient: goes with --target only");
  with({"--target", "U1"}, "--target: give either --data or --target");
  wrong({"train", "--flow", "planar:2", "--steps", "5", "--seed", "1", "--out", file("m")},
        "neither --data nor --target was given");
  Arguments const target = {"train", "--target", "U1", "--flow", "planar:2", "--steps",
                            "5",     "--seed",   "1",  "--out",  file("m")};
  auto const on_target   = [&](Arguments const& more, std::string const& text) {
    auto arguments = target;
    arguments.insert(arguments.end(), more.begin(), more.end());
    wrong(arguments, text);
  };
  on_target({}, "--batch: is required with --target");
  on_target({"--batch", "5", "--standardize"}, "--standardize: goes with --data only");
  on_target({"--batch", "5", "--patience", "5"}, "--patience: needs --validation-rows");
  on_target({"--batch", "5", "--constraint", "none", "--path-gradient"},
            "--constraint: without one a layer may have no inverse, which this training needs "
            "(--direction generative without --path-gradient does not)");
  EXPECT_EQ(folder_.list(), "train.npy validation.npy");
}

TEST_F(CliTrain, ResultsReplaceNothing) {
  make_data<float>("train.npy", 20, 1);
  make_data<float>("validation.npy", 20, 1);
  expect_failure(train({}, "train.npy"), "--out: would replace the rows of --data", usage);
  expect_failure(train({"--validation", file("validation.npy")}, "validation.npy"),
                 "--out: would replace the rows of --validation", usage);
  for (std::string const option : {"--log", "--plot", "--checkpoint"}) {
    expect_failure(train({option, file("train.npy")}),
                   option + ": would replace the rows of --data", usage);
    expect_failure(train({option, file("m.safetensors")}),
                   option + ": names the same file as --out", usage);
  }
  // Two spellings of one name that does not exist yet.
  auto const here = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  expect_failure(changed(train({"--log", "./new"}), "--out", "new"),
                 "--log: names the same file as --out", usage);
  std::filesystem::current_path(here);
  EXPECT_EQ(folder_.list(), "train.npy validation.npy");
}

TEST_F(CliTrain, BadRows) {
  auto values        = make_rows<float>(40, 3);
  values[3 * 17 + 2] = NAN;
  write_rows("train.npy", values, 40);
  expect_failure(train(),
                 quoted("train.npy") + ": row 17 holds NaN in column 2 (both counted from 0)");
  values[3 * 17 + 2] = -INFINITY;
  write_rows("train.npy", values, 40);
  expect_failure(train(), quoted("train.npy") +
                              ": row 17 holds an infinity in column 2 (both counted from 0)");
  make_data<float>("good.npy", 40, 1);
  auto const good = changed(train(), "--data", file("good.npy"));
  auto validated  = good;
  validated.insert(validated.end(), {"--validation", file("train.npy")});
  expect_failure(validated, quoted("train.npy") +
                                ": row 17 holds an infinity in column 2 (both counted from 0)");
  make_rows<float>(40, 2);
  expect_failure(changed(validated, "--validation", file("z.npy")),
                 quoted("z.npy") + " has 2 columns, " + quoted("good.npy") + " has 3 columns");
  write_bytes(file("empty.npy"), npy(npy_header("<f4", false, "(0, 3)"), ""));
  expect_failure(changed(good, "--data", file("empty.npy")), quoted("empty.npy") + " has no rows");
  auto batch = good;
  batch.insert(batch.end(), {"--batch", "41"});
  expect_failure(batch, "--batch 41 is more than the 40 rows there are to train on (" +
                            quoted("good.npy") + ")");
  make_data<double>("double.npy", 40, 1);
  auto narrowed = changed(good, "--data", file("double.npy"));
  narrowed.insert(narrowed.end(), {"--compute", "float"});
  expect_failure(narrowed, quoted("double.npy") +
                               " holds float64, which --compute float would narrow; give --compute "
                               "double, or convert the file to float32");
  make_data<float>("one.npy", 1, 1);
  auto alone = changed(good, "--data", file("one.npy"));
  alone.insert(alone.end(), {"--validation-fraction", "0.5"});
  expect_failure(alone, quoted("one.npy") + " has 1 rows, none would be left to train on");
  EXPECT_EQ(folder_.list(), "double.npy empty.npy good.npy one.npy train.npy z.npy");
}

TEST_F(CliTrain, FailsBeforeItTrains) {
  make_data<float>("train.npy", 40, 1);
  auto const forever = changed(train(), "--steps", "1000000000");
  auto const nowhere = file("missing/m");
  expect_failure(changed(forever, "--out", nowhere),
                 "cannot write '" + nowhere + "': No such file or directory");
  for (std::string const option : {"--plot", "--log", "--checkpoint"}) {
    auto arguments = forever;
    arguments.insert(arguments.end(), {option, nowhere});
    expect_failure(arguments, "cannot write '" + nowhere + "': No such file or directory");
  }
  auto full = forever;
  full.insert(full.end(), {"--log", "/dev/full"});
  expect_failure(full, "cannot write '/dev/full': No space left on device");
  EXPECT_EQ(folder_.list(), "train.npy");
}

}  // namespace

}  // namespace meander::test
