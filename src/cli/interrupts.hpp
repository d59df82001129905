// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>

namespace meander::cli {

/// \brief From here on SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGABRT first remove the files named by
/// RemoveOnSignal, then end the process as they would have. A signal that was ignored stays so.
/// SIGXFSZ is ignored: the write fails with EFBIG instead.
void install_signal_handlers();

/// \brief While one of these lives, signals wait.
class DeferSignals {
 public:
  DeferSignals();
  ~DeferSignals();
  DeferSignals(DeferSignals const&)            = delete;
  DeferSignals& operator=(DeferSignals const&) = delete;

  /// \brief Ends the waiting before the destructor does.
  void release();

 private:
  bool active_ = true;
};

/// \brief Whether a signal waits for DeferSignals to end.
bool signal_is_waiting();

/// \brief Names a temporary file that a signal must not leave behind.
class RemoveOnSignal {
 public:
  explicit RemoveOnSignal(std::filesystem::path const& path);
  ~RemoveOnSignal();
  RemoveOnSignal(RemoveOnSignal const&)            = delete;
  RemoveOnSignal& operator=(RemoveOnSignal const&) = delete;

 private:
  int slot_ = -1;
};

}  // namespace meander::cli
