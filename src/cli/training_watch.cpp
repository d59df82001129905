// SPDX-License-Identifier: BSD-3-Clause
#include "training_watch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>

#include <unistd.h>

#include "interrupts.hpp"

namespace meander::cli {

namespace {

std::string duration(double seconds) {
  constexpr double minute = 60, hour = 60 * minute;
  std::array<char, 64> text = {};
  if (seconds < minute) {
    std::snprintf(text.data(), text.size(), "%.0f s", seconds);
  } else if (seconds < hour) {
    std::snprintf(text.data(), text.size(), "%.0f min %02.0f s", std::floor(seconds / minute),
                  std::floor(std::fmod(seconds, minute)));
  } else {
    std::snprintf(text.data(), text.size(), "%.0f h %02.0f min", std::floor(seconds / hour),
                  std::floor(std::fmod(seconds, hour) / minute));
  }
  return text.data();
}

std::string rate(double rows_per_second) {
  std::array<char, 32> text = {};
  if (rows_per_second >= 1e6) {
    std::snprintf(text.data(), text.size(), "%.3g M rows/s", rows_per_second / 1e6);
  } else if (rows_per_second >= 1e3) {
    std::snprintf(text.data(), text.size(), "%.3g k rows/s", rows_per_second / 1e3);
  } else {
    std::snprintf(text.data(), text.size(), "%.3g rows/s", rows_per_second);
  }
  return text.data();
}

}  // namespace

TrainingWatch::TrainingWatch(Settings const& settings, std::optional<LossLog> log)
    : settings_(settings), log_(std::move(log)), terminal_(::isatty(STDERR_FILENO) == 1) {}

TrainingWatch::~TrainingWatch() {
  constexpr char const* erase_line = "\r\x1b[K";
  if (drawn_) std::fputs(erase_line, stderr);
}

bool TrainingWatch::show(TrainingReport const& report) {
  if (began_ < 0) began_ = report.point.step - settings_.report_interval;
  if (log_) write_log(report);
  if (terminal_) {
    show_live(report);
  } else if (settings_.verbose) {
    show_now_and_then(report);
  }
  return !(settings_.stops_for_signals && signal_is_waiting());
}

/// The report gives the last validation loss known; the log is to have each once.
void TrainingWatch::write_log(TrainingReport const& report) {
  auto const step     = report.point.step;
  auto const before   = (step - 1) / settings_.report_interval * settings_.report_interval;
  auto const interval = settings_.validation_interval;
  bool const is_new =
      interval > 0 && (before == 0 || step / interval > before / interval || step == report.steps);
  log_->add({step, report.point.loss + settings_.offset,
             is_new ? report.point.validation_loss + settings_.offset
                    : std::numeric_limits<double>::quiet_NaN(),
             report.point.learning_rate, report.seconds});
}

std::string TrainingWatch::line(TrainingReport const& report) const {
  std::array<char, 160> text = {};
  int const written =
      std::snprintf(text.data(), text.size(), "step %lld/%lld  loss %.4f",
                    static_cast<long long>(report.point.step), static_cast<long long>(report.steps),
                    report.point.loss + settings_.offset);
  std::string result(text.data(), static_cast<std::size_t>(std::max(0, written)));
  if (!std::isnan(report.point.validation_loss)) {
    std::snprintf(text.data(), text.size(), "  validation %.4f (best %.4f)",
                  report.point.validation_loss + settings_.offset,
                  report.best_validation_loss + settings_.offset);
    result += text.data();
  }
  result += "  " + rate(report.rows_per_second);
  auto const done = static_cast<double>(std::max<std::int64_t>(1, report.point.step - began_));
  auto const left = static_cast<double>(report.steps - report.point.step);
  result += "  " + duration(report.seconds / done * left) + " left";
  return result;
}

void TrainingWatch::show_live(TrainingReport const& report) {
  using namespace std::chrono_literals;
  auto const now = Clock::now();
  if (drawn_ && now - last_ < 100ms) return;
  last_  = now;
  drawn_ = true;
  std::fprintf(stderr, "\r%s \x1b[K", line(report).c_str());
}

void TrainingWatch::show_now_and_then(TrainingReport const& report) {
  using namespace std::chrono_literals;
  auto const now    = Clock::now();
  auto const tenths = 10 * report.point.step / std::max<std::int64_t>(1, report.steps);
  if (tenths == tenths_ && now - last_ < 30s) return;
  last_   = now;
  tenths_ = tenths;
  std::fprintf(stderr, "meander: %s\n", line(report).c_str());
}

}  // namespace meander::cli
