// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include <meander/impl/planar_vjp.hpp>

/// The gradients of a planar stack on the host: a tile of rows passes through the layers, and back,
/// while it is in cache. Plain C++, compiled for the instruction set of the machine; Kokkos only
/// hands out chunks of rows.
namespace meander::impl::host {

template <class Storage, class Compute>
struct PlanarVjp {
  PlanarVjpCall<Storage, Compute> call;
  PlanarVjpChunks chunks;
  std::int32_t slots;

  /// Computes chunks slot, slot + slots, ... in the rows of the workspace that belong to the slot.
  void run(std::int64_t slot) const;

  /// How many numbers a slot takes.
  static std::size_t slot_size(PlanarCoefficients<Compute> const& stack);
};

}  // namespace meander::impl::host
