// SPDX-License-Identifier: BSD-3-Clause
#include "interrupts.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <csignal>
#include <stdexcept>

#include <unistd.h>

namespace meander::cli {

namespace {

// A signal handler may only touch lock-free atomics and memory that does not move.
struct Slot {
  std::atomic<bool> taken         = false;
  std::atomic<bool> armed         = false;
  std::array<char, PATH_MAX> path = {};
};

static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

std::array<Slot, 4> slots;
std::atomic<int> deferrals = 0;
std::atomic<int> waiting   = 0;

void end_by(int signal) {
  for (auto const& slot : slots) {
    if (slot.armed) ::unlink(slot.path.data());
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

extern "C" void handle_signal(int signal) {
  if (deferrals > 0) {
    waiting = signal;
  } else {
    end_by(signal);
  }
}

}  // namespace

void install_signal_handlers() {
  std::signal(SIGXFSZ, SIG_IGN);
  for (int const signal :
       {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGABRT, SIGPIPE, SIGUSR1, SIGUSR2, SIGXCPU}) {
    struct sigaction action = {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action            = {};
    action.sa_handler = handle_signal;
    action.sa_flags   = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
  }
}

DeferSignals::DeferSignals() { ++deferrals; }

DeferSignals::~DeferSignals() { release(); }

void DeferSignals::release() {
  if (!active_) return;
  active_ = false;
  if (--deferrals == 0 && waiting != 0) end_by(waiting);
}

bool signal_is_waiting() { return waiting != 0; }

RemoveOnSignal::RemoveOnSignal(std::filesystem::path const& path) {
  auto const& text = path.native();
  for (std::size_t i = 0; i < slots.size() && slot_ < 0; ++i) {
    if (text.size() < PATH_MAX && !slots[i].taken.exchange(true)) slot_ = static_cast<int>(i);
  }
  if (slot_ < 0) throw std::length_error("no room to remember a temporary file");
  auto& slot = slots[static_cast<std::size_t>(slot_)];
  std::ranges::copy(text, slot.path.begin());
  slot.path[text.size()] = '\0';
  slot.armed             = true;
}

RemoveOnSignal::~RemoveOnSignal() {
  auto& slot = slots[static_cast<std::size_t>(slot_)];
  slot.armed = false;
  slot.taken = false;
}

}  // namespace meander::cli
