// SPDX-License-Identifier: BSD-3-Clause
// Runs the built tool as a user would.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <meander/model_file.hpp>

#include "cli/npy.hpp"
#include "cli/picture.hpp"
#include "cli/progress.hpp"
#include "tool/cli_fixture.hpp"
#include "tool/files.hpp"

namespace meander::test {

namespace {

// What the tool says ----------------------------------------------------------------------------

TEST_F(Cli, HelpAndVersion) {
  auto const help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.err, "");
  std::vector<std::string> const commands = {"forward", "inverse", "log-prob", "sample",
                                             "info",    "compare", "density",  "train"};
  auto words                              = commands;
  words.insert(words.end(), {"Examples:", "Exit codes"});
  for (auto const& word : words) EXPECT_NE(help.out.find(word), std::string::npos) << word;
  for (auto const& command : commands) {
    auto const outcome = run({command, "--help"});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.err, "");
    EXPECT_NE(outcome.out.find("Example"), std::string::npos);
    EXPECT_NE(outcome.out.find("meander " + command + " "), std::string::npos);
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
  }
  auto const version = run({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(version.err, "");
  EXPECT_TRUE(version.out.starts_with("meander ")) << version.out;
  EXPECT_NE(version.out.find("\nKokkos "), std::string::npos);
  EXPECT_NE(version.out.find("\nbackends: "), std::string::npos);
}

TEST_F(Cli, WrongUsage) {
  constexpr int usage = 2;
  expect_failure({}, "one command is required", usage);
  expect_failure({"frobnicate"}, "there is no command 'frobnicate'", usage);
  expect_failure({"frob\x1b[31m"}, "there is no command 'frob\\x1b[31m'", usage);
  expect_failure({"forward"}, "--model is required", usage);
  expect_failure({"info"}, "model is required", usage);
  expect_failure(forward(bare, {"--bogus"}), "The following argument was not expected: --bogus",
                 usage);
  expect_failure(forward(bare, {"--compute", "half"}), "--compute: half not in {float,double}",
                 usage);
  expect_failure(forward(bare, {"--epsilon", "-1"}),
                 "--epsilon: expected a finite number >= 0, got '-1'", usage);
  expect_failure(forward(bare, {"--epsilon", "nan"}),
                 "--epsilon: expected a finite number >= 0, got 'nan'", usage);
  expect_failure(forward(bare, {"--slope", "2"}), "--slope: expected a number from 0 to 1, got '2'",
                 usage);
  expect_failure(forward(bare, {"--chunk-rows", "-3"}),
                 "--chunk-rows: expected a whole number from 1 to 2^63 - 1, got '-3'", usage);
  expect_failure(forward(bare, {"--log-det", file("y.npy")}),
                 "--log-det: names the same file as --out", usage);
  expect_failure({"forward", "--model", bare, "--in", file("z.npy"), "--out", bare},
                 "--out: would replace the model file", usage);
  expect_failure(forward(bare, {"--log-det", file("z.npy")}),
                 "--log-det: would replace the rows of --in", usage);
  for (std::string const threads : {"0", "-1", "x", "1.5", "0x2", "99999999999999999999", ""}) {
    auto const outcome = run(forward(bare, {"--threads", threads}));
    EXPECT_EQ(outcome.code, usage);
    EXPECT_NE(outcome.err.find("--threads: expected a whole number from 1 to "), std::string::npos)
        << outcome.err;
  }
  expect_failure(forward(bare, {"--chunk-rows", "9223372036854775808"}),
                 "--chunk-rows: expected a whole number from 1 to 2^63 - 1, got "
                 "'9223372036854775808'",
                 usage);
  EXPECT_EQ(run({"info", "--bogus"}).err.substr(0, 9), "meander: ");
  EXPECT_NE(run({"info", "--bogus"}).err.find("Try 'meander info --help'."), std::string::npos);
}

TEST_F(Cli, EmptyFileNames) {
  constexpr int usage = 2;
  expect_failure(forward(bare, {"--log-det", ""}), "--log-det: empty file name", usage);
  Arguments const all  = {"sample", "--model", "m", "-n",         "1", "--seed",
                          "1",      "--out",   "x", "--log-prob", "l"};
  Arguments const plot = {"density", "--model", "m", "--before", "z", "--after", "x", "--out", "p"};
  Arguments const map  = {"log-prob", "--model", "m", "--in", "x", "--out", "l"};
  for (auto arguments : {all, plot, map}) {
    for (std::size_t i = 1; i < arguments.size(); i += 2) {
      if (arguments[i] == "-n" || arguments[i] == "--seed") continue;
      auto without   = arguments;
      without[i + 1] = "";
      expect_failure(without, arguments[i] + ": empty file name", usage);
    }
  }
  expect_failure({"info", ""}, "model: empty file name", usage);
  expect_failure({"compare", "a", ""}, "b: empty file name", usage);
}

TEST_F(Cli, FailuresNameTheFile) {
  auto const missing = file("missing");
  expect_failure({"info", missing}, "cannot open '" + missing + "': No such file or directory");
  expect_failure(forward(missing), "cannot open '" + missing + "': No such file or directory");
  expect_failure(forward(bare), "cannot open " + quoted("z.npy") + ": No such file or directory");
  write_bytes(file("z.npy"), "no array at all");
  expect_failure(forward(bare),
                 quoted("z.npy") + ": not a .npy file: it does not begin with \\x93NUMPY");
  make_rows<float>(4, 3);
  expect_failure(forward(bare),
                 quoted("z.npy") + " has 3 columns, the model '" + bare + "' has dimension 5");
  make_rows<double>(4, 5);
  expect_failure(
      forward(bare, {"--compute", "float"}),
      quoted("z.npy") +
          " holds float64, which --compute float would narrow; give --compute double, or "
          "convert the file to float32");
  write_bytes(file("z.npy"), npy(npy_header("<f4", false, "(5,)"), std::string(20, '\0')));
  expect_failure(forward(bare), quoted("z.npy") + " has one dimension, expected two: (rows, 5)");
  make_rows<float>(4, 5);
  auto const nowhere = file("nowhere/y.npy");
  expect_failure({"forward", "--model", bare, "--in", file("z.npy"), "--out", nowhere},
                 "cannot write '" + nowhere + "': No such file or directory");
  expect_failure({"forward", "--model", bare, "--in", file("z.npy"), "--out", "/dev/null"},
                 "cannot write '/dev/null': it exists and is not a regular file");
  expect_failure(forward(bare, {"--slope", "0.1"}),
                 "'" + bare + "': negative_slope was given, but the activation is tanh");
  EXPECT_EQ(folder_.list(), "z.npy");
}

TEST_F(Cli, UnwritableFolder) {
  make_rows<float>(4, 5);
  std::filesystem::copy(bare, folder_ / "m");
  ::chmod(file("m").c_str(), 0444);
  ::chmod(file("z.npy").c_str(), 0444);
  ::chmod(folder_.path().c_str(), 0555);
  as_nobody_ = ::geteuid() == 0;  // root may write everywhere
  if (run({"--version"}).code == cannot_run) GTEST_SKIP() << "user 65534 cannot run the tool";
  expect_failure(forward(file("m")), "cannot write " + quoted("y.npy") + ": Permission denied");
  ::chmod(folder_.path().c_str(), 0755);
}

TEST_F(Cli, FullDisk) {
  std::vector<Arguments> const commands = {
      {"--version"}, {"--help"}, {"forward", "--help"}, {"info", bare}};
  for (auto const& arguments : commands) {
    auto const outcome = run(arguments, "/dev/full");
    EXPECT_EQ(outcome.code, 1) << arguments.back();
    EXPECT_EQ(outcome.err,
              "meander: cannot write to the standard output: No space left on device\n");
  }
}

TEST_F(Cli, FileSizeLimit) {
  make_rows<float>(10000, 5);
  largest_file_ = 100000;
  expect_failure(forward(bare),
                 "cannot write " + quoted("y.npy") + " (200128 bytes): File too large");
  EXPECT_EQ(folder_.list(), "z.npy");
}

TEST_F(Cli, LongNames) {
  make_rows<float>(4, 5);
  constexpr std::size_t longest = 255;
  for (std::size_t const length : {longest - 1, longest}) {
    std::string const name(length, 'y');
    auto arguments = forward(bare, {"--log-det", file(std::string(length, 'l'))});
    arguments[6]   = file(name);
    expect_success(arguments);
    EXPECT_EQ(read_array(file(name)).shape, (std::vector<std::uint64_t>{4, 5}));
  }
  auto const too_long = std::string(longest + 1, 'y');
  auto arguments      = forward(bare);
  arguments[6]        = file(too_long);
  expect_failure(arguments, "cannot write " + quoted(too_long) + ": File name too long");
  EXPECT_EQ(folder_.list().find("partial"), std::string::npos);
}

TEST_F(Cli, ThreadsInTheEnvironment) {
  make_rows<float>(4, 5);
  for (std::string const threads : {"-3", "0", "x", "1e9"}) {
    environment_       = {{"KOKKOS_NUM_THREADS", threads}};
    auto const outcome = run(forward(bare));
    EXPECT_EQ(outcome.code, 1);
    EXPECT_TRUE(
        outcome.err.starts_with("meander: KOKKOS_NUM_THREADS: expected a whole number from 1 to "))
        << outcome.err;
  }
  environment_ = {{"KOKKOS_NUM_THREADS", "1"}};
  expect_success(forward(bare));
}

// info -------------------------------------------------------------------------------------------

TEST_F(Cli, InfoFlagsLayers) {
  PlanarLayers layers;
  layers.count = 5;
  layers.dim   = 2;
  layers.w     = {1, 0, 0, 0, 1, 0, 1, 0, 1, 1};
  layers.u     = {1, 0, 5, 5, -1000, 0, NAN, 0, 1, 1};
  layers.b     = {0, 0, 0, 0, 0};
  Model model;
  model.layers.emplace_back(layers);
  layers.options.constraint = Constraint::none;
  layers.options.activation = Activation::leaky_relu;
  model.layers.emplace_back(layers);
  write_model(file("m"), model);
  auto const outcome = run({"info", file("m")});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  auto const has = [&](std::string const& text) {
    EXPECT_NE(outcome.out.find(text), std::string::npos) << text << "\n" << outcome.out;
  };
  has("layout      meander\nstored      float32\ndimension   2\ndirection   generative");
  has("base        standard_normal");
  has("layers.0    5 planar, tanh, constraint softplus, log_det_epsilon 0\n");
  has("layers.1    5 planar, leaky_relu (slope 0.2), constraint none, log_det_epsilon 0\n");
  has("      0             1.31326           1           1           0\n");
  has("w = 0: a shift, log-det 0");
  has("nearly singular");
  has("not finite: rows come out NaN or infinite, or untouched by it");
  has("not invertible: s < 0");
  has("6 layers are flagged.");
}

TEST_F(Cli, InfoOfAffineLayers) {
  Model model;
  model.layers = {AffineLayer{2, {-3, 1e6}, {0, std::log(0.5)}}, AffineLayer{2, {0, NAN}, {0, 0}},
                  AffineLayer{2, {0, 0}, {0, 800}}};
  model.stored = ScalarType::float64;
  write_model(file("m"), model);
  auto const text = run({"info", file("m")}).out;
  auto const has  = [](std::string const& whole, std::string const& part) {
    EXPECT_NE(whole.find(part), std::string::npos) << part << "\n" << whole;
  };
  has(text, "layers.0    affine: shift -3 to 1e+06, scale 0.5 to 1\n");
  has(text, "  <- not finite: rows come out NaN or infinite\n");
  has(text, "  <- a scale or its inverse is beyond the range of numbers\n");
  has(text, "2 layers are flagged.");
  auto const json = run({"info", file("m"), "--json"}).out;
  has(json, R"("type": "affine")");
  has(json, R"("flagged": 2)");
  has(json, "1000000.0");
}

TEST_F(Cli, InfoSaysWhatIsAssumed) {
  auto const has = [&](Arguments const& arguments, char const* text) {
    auto const outcome = run(arguments);
    EXPECT_EQ(outcome.err, "");
    EXPECT_NE(outcome.out.find(text), std::string::npos) << text << "\n" << outcome.out;
  };
  has({"info", bare}, "3 planar, tanh (assumed), constraint");
  has({"info", bare, "--activation", "tanh"}, "3 planar, tanh, constraint");
  has({"info", bare, "--json"}, R"("activation_assumed": true)");
}

TEST_F(Cli, InfoAsJson) {
  auto const outcome = run({"info", data / "normflows_leaky_k8.safetensors", "--json",
                            "--activation", "leaky_relu", "--slope", "0.25", "--epsilon", "0.5"});
  EXPECT_EQ(outcome.code, 0);
  for (char const* text :
       {R"("layout": "normflows")", R"("base": "diagonal_normal")", R"("dimension": 2)",
        R"("activation": "leaky_relu")", R"("activation_assumed": false)",
        R"("negative_slope": 0.25)", R"("log_det_epsilon": 0.5)", R"("count": 8)",
        R"("flagged": 0)", R"("s": 0.80203)"}) {
    EXPECT_NE(outcome.out.find(text), std::string::npos) << text << "\n" << outcome.out;
  }
}

// forward ----------------------------------------------------------------------------------------

/// The numbers that must hold, on every reference file.
class CliReference : public Cli, public ::testing::WithParamInterface<char const*> {
 protected:
  Array run_on_reference(std::string const& compute, Array& log_det) {
    std::string const name = GetParam();
    Arguments arguments    = {"forward",
                              "--model",
                              data / (name + ".safetensors"),
                              "--in",
                              data / (name + ".z.npy"),
                              "--out",
                              file("y.npy"),
                              "--log-det",
                              file("ld.npy"),
                              "--compute",
                              compute};
    if (name.starts_with("reference")) arguments.insert(arguments.end(), {"--epsilon", "1e-8"});
    if (name.find("leaky") != std::string::npos) {
      arguments.insert(arguments.end(), {"--activation", "leaky_relu", "--slope", "0.2"});
    }
    expect_success(arguments);
    log_det = read_array(file("ld.npy"));
    return read_array(file("y.npy"));
  }

  static Array reference(std::string const& what) {
    return read_array(data / (GetParam() + std::string(".") + what + ".npy"));
  }
};

TEST_P(CliReference, Double) {
  Array log_det;
  auto const y = run_on_reference("double", log_det);
  EXPECT_EQ(y.type, read_array(data / (GetParam() + std::string(".z.npy"))).type);
  EXPECT_EQ(log_det.type, y.type);
  EXPECT_LE(largest_error(y, reference("y64"), true), 1.2e-7);
  EXPECT_LE(largest_error(log_det, reference("logdet64"), true), 1e-6);
}

class CliFloatReference : public CliReference {};

TEST_P(CliFloatReference, Float) {
  Array log_det;
  auto const y         = run_on_reference("float", log_det);
  auto const y64       = reference("y64");
  auto const log_det64 = reference("logdet64");
  EXPECT_LE(largest_error(y, y64, false), 2 * largest_error(reference("y_torch32"), y64, false));
  EXPECT_LE(largest_error(log_det, log_det64, false),
            2 * largest_error(reference("logdet_torch32"), log_det64, false));
}

constexpr std::array stacks = {"reference_d2_l32", "reference_d5_l3", "reference_d32_l8",
                               "reference_d32_l8_hard", "reference_d100_l16"};
INSTANTIATE_TEST_SUITE_P(Stacks, CliReference, ::testing::ValuesIn(stacks));
INSTANTIATE_TEST_SUITE_P(Normflows, CliReference,
                         ::testing::Values("normflows_twomodes_k16", "normflows_leaky_k8"));
INSTANTIATE_TEST_SUITE_P(Stacks, CliFloatReference, ::testing::ValuesIn(stacks));

TEST_F(Cli, FormOfTheInputDoesNotMatter) {
  constexpr std::size_t rows = 101, cols = 5;
  auto const check = [&]<class Value>(Value, std::string const& compute) {
    auto const type   = std::string(sizeof(Value) == 4 ? "f4" : "f8");
    auto const values = make_rows<Value>(rows, cols);
    expect_success(forward(bare, {"--log-det", file("ld.npy"), "--compute", compute}));
    auto const y       = read_bytes(file("y.npy"));
    auto const log_det = read_bytes(file("ld.npy"));
    EXPECT_EQ(read_array(file("y.npy")).shape, (std::vector<std::uint64_t>{rows, cols}));

    std::vector<Value> columns;
    for (std::size_t j = 0; j < cols; ++j) {
      for (std::size_t i = 0; i < rows; ++i) columns.push_back(values[i * cols + j]);
    }
    std::string const shape = "(101, 5)";
    for (std::string const& bytes :
         {npy(npy_header("<" + type, true, shape), bytes_of(columns), 2),
          npy(npy_header(">" + type, false, shape), swapped_bytes_of(values), 3),
          npy(npy_header(">" + type, true, shape), swapped_bytes_of(columns))}) {
      write_bytes(file("z.npy"), bytes);
      for (std::string const chunk : {"1", "7", "100", "5000"}) {
        expect_success(forward(
            bare, {"--log-det", file("ld.npy"), "--compute", compute, "--chunk-rows", chunk}));
        EXPECT_EQ(read_bytes(file("y.npy")), y);
        EXPECT_EQ(read_bytes(file("ld.npy")), log_det);
      }
    }
    for (std::string const threads : {"1", "2", "3"}) {
      expect_success(
          forward(bare, {"--log-det", file("ld.npy"), "--compute", compute, "--threads", threads}));
      EXPECT_EQ(read_bytes(file("y.npy")), y);
      EXPECT_EQ(read_bytes(file("ld.npy")), log_det);
    }
    expect_success(forward(bare, {"--compute", compute}));
    EXPECT_EQ(read_bytes(file("y.npy")), y) << "without a log-det";
  };
  check(float{}, "float");
  check(float{}, "double");
  check(double{}, "double");
}

TEST_F(Cli, EmptyBatchAndOneDimension) {
  write_bytes(file("z.npy"), npy(npy_header("<f4", false, "(0, 5)"), ""));
  expect_success(forward(bare, {"--log-det", file("ld.npy")}));
  EXPECT_EQ(read_array(file("y.npy")).shape, (std::vector<std::uint64_t>{0, 5}));
  EXPECT_EQ(read_array(file("ld.npy")).shape, (std::vector<std::uint64_t>{0}));

  Model model;
  model.layers.emplace_back(PlanarLayers{1, 1, {}, {1}, {0.5}, {0}});
  write_model(file("m"), model);
  make_rows<double>(3, 1);
  expect_success(forward(file("m")));
  auto const y = read_array(file("y.npy"));
  EXPECT_EQ(y.shape, (std::vector<std::uint64_t>{3, 1}));
  write_bytes(file("z.npy"),
              npy(npy_header("<f8", false, "(3,)"), bytes_of(read_array(file("z.npy")).values)));
  expect_success(forward(file("m")));
  EXPECT_EQ(read_array(file("y.npy")).shape, (std::vector<std::uint64_t>{3}));
  EXPECT_EQ(read_array(file("y.npy")).values, y.values);
}

TEST_F(Cli, InPlace) {
  make_rows<float>(1000, 5);
  auto const z = read_bytes(file("z.npy"));
  expect_success(forward(bare));
  auto const y    = read_bytes(file("y.npy"));
  auto const onto = [&](std::string const& out) {
    expect_success({"forward", "--model", bare, "--in", file("z.npy"), "--out", file(out),
                    "--chunk-rows", "10"});
    EXPECT_EQ(read_bytes(file(out)), y) << out;
    write_bytes(file("z.npy"), z);
  };
  onto("z.npy");
  std::filesystem::create_symlink("z.npy", folder_ / "symbolic");
  onto("symbolic");
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "symbolic"));
  std::filesystem::create_hard_link(folder_ / "z.npy", folder_ / "hard");
  onto("hard");
  EXPECT_EQ(folder_.list(), "hard symbolic y.npy z.npy");
}

