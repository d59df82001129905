// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>

namespace meander::impl::device {

/// What the launches are laid out for: a multiprocessor of 65536 registers, 2048 threads and 227
/// KiB of scratch, 1 KiB of which is lost to each team. Level 0 of Kokkos 4.6 offers a team 40936
/// bytes, and
/// refuses to launch a kernel whose LaunchBounds promise more teams than there is room for.
constexpr std::size_t scratch_per_team(int teams) {
  return std::min<std::size_t>(40000, 227 * 1024 / teams - 1536) / 64 * 64;
}

}  // namespace meander::impl::device
