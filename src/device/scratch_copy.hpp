// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <Kokkos_Core.hpp>

namespace meander::impl::device {

/// Copies N floats to scratch; they are there when wait_for_copies says so. Past the first level of
/// the cache where that is possible: that is for coefficients.
template <int N>
KOKKOS_INLINE_FUNCTION void copy_later(float* to, float const* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  auto const shared = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  if constexpr (N == 4)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared), "l"(from) : "memory");
#else
  for (int i = 0; i < N; ++i) to[i] = from[i];
#endif
}

/// Waits until all of this thread's copies have arrived.
KOKKOS_INLINE_FUNCTION void wait_for_all_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/// The copies asked for since the last call become a group.
KOKKOS_INLINE_FUNCTION void end_group_of_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until all of this thread's groups but the last `Pending` have arrived. Copies that no
/// group was made of are not waited for.
template <int Pending>
KOKKOS_INLINE_FUNCTION void wait_for_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
#endif
}

}  // namespace meander::impl::device