TEST_F(Cli, SeveralRunsOfLayers) {
  auto whole         = read_model(bare32);
  auto const& layers = std::get<PlanarLayers>(whole.layers.at(0));
  auto const part    = [&](std::int64_t first, std::int64_t last) {
    auto slice     = layers;
    auto const cut = [&](std::vector<double> const& v, std::int64_t width) {
      return std::vector(v.begin() + first * width, v.begin() + last * width);
    };
    slice.count = last - first;
    slice.w     = cut(layers.w, layers.dim);
    slice.u     = cut(layers.u, layers.dim);
    slice.b     = cut(layers.b, 1);
    return slice;
  };
  make_rows<float>(300, 32);
  Arguments const log_det = {"--log-det", file("ld.npy"), "--chunk-rows", "70"};
  expect_success(forward(bare32, log_det));
  auto const y  = read_bytes(file("y.npy"));
  auto const ld = read_bytes(file("ld.npy"));

  auto split   = whole;
  split.layers = {part(0, 3), part(3, 4), part(4, 8)};
  write_model(file("m"), split);
  expect_success(forward(file("m"), log_det));
  EXPECT_EQ(read_bytes(file("y.npy")), y) << "equal options are joined";
  EXPECT_EQ(read_bytes(file("ld.npy")), ld);

  // An epsilon so small that it changes nothing, but enough to keep the runs apart.
  auto first                    = part(0, 3);
  first.options.log_det_epsilon = 1e-300;
  split.layers                  = {first, part(3, 8)};
  write_model(file("m"), split);
  auto const y_before  = read_array(file("y.npy"));
  auto const ld_before = read_array(file("ld.npy"));
  for (std::string const compute : {"double", "float"}) {
    auto arguments = forward(file("m"), log_det);
    arguments.insert(arguments.end(), {"--compute", compute});
    expect_success(arguments);
    double const tolerance = compute == "float" ? 2e-6 : 6e-8;
    EXPECT_EQ(read_array(file("y.npy")).type, ScalarType::float32);
    EXPECT_LE(largest_error(read_array(file("y.npy")), y_before, true), tolerance);
    EXPECT_LE(largest_error(read_array(file("ld.npy")), ld_before, true), tolerance);
  }
}

