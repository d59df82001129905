// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// For small functions shared by device code and by host code that does not know Kokkos.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define MEANDER_FUNCTION __host__ __device__
#else
#define MEANDER_FUNCTION
#endif
