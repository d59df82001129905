// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>

namespace meander::cli {

/// \brief A bar on stderr for runs of more than a second; silent where stderr is not a terminal.
class Progress {
 public:
  explicit Progress(std::uint64_t total);
  ~Progress();
  Progress(Progress const&)            = delete;
  Progress& operator=(Progress const&) = delete;

  /// \brief Shows that `done` of the total are done.
  void show(std::uint64_t done);

 private:
  using Clock = std::chrono::steady_clock;

  std::uint64_t total_;
  bool terminal_;
  bool drawn_              = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_  = start_;
};

}  // namespace meander::cli
