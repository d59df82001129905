// SPDX-License-Identifier: BSD-3-Clause
// The tool's commands that take the flow as a distribution, run as a user would.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <meander/model_file.hpp>

#include "tool/cli_fixture.hpp"
#include "tool/files.hpp"

namespace meander::test {

namespace {

constexpr int usage = 2;

std::string const two_modes = data / "normflows_twomodes_k16.safetensors";

class CliFlow : public Cli {
 protected:
  static void add(Arguments& arguments, Arguments const& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
  }

  /// The command on one file: in to out.
  Arguments push(std::string const& command, std::string const& model, std::string const& in,
                 std::string const& out, Arguments const& more = {}) const {
    Arguments arguments = {command, "--model", model, "--in", in, "--out", file(out)};
    add(arguments, more);
    return arguments;
  }

  Arguments draw(std::string const& model, std::string const& rows, Arguments const& more = {},
                 std::string const& out = "x.npy") const {
    Arguments arguments = {"sample", "--model", model,   "-n",     rows,
                           "--seed", "7",       "--out", file(out)};
    add(arguments, more);
    return arguments;
  }

  Array array(std::string const& name) const { return read_array(file(name)); }
};

// inverse ----------------------------------------------------------------------------------------

TEST_F(CliFlow, InverseUndoesForward) {
  struct Case {
    std::string name;
    double tolerance;  ///< nearly singular layers magnify rounding
    Arguments more;
  };
  std::vector<Case> const cases = {
      {"reference_d2_l32", 1e-11, {}},
      {"reference_d5_l3", 1e-13, {}},
      {"reference_d32_l8", 1e-13, {}},
      {"reference_d32_l8_hard", 1e-9, {}},
      {"reference_d100_l16", 1e-12, {}},
      {"normflows_twomodes_k16", 1e-10, {}},
      {"normflows_leaky_k8", 1e-12, {"--activation", "leaky_relu", "--slope", "0.2"}}};
  for (auto const& [name, tolerance, more] : cases) {
    SCOPED_TRACE(name);
    std::string const model = data / (name + ".safetensors");
    auto const z            = read_array(data / (name + ".z.npy"));
    write_rows("z.npy", z.values, z.shape[0]);  // in float64
    auto there = push("forward", model, file("z.npy"), "x.npy", {"--log-det", file("there.npy")});
    add(there, more);
    auto back = push("inverse", model, file("x.npy"), "z2.npy", {"--log-det", file("back.npy")});
    add(back, more);
    expect_success(there);
    expect_success(back);
    EXPECT_LE(largest_error(array("z2.npy"), array("z.npy"), true), tolerance);
    auto log_det = array("back.npy");
    for (auto& value : log_det.values) value = -value;
    EXPECT_LE(largest_error(log_det, array("there.npy"), true), 10 * tolerance);

    auto chunked = push("inverse", model, file("x.npy"), "chunked.npy",
                        {"--chunk-rows", "77", "--threads", "1"});
    add(chunked, more);
    expect_success(chunked);
    EXPECT_EQ(read_bytes(file("chunked.npy")), read_bytes(file("z2.npy")));
  }
}

TEST_F(CliFlow, NormalizingModelsRunTheOtherWay) {
  make_rows<double>(500, 5);
  Arguments const normalizing = {"--direction", "normalizing"};
  auto const compare          = [&](std::string const& command, std::string const& opposite) {
    auto one = push(command, bare, file("z.npy"), "one.npy", {"--log-det", file("one.ld.npy")});
    auto other =
        push(opposite, bare, file("z.npy"), "other.npy", {"--log-det", file("other.ld.npy")});
    add(one, normalizing);
    expect_success(one);
    expect_success(other);
    EXPECT_EQ(read_bytes(file("one.npy")), read_bytes(file("other.npy")));
    EXPECT_EQ(read_bytes(file("one.ld.npy")), read_bytes(file("other.ld.npy")));
  };
  compare("inverse", "forward");
  compare("forward", "inverse");
}

TEST_F(CliFlow, LayersThatAreNotInvertible) {
  PlanarLayers layers;
  layers.count              = 1;
  layers.dim                = 2;
  layers.options.constraint = Constraint::none;
  layers.w                  = {1, 0};
  layers.u                  = {-3, 0};
  layers.b                  = {0};
  Model model;
  model.layers.emplace_back(layers);
  write_model(file("m"), model);
  make_rows<double>(5, 2);
  expect_success(push("forward", file("m"), file("z.npy"), "x.npy"));
  auto const outcome = run(push("inverse", file("m"), file("z.npy"), "y.npy"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(outcome.err.starts_with("meander: " + quoted("m") + ": ")) << outcome.err;
  EXPECT_EQ(folder_.list(), "m x.npy z.npy");
}

// log-prob ---------------------------------------------------------------------------------------

TEST_F(CliFlow, LogProbOfReferences) {
  for (std::string const name : {"normflows_twomodes_k16", "normflows_leaky_k8"}) {
    SCOPED_TRACE(name);
    Arguments more;
    if (name == "normflows_leaky_k8") more = {"--activation", "leaky_relu", "--slope", "0.2"};
    expect_success(push("log-prob", data / (name + ".safetensors"), data / (name + ".y64.npy"),
                        "logq.npy", more));
    EXPECT_LE(largest_error(array("logq.npy"), read_array(data / (name + ".logq64.npy")), true),
              1e-6);
  }
  for (std::string const name : {"breast_cancer", "digits"}) {
    SCOPED_TRACE(name);
    expect_success(push("log-prob", data / (name + "_planar_l16.safetensors"),
                        data / (name + ".test.npy"), "logq.npy",
                        {"--direction", "normalizing", "--chunk-rows", "50"}));
    auto const logq = array("logq.npy");
    EXPECT_EQ(logq.type, ScalarType::float32);
    EXPECT_LE(
        largest_error(logq, read_array(data / (name + "_planar_l16.test_logprob64.npy")), true),
        1e-6);
  }
}

TEST_F(CliFlow, LogProbMisuse) {
  make_rows<float>(4, 3);
  expect_failure(push("log-prob", bare, file("z.npy"), "logq.npy"),
                 quoted("z.npy") + " has 3 columns, the model '" + bare + "' has dimension 5");
  expect_failure(push("log-prob", bare, file("z.npy"), "z.npy"),
                 "--out: would replace the rows of --in", usage);
  expect_failure({"log-prob", "--model", bare, "--in", file("z.npy"), "--out", bare},
                 "--out: would replace the model file", usage);
  expect_failure({"log-prob", "--model", bare, "--in", file("z.npy")}, "--out is required", usage);
  EXPECT_EQ(folder_.list(), "z.npy");
}

// sample -----------------------------------------------------------------------------------------

TEST_F(CliFlow, SampleDoesNotDependOnHowItIsSplit) {
  for (std::string const& model : {bare, two_modes}) {
    Arguments const log_prob = {"--log-prob", file("logq.npy")};
    expect_success(draw(model, "1000", log_prob));
    auto const x    = array("x.npy");
    auto const logq = array("logq.npy");
    auto const dim  = x.shape[1];
    EXPECT_EQ(x.type, ScalarType::float32);
    EXPECT_EQ(x.shape[0], 1000U);
    EXPECT_EQ(logq.shape, (std::vector<std::uint64_t>{1000}));

    std::vector<double> rows, densities;
    std::uint64_t first = 0;
    for (std::uint64_t const count : {1, 332, 0, 667}) {
      auto arguments = draw(model, std::to_string(count), log_prob);
      add(arguments, {"--first-row", std::to_string(first)});
      expect_success(arguments);
      auto const part = array("x.npy");
      EXPECT_EQ(part.shape, (std::vector<std::uint64_t>{count, dim}));
      rows.insert(rows.end(), part.values.begin(), part.values.end());
      auto const part_of_logq = array("logq.npy");
      densities.insert(densities.end(), part_of_logq.values.begin(), part_of_logq.values.end());
      first += count;
    }
    EXPECT_EQ(rows, x.values);
    EXPECT_EQ(densities, logq.values);

    for (Arguments const& more : std::vector<Arguments>{
             {"--chunk-rows", "1"}, {"--chunk-rows", "333"}, {"--threads", "1"}}) {
      expect_success(draw(model, "1000", more));
      EXPECT_EQ(array("x.npy").values, x.values);
    }
    auto other = draw(model, "1000");
    other[6]   = "8";
    expect_success(other);
    EXPECT_NE(array("x.npy").values, x.values);
  }
}

TEST_F(CliFlow, SampleScoresItsRows) {
  for (std::string const direction : {"generative", "normalizing"}) {
    for (std::string const& model : {bare, two_modes}) {
      SCOPED_TRACE(direction);
      SCOPED_TRACE(model);
      Arguments const way = {"--direction", direction};
      auto sampled = draw(model, "3000", {"--log-prob", file("drawn.npy"), "--type", "float64"});
      add(sampled, way);
      expect_success(sampled);
      expect_success(push("log-prob", model, file("x.npy"), "scored.npy", way));
      EXPECT_EQ(array("x.npy").type, ScalarType::float64);
      EXPECT_LE(largest_error(array("drawn.npy"), array("scored.npy"), true), 1e-9);
    }
  }
}

/// The energy U1 of Rezende & Mohamed (2015), table 1.
double energy(double x, double y) {
  double const ring = (std::hypot(x, y) - 2) / 0.4;
  auto const mode   = [&](double at) { return std::exp(-0.5 * std::pow((x - at) / 0.6, 2)); };
  return 0.5 * ring * ring - std::log(mode(2) + mode(-2));
}

struct Moments {
  double mean, error;  ///< the standard error of the mean
};

template <class Value>
Moments moments(Array const& rows, Value const& value) {
  auto const count = static_cast<double>(rows.shape[0]);
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < rows.values.size(); i += 2) {
    double const v = value(rows.values[i], rows.values[i + 1]);
    sum += v;
    squares += v * v;
  }
  double const mean = sum / count;
  return {mean, std::sqrt((squares / count - mean * mean) / count)};
}

TEST_F(CliFlow, SamplesOfTheTwoModes) {
  expect_success(draw(two_modes, "200000"));
  auto const ours   = array("x.npy");
  auto const theirs = read_array(data / "normflows_twomodes_k16.y64.npy");
  // Five standard errors: one run in a million fails, and the seed is fixed.
  auto const compare = [&](auto const& value) {
    auto const a = moments(ours, value);
    auto const b = moments(theirs, value);
    EXPECT_NEAR(a.mean, b.mean, 5 * std::hypot(a.error, b.error));
  };
  compare(energy);
  compare([](double x, double) { return x > 0 ? 1.0 : 0.0; });
  compare([](double, double y) { return y; });
  auto const right = moments(ours, [](double x, double) { return x > 0 ? 1.0 : 0.0; });
  EXPECT_NEAR(right.mean, 0.5, 0.03) << "the modes weigh the same as far as the flow was trained";
}

TEST_F(CliFlow, SampleOfTheBaseAlone) {
  Model model;
  model.base   = DiagonalNormal{{1, -2}, {std::log(0.5), std::log(3.0)}};
  model.stored = ScalarType::float64;
  write_model(file("m"), model);
  expect_success(draw(file("m"), "20000", {"--log-prob", file("logq.npy"), "--type", "float64"}));
  auto const x    = array("x.npy");
  auto const logq = array("logq.npy");
  double largest  = 0;
  for (std::size_t i = 0; i < logq.values.size(); ++i) {
    double const a     = (x.values[2 * i] - 1) / 0.5;
    double const b     = (x.values[2 * i + 1] + 2) / 3;
    double const truth = -0.5 * (a * a + b * b) - std::log(2 * M_PI) - std::log(1.5);
    largest            = std::max(largest, std::abs(logq.values[i] - truth));
  }
  EXPECT_LE(largest, 1e-13);
  auto const first = moments(x, [](double a, double) { return a; });
  EXPECT_NEAR(first.mean, 1, 5 * first.error);
  EXPECT_NEAR(first.error, 0.5 / std::sqrt(20000), 1e-4);
}

TEST_F(CliFlow, SampleOfNothing) {
  expect_success(draw(bare, "0", {"--log-prob", file("logq.npy")}));
  EXPECT_EQ(array("x.npy").shape, (std::vector<std::uint64_t>{0, 5}));
  EXPECT_EQ(array("logq.npy").shape, (std::vector<std::uint64_t>{0}));
}

TEST_F(CliFlow, SampleTooLargeForTheDisk) {
  // Refused before a row is drawn.
  for (std::string const rows : {"100000000000000", "400000000000000000"}) {
    auto const outcome = run(draw(bare, rows));
    EXPECT_EQ(outcome.code, 1);
    EXPECT_TRUE(outcome.err.starts_with("meander: cannot write " + quoted("x.npy") + " ("))
        << outcome.err;
  }
  expect_failure(
      draw(bare, "9223372036854775807"),
      "cannot write " + quoted("x.npy") + ": no file can hold that many rows of this dimension");
  largest_file_ = 1000;
  expect_failure(draw(bare, "100", {"--log-prob", file("logq.npy")}),
                 "cannot write " + quoted("x.npy") + " (2128 bytes): File too large");
  EXPECT_EQ(folder_.list(), "");
}

TEST_F(CliFlow, SampleMisuse) {
  expect_failure({"sample", "--model", bare, "-n", "3", "--out", file("x.npy")},
                 "--seed is required", usage);
  expect_failure(draw(bare, "-1"), "--rows: expected a whole number from 0 to 2^63 - 1, got '-1'",
                 usage);
  expect_failure(draw(bare, "1.5"), "--rows: expected a whole number from 0 to 2^63 - 1, got '1.5'",
                 usage);
  expect_failure(draw(bare, "2", {"--first-row", "18446744073709551615"}),
                 "--first-row: expected no more than 18446744073709551614 for that many rows (2), "
                 "got 18446744073709551615",
                 usage);
  expect_failure(draw(bare, "2", {"--compute", "float", "--type", "float64"}),
                 "--type: float64 needs --compute double", usage);
  expect_failure(draw(bare, "2", {"--log-prob", file("x.npy")}),
                 "--log-prob: names the same file as --out", usage);
  expect_failure({"sample", "--model", bare, "-n", "2", "--seed", "1", "--out", bare},
                 "--out: would replace the model file", usage);
  for (std::string const number : {"-1", "18446744073709551616", "1e3", "0x10", "+1", " 1", ""}) {
    auto arguments = draw(bare, "2");
    arguments[6]   = number;
    auto const end = ": expected a whole number from 0 to 2^64 - 1, got '" + number + "'";
    expect_failure(arguments, "--seed" + end, usage);
    expect_failure(draw(bare, "2", {"--first-row", number}), "--first-row" + end, usage);
  }
  expect_failure(draw(bare, "9223372036854775808"),
                 "--rows: expected a whole number from 0 to 2^63 - 1, got '9223372036854775808'",
                 usage);
}

TEST_F(CliFlow, SampleUpToTheLastRow) {
  for (std::string const rows : {"0", "1"}) {
    expect_success(draw(bare, rows, {"--first-row", "18446744073709551615"}));
  }
  expect_success(draw(bare, "10", {"--first-row", "18446744073709551606", "--chunk-rows", "3"}));
  EXPECT_EQ(array("x.npy").shape[0], 10U);
}

TEST_F(CliFlow, NumbersAreDecimal) {
  auto ten = draw(bare, "010", {"--chunk-rows", "08"});
  ten[6]   = "010";
  expect_success(ten);
  auto const x = array("x.npy");
  EXPECT_EQ(x.shape[0], 10U);
  ten[6] = "10";
  expect_success(ten);
  EXPECT_EQ(array("x.npy").values, x.values);
}

TEST_F(CliFlow, SampleVerbosePrintsOneLine) {
  auto const outcome = run(draw(bare, "10", {"--verbose", "--compute", "float"}));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, note(draw(bare, "10")));
  EXPECT_TRUE(outcome.out.starts_with(
      "10 rows of dimension 5 through 3 layers: float32 rows, float arithmetic, "))
      << outcome.out;
}

TEST_F(CliFlow, SignalsLeaveNothing) {
  for (int const signal : {SIGTERM, SIGINT}) {
    auto const child = start(draw(bare32, "10000000", {"--log-prob", file("logq.npy")}));
    using namespace std::chrono_literals;
    auto const deadline = std::chrono::steady_clock::now() + 20s;
    while (folder_.list().find("logq.npy.partial") == std::string::npos &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(5ms);
    }
    ::kill(child, signal);
    EXPECT_EQ(wait(child).code, -signal);
    EXPECT_EQ(folder_.list(), "");
  }
}

// density ----------------------------------------------------------------------------------------

TEST_F(CliFlow, DensityOfAFlow) {
  expect_success(draw(two_modes, "20000"));
  for (Arguments const& more : std::vector<Arguments>{{}, {"--bins", "80"}}) {
    Arguments arguments = {"density",     "--model", two_modes,    "--after",
                           file("x.npy"), "--out",   file("p.png")};
    add(arguments, more);
    expect_success(arguments);
    auto const bytes = read_bytes(file("p.png"));
    EXPECT_EQ(bytes.substr(0, 8), "\x89PNG\r\n\x1a\n");
    EXPECT_GT(bytes.size(), 5000U);
  }
  expect_failure({"density", "--model", bare, "--after", file("x.npy"), "--out", file("q.png")},
                 "'" + bare + "' has dimension 5, only a density in the plane is drawn");
  expect_failure({"density", "--model", two_modes, "--after", file("x.npy"), "--out", two_modes},
                 "--out: would replace the file of --model", usage);
  expect_failure({"density", "--model", two_modes, "--before", file("x.npy"), "--after",
                  file("x.npy"), "--out", file("q.png")},
                 "--before: give either --before or --model", usage);
  Model nowhere;
  nowhere.base = DiagonalNormal{{NAN, 0}, {0, 0}};
  write_model(file("m"), nowhere);
  expect_failure(
      {"density", "--model", file("m"), "--after", file("x.npy"), "--out", file("q.png")},
      quoted("m") + ": the density is NaN everywhere within the range of the axes");
  EXPECT_EQ(folder_.list(), "m p.png x.npy");
}

}  // namespace

}  // namespace meander::test
