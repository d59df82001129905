// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <type_traits>
#include <utility>

#include <Kokkos_Core.hpp>

namespace meander::impl {

template <class T>
inline constexpr bool is_real_v = std::is_same_v<T, float> || std::is_same_v<T, double>;

template <class View>
using value_t = typename View::non_const_value_type;

/// float/float, double/double and float/double (rows stored in float, arithmetic in double).
template <class Storage, class Compute>
inline constexpr bool is_supported_pair_v = (std::is_same_v<Storage, float> &&
                                             is_real_v<Compute>) ||
                                            (std::is_same_v<Storage, double> &&
                                             std::is_same_v<Compute, double>);

template <class View>
inline constexpr bool is_writable_v =
    !std::is_const_v<std::remove_reference_t<decltype(*std::declval<View>().data())>>;

template <class View, class ExecutionSpace>
inline constexpr bool is_accessible_from_v =
    Kokkos::SpaceAccessibility<ExecutionSpace, typename View::memory_space>::accessible;

}  // namespace meander::impl
