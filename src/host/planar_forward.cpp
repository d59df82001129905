// SPDX-License-Identifier: BSD-3-Clause
#include "planar_layers.hpp"

namespace meander::impl::host {

char const* instruction_set() {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
  return "AVX-512";
#elif defined(__AVX2__) && defined(__FMA__)
  return "AVX2";
#elif defined(__ARM_NEON) && defined(__aarch64__)
  return "NEON";
#else
  return "128-bit vectors";
#endif
}

template struct PlanarMap<float, float, MapDirection::forward>;
template struct PlanarMap<double, double, MapDirection::forward>;
template struct PlanarMap<float, double, MapDirection::forward>;

}  // namespace meander::impl::host
