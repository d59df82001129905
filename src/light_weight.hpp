// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <Kokkos_Core.hpp>

namespace meander::impl {

/// Kokkos copies functors of over 512 bytes to constant memory, and waits for the kernel before
/// that used it, unless they are said to be light.
template <class Policy>
auto light_weight(Policy const& policy) {
  return Kokkos::Experimental::require(policy,
                                       Kokkos::Experimental::WorkItemProperty::HintLightWeight);
}

}  // namespace meander::impl
