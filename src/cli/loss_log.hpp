// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

namespace meander::cli {

/// \brief One line of a loss log.
struct LossLine {
  std::int64_t step      = 0;
  double loss            = 0;
  double validation_loss = 0;  ///< NaN: the validation rows were not looked at
  double learning_rate   = 0;
  double seconds         = 0;
};

/// \brief The losses of a training run as CSV: a header, then a line for each report. Every line is
/// in the file when add() returns, so that a run that is killed keeps them.
class LossLog {
 public:
  /// \param[in] path the file to write; what it held is lost
  /// \throws std::runtime_error
  explicit LossLog(std::filesystem::path const& path) : LossLog(path, std::nullopt) {}

  /// \brief For a run that goes on from a checkpoint: the lines up to its step stay, and those
  /// after it, which the run will write again, go. Seconds go on as well.
  /// \param[in] every steps between two lines: those at other steps ended a run, and go
  /// \throws std::runtime_error, also if the file is there and is no loss log
  LossLog(std::filesystem::path const& path, std::int64_t resumed_at, std::int64_t every)
      : LossLog(path, Resumed{resumed_at, every}) {}

  /// \throws std::runtime_error
  void add(LossLine const& line);

 private:
  struct Resumed {
    std::int64_t step, every;
  };
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  LossLog(std::filesystem::path const& path, std::optional<Resumed> const& resumed);
  void keep_lines(Resumed const& resumed);
  [[noreturn]] void fail() const;

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  double seconds_before_ = 0;
};

}  // namespace meander::cli
