// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <Kokkos_Core.hpp>

namespace meander::impl::device {

/// The smallest group of threads that runs in lockstep on every GPU in use (32 on NVIDIA and Intel,
/// 64 on AMD): rows are shared by at most this many neighbouring threads of a team.
inline constexpr int max_lanes = 32;

/// Elements that one thread moves at once.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T v[N];
};

template <int N, class T>
KOKKOS_INLINE_FUNCTION Pack<T, N> load_pack(T const* p) {
  return *reinterpret_cast<Pack<T, N> const*>(p);
}

template <int N, class T>
KOKKOS_INLINE_FUNCTION void store_pack(T* p, Pack<T, N> const& pack) {
  *reinterpret_cast<Pack<T, N>*>(p) = pack;
}

/// The same number, of which the compiler knows nothing: what is computed from it stays where it
/// is.
KOKKOS_INLINE_FUNCTION std::int64_t opaque(std::int64_t value) {
#if defined(__CUDA_ARCH__)
  asm volatile("" : "+l"(value));
#endif
  return value;
}
KOKKOS_INLINE_FUNCTION std::int32_t opaque(std::int32_t value) {
#if defined(__CUDA_ARCH__)
  asm volatile("" : "+r"(value));
#endif
  return value;
}

/// Loads from memory behind this are not moved before it, where they would take registers early.
KOKKOS_INLINE_FUNCTION void hold_loads() {
#if defined(__CUDA_ARCH__)
  asm volatile("" ::: "memory");
#endif
}

/// The value of the thread whose lane differs from this thread's by the bits of `mask`. All threads
/// of the team must call this together.
template <class T>
KOKKOS_INLINE_FUNCTION T from_lane_xor(T value, [[maybe_unused]] int mask) {
#if defined(__CUDA_ARCH__)
  return __shfl_xor_sync(0xffffffffu, value, mask);
#elif defined(__HIP_DEVICE_COMPILE__)
  return __shfl_xor(value, mask);
#elif defined(__SYCL_DEVICE_ONLY__)
  return sycl::permute_group_by_xor(sycl::ext::oneapi::this_work_item::get_sub_group(), value,
                                    mask);
#else
  return value;
#endif
}

/// The value of lane `source` among the `Lanes` neighbouring threads this thread belongs to.
template <int Lanes, class T>
KOKKOS_INLINE_FUNCTION T from_lane(T value, [[maybe_unused]] int source) {
#if defined(__CUDA_ARCH__)
  return __shfl_sync(0xffffffffu, value, source, Lanes);
#elif defined(__HIP_DEVICE_COMPILE__)
  return __shfl(value, source, Lanes);
#elif defined(__SYCL_DEVICE_ONLY__)
  auto const group = sycl::ext::oneapi::this_work_item::get_sub_group();
  auto const first = group.get_local_linear_id() / Lanes * Lanes;
  return sycl::select_from_group(group, value, first + source);
#else
  return value;
#endif
}

/// Sums `values` over the `Lanes` threads that share a row. The sums come out scattered: this
/// thread keeps those of rows first_owned_row() to first_owned_row() + owned_rows - 1, so that the
/// scalar work on them is shared as well. The order of the additions depends on Lanes alone.
template <int Lanes, int Rows>
struct LaneSum {
  static constexpr int owned_rows = Rows > Lanes ? Rows / Lanes : 1;

  KOKKOS_INLINE_FUNCTION static int first_owned_row(int lane) {
    return Rows > Lanes ? lane * owned_rows : lane / (Lanes / Rows);
  }

  /// Reduces in place; the owned sums end up in values[0 .. owned_rows - 1].
  template <class T>
  KOKKOS_INLINE_FUNCTION static void reduce(T (&values)[Rows], int lane) {
    reduce_step<Lanes / 2, Rows>(values, lane);
  }

  /// What the owner of `row` holds for it in `owned`.
  template <class T>
  KOKKOS_INLINE_FUNCTION static T gather(T const (&owned)[owned_rows], int row) {
    if constexpr (Lanes == 1)
      return owned[row];
    else if constexpr (Rows > Lanes)
      return from_lane<Lanes>(owned[row % owned_rows], row / owned_rows);
    else
      return from_lane<Lanes>(owned[0], row * (Lanes / Rows));
  }

 private:
  template <int Mask, int Count, class T>
  KOKKOS_INLINE_FUNCTION static void reduce_step(T (&values)[Rows], int lane) {
    if constexpr (Mask > 0) {
      constexpr int half = Count / 2;
      if constexpr (half > 0) {
        bool const upper = lane & Mask;
#pragma unroll
        for (int i = 0; i < half; ++i) {
          T const sent = upper ? values[i] : values[i + half];
          T const kept = upper ? values[i + half] : values[i];
          values[i]    = kept + from_lane_xor(sent, Mask);
        }
        reduce_step<Mask / 2, half>(values, lane);
      } else {
        values[0] += from_lane_xor(values[0], Mask);
        reduce_step<Mask / 2, 1>(values, lane);
      }
    }
  }
};

}  // namespace meander::impl::device
