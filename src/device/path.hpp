// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <meander/impl/map_direction.hpp>
#include <meander/impl/planar_coefficients.hpp>
#include <meander/impl/strided.hpp>

#include "tensor_layout.hpp"

/// What tests need to force the kernel of their choice; the library asks for `automatic`.
namespace meander::impl::device {

/// The kernels that can compute a map. All of them take every layout, B and L.
enum class Path {
  automatic,
  registers,  ///< D <= max_registers_dim
  tiled,      ///< any D
  tensor      ///< large D or L: wants_tensor_path; has_tensor_path
};

/// The largest D whose rows fit into the registers of the threads that share them. Where rows are
/// stored in less than the type of the arithmetic, the tiled kernel would round them between blocks
/// of layers: registers go further there.
template <class Storage, class Compute>
inline constexpr int max_registers_dim = sizeof(Storage) < sizeof(Compute) ? 2048 : 512;

template <class Storage, class Compute>
inline constexpr bool has_tensor_path = has_tensor_kernels && sizeof(Storage) == 4 &&
                                        sizeof(Compute) == 4;

/// Whether there is so much arithmetic to a row that tensor cores pay however it lies in memory.
constexpr bool has_much_work(std::int64_t dim, std::int64_t layers) {
  return dim > 64 && layers >= 32;
}

/// Rows of more coordinates are too far apart where they do not lie side by side.
inline constexpr int max_scattered_dim = 256;

/// Whether that path can pay: only then does a stack carry its coefficients.
constexpr bool wants_tensor_path(std::int64_t dim, std::int64_t layers) {
  return layers > 0 && (dim > max_scattered_dim || has_much_work(dim, layers));
}

/// Layers that the tiled kernel takes at a time.
template <class Compute>
inline constexpr int tiled_block = sizeof(Compute) == 4 ? 64 : 32;

/// Whether a path computes such a stack, and rounds rows to their storage type only at the end.
template <class Storage, class Compute>
bool accepts(Path path, std::int64_t dim, std::int64_t layers) {
  switch (path) {
    case Path::registers: return dim <= max_registers_dim<Storage, Compute>;
    case Path::tiled: return sizeof(Storage) == sizeof(Compute) || layers <= tiled_block<Compute>;
    case Path::tensor: return has_tensor_path<Storage, Compute> && wants_tensor_path(dim, layers);
    case Path::automatic: break;
  }
  return true;
}

/// The forward or the inverse map for checked arguments: z is read, y written, whichever way. A
/// path that is forced must accept the stack's dimension. Instantiated in src/ for the execution
/// spaces that are devices.
template <MapDirection direction, class ExecutionSpace, class Storage, class Compute>
void planar_map(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& stack,
                StridedMatrix<Storage const> z, StridedMatrix<Storage> y,
                StridedVector<Storage> log_det, Path path);

}  // namespace meander::impl::device
