// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/npy.hpp"
#include "tool/files.hpp"

/// For tests that run the built tool as a user would.
namespace meander::test {

inline std::filesystem::path const data = MEANDER_TEST_DATA;
inline char const* const tool           = MEANDER_CLI_PATH;

struct Outcome {
  int code = 0;  ///< of exit, or minus the signal
  std::string out, err;
};

class Cli : public ::testing::Test {
 protected:
  using Arguments = std::vector<std::string>;

  pid_t start(Arguments const& arguments, char const* stdout_file = nullptr) {
    auto const out = stdout_file != nullptr ? std::string(stdout_file) : (io_ / "out").native();
    auto const err = (io_ / "err").native();
    std::vector<char const*> argv = {tool};
    for (auto const& argument : arguments) argv.push_back(argument.c_str());
    argv.push_back(nullptr);
    pid_t const child = ::fork();
    if (child == 0) {
      ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
      ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
      for (auto const& [name, value] : environment_) ::setenv(name.c_str(), value.c_str(), 1);
      if (largest_file_ > 0) {
        rlimit const limit = {largest_file_, largest_file_};
        ::setrlimit(RLIMIT_FSIZE, &limit);
      }
      if (as_nobody_ && (::setgid(nobody) != 0 || ::setuid(nobody) != 0)) ::_exit(cannot_run);
      ::execv(tool, const_cast<char* const*>(argv.data()));
      ::_exit(cannot_run);
    }
    return child;
  }

  Outcome wait(pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    Outcome outcome;
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    if (std::filesystem::exists(io_ / "out")) outcome.out = read_bytes(io_ / "out");
    outcome.err = read_bytes(io_ / "err");
    return outcome;
  }

  Outcome run(Arguments const& arguments, char const* stdout_file = nullptr) {
    return wait(start(arguments, stdout_file));
  }

  /// The arguments of a forward run in the folder: z.npy to y.npy.
  Arguments forward(std::string const& model, Arguments const& more = {}) {
    Arguments arguments = {"forward",     "--model", model,        "--in",
                           file("z.npy"), "--out",   file("y.npy")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  /// What the tool says on stderr about models in the data folder, none of which names its
  /// activation.
  static std::string note(Arguments const& arguments) {
    auto const option = std::ranges::find(arguments, "--model");
    if (option == arguments.end() || !option[1].starts_with(data.native()) ||
        std::ranges::count(arguments, "--activation") > 0) {
      return "";
    }
    return "meander: '" + option[1] +
           "' does not name its activation; taken as tanh (--activation says otherwise)\n";
  }

  void expect_success(Arguments const& arguments) {
    auto const outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err, note(arguments));
  }

  void expect_failure(Arguments const& arguments, std::string const& text, int code = 1) {
    auto const outcome = run(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err.substr(0, outcome.err.find('\n') + 1), "meander: " + text + "\n");
  }

  std::string file(std::string const& name) const { return (folder_ / name).native(); }
  std::string quoted(std::string const& name) const { return "'" + file(name) + "'"; }

  /// z.npy: rows of numbers in [-2, 2).
  template <class Value>
  std::vector<Value> make_rows(std::size_t rows, std::size_t cols) {
    std::vector<Value> values(rows * cols);
    std::uint32_t state = 1;
    for (auto& value : values) {
      state = 1664525U * state + 1013904223U;
      value = static_cast<Value>(state >> 8U) / static_cast<Value>(1U << 22U) - Value(2);
    }
    write_rows("z.npy", values, rows);
    return values;
  }

  template <class Value>
  void write_rows(std::string const& name, std::vector<Value> const& values, std::size_t rows) {
    auto const shape =
        "(" + std::to_string(rows) + ", " + std::to_string(values.size() / rows) + ")";
    write_bytes(file(name), npy(npy_header(sizeof(Value) == 4 ? "<f4" : "<f8", false, shape),
                                bytes_of(values)));
  }

  static constexpr unsigned nobody = 65534;
  static constexpr int cannot_run  = 127;

  Folder folder_;
  Folder io_;
  // What the tool runs with.
  bool as_nobody_      = false;
  rlim_t largest_file_ = 0;  ///< in bytes; 0: no limit
  std::vector<std::pair<std::string, std::string>> environment_;
};

inline std::string const bare   = data / "reference_d5_l3.safetensors";
inline std::string const bare32 = data / "reference_d32_l8.safetensors";

struct Array {
  std::vector<std::uint64_t> shape;
  ScalarType type = ScalarType::float32;
  std::vector<double> values;
};

inline Array read_array(std::filesystem::path const& path) {
  cli::NpyReader const reader(path);
  Array array{reader.shape(), reader.type(), {}};
  array.values.resize(reader.rows() * reader.cols());
  reader.read(0, reader.rows(), array.values.data());
  return array;
}

/// The largest |a - b| / max(1, |b|), or |a - b|.
inline double largest_error(Array const& a, Array const& b, bool relative) {
  EXPECT_EQ(a.shape, b.shape);
  double largest = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    double const scale = relative ? std::max(1.0, std::abs(b.values[i])) : 1.0;
    double const error = std::abs(a.values[i] - b.values[i]) / scale;
    if (!(error <= largest)) largest = error;
  }
  return largest;
}

}  // namespace meander::test