TEST_F(Cli, BadRowsStayAlone) {
  auto values = make_rows<float>(100, 5);
  expect_success(forward(bare));
  auto const clean = read_array(file("y.npy"));
  values[37]       = NAN;       // in row 7
  values[250]      = INFINITY;  // in row 50
  write_rows("z.npy", values, 100);
  expect_success(forward(bare));
  auto const y = read_array(file("y.npy"));
  for (std::size_t i = 0; i < y.values.size(); ++i) {
    if (i / 5 == 7 || i / 5 == 50) {
      EXPECT_TRUE(std::isnan(y.values[i])) << i;
    } else {
      EXPECT_EQ(y.values[i], clean.values[i]) << i;
    }
  }
}

TEST_F(Cli, VerbosePrintsOneLine) {
  make_rows<float>(10, 5);
  auto const outcome = run(forward(bare, {"--verbose", "--threads", "02"}));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, note(forward(bare)));
  EXPECT_TRUE(
      outcome.out.starts_with("10 rows of dimension 5 through 3 layers: float32 rows, double "
                              "arithmetic, "))
      << outcome.out;
  EXPECT_EQ(std::ranges::count(outcome.out, '\n'), 1);
}

/// What a run that is half done after a second shows on this descriptor.
void show_progress_on(int descriptor) {
  pid_t const child = ::fork();
  if (child == 0) {
    ::dup2(descriptor, STDERR_FILENO);
    {
      cli::Progress progress(200);
      progress.show(10);  // too early
      std::this_thread::sleep_for(std::chrono::milliseconds(1100));
      progress.show(100);
    }
    ::_exit(0);
  }
  ::close(descriptor);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(Cli, ProgressBarOnATerminalOnly) {
  int const terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  ASSERT_EQ(::grantpt(terminal) | ::unlockpt(terminal), 0);
  show_progress_on(::open(::ptsname(terminal), O_RDWR | O_NOCTTY));
  std::string shown(4096, '\0');
  auto const got = ::read(terminal, shown.data(), shown.size());
  ASSERT_GT(got, 0);
  shown.resize(static_cast<std::size_t>(got));
  ::close(terminal);
  auto const bar = "\r[" + std::string(15, '#') + std::string(15, '.') + "]  50%  ";
  EXPECT_TRUE(shown.starts_with(bar)) << shown;
  EXPECT_TRUE(shown.ends_with(" s left \x1b[K\r\x1b[K")) << shown;

  show_progress_on(::open(file("log").c_str(), O_WRONLY | O_CREAT, 0600));
  EXPECT_EQ(read_bytes(file("log")), "");
}

/// A run that is ended by a signal leaves no file, under neither name.
TEST_F(Cli, SignalsLeaveNothing) {
  // A long chain: many seconds of work, a chunk at a time.
  PlanarLayers layers;
  layers.count = 20000;
  layers.dim   = 2;
  layers.w.assign(40000, 0.001);
  layers.u.assign(40000, 0.001);
  layers.b.assign(20000, 0);
  Model model;
  model.layers.emplace_back(layers);
  write_model(file("m"), model);
  make_rows<float>(1'000'000, 2);
  write_bytes(file("y.npy"), "old");
  for (int const signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) {
    auto const child = start(forward(file("m"), {"--log-det", file("ld.npy")}));
    using namespace std::chrono_literals;
    auto const deadline = std::chrono::steady_clock::now() + 20s;
    while (folder_.list().find("ld.npy.partial") == std::string::npos &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(5ms);
    }
    std::this_thread::sleep_for(100ms);
    EXPECT_NE(folder_.list().find("y.npy.partial"), std::string::npos) << folder_.list();
    ::kill(child, signal);
    EXPECT_EQ(wait(child).code, -signal);
    EXPECT_EQ(folder_.list(), "m y.npy z.npy");
    EXPECT_EQ(read_bytes(file("y.npy")), "old");
  }
}

// compare and density ----------------------------------------------------------------------------

TEST_F(Cli, Compare) {
  write_rows<float>("a.npy", {1, 2, 3, 4}, 2);
  write_rows<double>("b.npy", {1, 2.5, 3, 4}, 2);
  auto const compare = [&](Arguments const& more) {
    Arguments arguments = {"compare", file("a.npy"), file("b.npy")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  };
  EXPECT_EQ(compare({}).out, "0.2\n");
  EXPECT_EQ(compare({"--absolute"}).out, "0.5\n");
  EXPECT_EQ(compare({"--tolerance", "0.2"}).code, 0);
  auto const outcome = compare({"--tolerance", "0.1"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out, "0.2\n");
  EXPECT_EQ(outcome.err, "meander: the largest error is 0.2 (row 0, column 1), more than 0.1\n");
  write_rows<double>("b.npy", {1, NAN, 3, 4}, 2);
  EXPECT_EQ(compare({}).out, "inf\n");
  write_rows<float>("a.npy", {1, NAN, 3, 4}, 2);
  EXPECT_EQ(compare({}).out, "0\n");
  write_rows<double>("b.npy", {1, 2}, 1);
  expect_failure({"compare", file("a.npy"), file("b.npy")},
                 quoted("a.npy") + " has shape (2, 2), " + quoted("b.npy") + " has (1, 2)");
}

TEST_F(Cli, Density) {
  std::string const name = "normflows_twomodes_k16";
  expect_success({"density", "--before", data / (name + ".z.npy"), "--after",
                  data / (name + ".y64.npy"), "--out", file("p.png")});
  auto const bytes = read_bytes(file("p.png"));
  EXPECT_EQ(bytes.substr(0, 8), "\x89PNG\r\n\x1a\n");
  EXPECT_GT(bytes.size(), 5000U);
  EXPECT_EQ(folder_.list(), "p.png");
  // The two ends of --range are two words, and the first may be negative.
  expect_success({"density", "--before", data / (name + ".z.npy"), "--after",
                  data / (name + ".y64.npy"), "--range", "-1", "1", "--out", file("p.png")});
  EXPECT_NE(read_bytes(file("p.png")), bytes);
  // The picture grows with its labels.
  auto const width = [&](std::string const& low, std::string const& high) {
    expect_success({"density", "--before", data / (name + ".z.npy"), "--after",
                    data / (name + ".y64.npy"), "--range", low, high, "--out", file("p.png")});
    auto const header = read_bytes(file("p.png")).substr(18, 2);
    return 256 * static_cast<unsigned char>(header[0]) + static_cast<unsigned char>(header[1]);
  };
  // From "-2" to "-0.02" there are three characters more, seen in each panel's left margin.
  EXPECT_GE(width("-0.05", "0.05"), width("-5", "5") + 2 * 3 * cli::Picture::glyph_width);
  make_rows<float>(10, 2);
  constexpr int usage = 2;
  auto const other    = data / (name + ".z.npy");
  expect_failure({"density", "--before", file("z.npy"), "--after", other, "--out", file("z.npy")},
                 "--out: would replace the file of --before", usage);
  expect_failure({"density", "--before", other, "--after", file("z.npy"), "--out", file("z.npy")},
                 "--out: would replace the file of --after", usage);
  expect_failure({"density", "--after", file("z.npy"), "--out", file("q.png")},
                 "neither --before nor --model was given", usage);
  for (std::string const bins : {"0", "401", "0x10", "1e2"}) {
    expect_failure(
        {"density", "--before", other, "--after", other, "--out", file("q.png"), "--bins", bins},
        "--bins: expected a whole number from 1 to 400, got '" + bins + "'", usage);
  }
  make_rows<float>(10, 1);
  expect_failure(
      {"density", "--before", file("z.npy"), "--after", file("z.npy"), "--out", file("q.png")},
      quoted("z.npy") + " has 1 columns, column 1 (counted from 0) was asked for");
  write_rows<float>("z.npy", {NAN, 1}, 1);
  expect_failure(
      {"density", "--before", file("z.npy"), "--after", file("z.npy"), "--out", file("q.png")},
      quoted("z.npy") + " has no row that is finite");
}

}  // namespace

}  // namespace meander::test
