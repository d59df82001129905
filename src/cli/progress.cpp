// SPDX-License-Identifier: BSD-3-Clause
#include "progress.hpp"

#include <cstdio>
#include <string>

#include <unistd.h>

namespace meander::cli {

Progress::Progress(std::uint64_t total) : total_(total), terminal_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  constexpr char const* erase_line = "\r\x1b[K";
  if (drawn_) std::fputs(erase_line, stderr);
}

void Progress::show(std::uint64_t done) {
  using namespace std::chrono_literals;
  auto const now = Clock::now();
  if (!terminal_ || now - start_ < 1s || now - last_ < 100ms || done == 0) return;
  last_                 = now;
  drawn_                = true;
  constexpr int width   = 30;
  double const part     = static_cast<double>(done) / static_cast<double>(total_);
  double const elapsed  = std::chrono::duration<double>(now - start_).count();
  auto const filled     = static_cast<std::size_t>(part * width);
  std::string const bar = std::string(filled, '#') + std::string(width - filled, '.');
  std::fprintf(stderr, "\r[%s] %3d%%  %.0f s left \x1b[K", bar.c_str(),
               static_cast<int>(100 * part), elapsed * (1 - part) / part);
}

}  // namespace meander::cli
