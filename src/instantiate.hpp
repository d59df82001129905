// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <Kokkos_Core.hpp>

/// MEANDER_FOR_EACH_SPACE(M) expands M(Space) for every execution space Kokkos was built with.
#if defined(KOKKOS_ENABLE_SERIAL)
#define MEANDER_IF_SERIAL(M) M(Kokkos::Serial)
#else
#define MEANDER_IF_SERIAL(M)
#endif
#if defined(KOKKOS_ENABLE_OPENMP)
#define MEANDER_IF_OPENMP(M) M(Kokkos::OpenMP)
#else
#define MEANDER_IF_OPENMP(M)
#endif
#if defined(KOKKOS_ENABLE_THREADS)
#define MEANDER_IF_THREADS(M) M(Kokkos::Threads)
#else
#define MEANDER_IF_THREADS(M)
#endif
#if defined(KOKKOS_ENABLE_CUDA)
#define MEANDER_IF_CUDA(M) M(Kokkos::Cuda)
#else
#define MEANDER_IF_CUDA(M)
#endif
#if defined(KOKKOS_ENABLE_HIP)
#define MEANDER_IF_HIP(M) M(Kokkos::HIP)
#else
#define MEANDER_IF_HIP(M)
#endif
#if defined(KOKKOS_ENABLE_SYCL)
#define MEANDER_IF_SYCL(M) M(Kokkos::SYCL)
#else
#define MEANDER_IF_SYCL(M)
#endif

#define MEANDER_FOR_EACH_SPACE(M) \
  MEANDER_IF_SERIAL(M)            \
  MEANDER_IF_OPENMP(M)            \
  MEANDER_IF_THREADS(M)           \
  MEANDER_IF_CUDA(M)              \
  MEANDER_IF_HIP(M)               \
  MEANDER_IF_SYCL(M)

/// The same for those that are no host spaces.
#define MEANDER_FOR_EACH_DEVICE(M) MEANDER_IF_CUDA(M) MEANDER_IF_HIP(M) MEANDER_IF_SYCL(M)
