// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <meander/trainer.hpp>

#include "loss_log.hpp"

namespace meander::cli {

/// \brief Follows a training run: a line on the terminal that is always the newest, the loss log,
/// and the signals that ask for an end.
///
/// Where stderr is no terminal there is no live line; with `verbose` a line now and then instead.
class TrainingWatch {
 public:
  struct Settings {
    /// What is added to losses before they are shown: training on standardised rows gives those of
    /// standardised rows.
    double offset                    = 0;
    std::int64_t validation_interval = 0;  ///< 0: there are no validation rows
    std::int64_t report_interval     = 1;
    bool verbose                     = false;
    bool stops_for_signals           = false;  ///< the signals are deferred, see DeferSignals
  };

  TrainingWatch(Settings const& settings, std::optional<LossLog> log);
  /// \brief Takes the live line away.
  ~TrainingWatch();
  TrainingWatch(TrainingWatch const&)            = delete;
  TrainingWatch& operator=(TrainingWatch const&) = delete;

  /// \brief A report; see meander::ReportFunction.
  bool show(TrainingReport const& report);

 private:
  using Clock = std::chrono::steady_clock;

  void write_log(TrainingReport const& report);
  void show_live(TrainingReport const& report);
  void show_now_and_then(TrainingReport const& report);
  std::string line(TrainingReport const& report) const;

  Settings settings_;
  std::optional<LossLog> log_;
  bool terminal_;
  bool drawn_             = false;
  std::int64_t began_     = -1;  ///< the step before the first report
  std::int64_t tenths_    = 0;   ///< of the steps, when the last line was printed
  Clock::time_point last_ = Clock::now();
};

}  // namespace meander::cli
