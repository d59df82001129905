// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <limits>

#include <Kokkos_Core.hpp>

#include <meander/impl/planar_coefficients.hpp>
#include <meander/impl/strided.hpp>

namespace meander::impl {

template <class From, class To>
inline constexpr bool can_access = Kokkos::SpaceAccessibility<From, To>::accessible;

/// Host threads share the memory of the machine; everything else is called a device here.
template <class ExecutionSpace>
inline constexpr bool is_host_space =
    (can_access<Kokkos::HostSpace, typename ExecutionSpace::memory_space> &&
     can_access<ExecutionSpace, Kokkos::HostSpace>);

/// How many layers stand side by side, see PlanarCoefficients.
template <class ExecutionSpace>
inline constexpr int layer_group = is_host_space<ExecutionSpace> ? 4 : 1;

/// The Gram form of the device kernels takes blocks of up to this many layers; their lengths divide
/// it.
inline constexpr int device_gram_group = 64;

/// The host keeps a tile of rows on the stack of its thread; this bounds it to 512 KiB.
template <class ExecutionSpace>
inline constexpr int max_dim = is_host_space<ExecutionSpace> ? 8192
                                                             : std::numeric_limits<int>::max() / 8;

/// Sets sizes, options and pointers of `c` from dim and layers; `storage` may be null (to measure).
template <class Compute>
void lay_out(PlanarCoefficients<Compute>& c, int group, Compute* storage,
             PlanarOptions const& options);

template <class ExecutionSpace, class Compute>
void lay_out(PlanarCoefficients<Compute>& c, Compute* storage, PlanarOptions const& options) {
  lay_out(c, layer_group<ExecutionSpace>, storage, options);
}

/// Number of elements that lay_out distributes.
template <class Compute>
std::size_t storage_size(PlanarCoefficients<Compute> const& c);

/// Fills `c` from the unconstrained parameters. Asynchronous.
template <class ExecutionSpace, class Compute, class Parameter>
void planar_prepare(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& c,
                    Constraint constraint, StridedMatrix<Parameter const> w,
                    StridedMatrix<Parameter const> u, StridedVector<Parameter const> b);

/// The first layer that has no inverse, and its w.u_hat.
struct SingularLayer {
  std::int32_t layer;  ///< the number of layers where there is none
  double w_dot_u;
};

/// Looks at the determinants of a prepared stack. Waits for `exec`.
template <class ExecutionSpace, class Compute>
SingularLayer planar_find_singular(ExecutionSpace const& exec,
                                   PlanarCoefficients<Compute> const& c);

}  // namespace meander::impl
