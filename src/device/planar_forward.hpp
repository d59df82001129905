// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include <Kokkos_Core.hpp>

#include <meander/impl/map_direction.hpp>
#include <meander/impl/planar_coefficients.hpp>
#include <meander/impl/strided.hpp>

#include "access.hpp"
#include "path.hpp"
#include "registers.hpp"
#include "scratch_size.hpp"
#include "tensor.hpp"
#include "tiled.hpp"

namespace meander::impl::device {

/// The one place that decides. Rows in registers read z once and do the scalar work of a layer once
/// per row whatever D is; they lose where coefficients have to be fetched for too few rows, or
/// columns are too far apart. The Gram form reads z twice for every 64 layers, and on tensor cores
/// its products cost little. Where they meet was measured on an H200 (docs/performance.md).
template <class Storage, class Compute>
Path choose_path(std::int64_t dim, std::int64_t layers, Access access) {
  if constexpr (has_tensor_path<Storage, Compute>) {
    if (layers == 0) return Path::tiled;  // a copy
    bool const scattered = dim > max_scattered_dim && access != Access::rows;
    if (dim > max_registers_dim<Storage, Compute> || has_much_work(dim, layers) || scattered)
      return Path::tensor;
  }
  // With few rows to a thread the registers lose; the tiles may stand in where they round once.
  if (dim > 512 && accepts<Storage, Compute>(Path::tiled, dim, layers)) return Path::tiled;
  return dim <= max_registers_dim<Storage, Compute> ? Path::registers : Path::tiled;
}

/// How the rows of a bucket of dimensions lie in registers, see PlanarRegisters, and how many
/// threads make a team and teams share a multiprocessor.
template <int DimPerLane, int Lanes, int Rows, int Threads, int Teams>
struct RegisterShape {
  static constexpr int dim_per_lane = DimPerLane;
  static constexpr int lanes        = Lanes;
  static constexpr int rows         = Rows;
  static constexpr int threads      = Threads;
  static constexpr int teams        = Teams;
};

/// Calls launch<P>() with the smallest power of two P from 2 on that holds `dim` coordinates; none
/// is larger than Largest.
template <int Largest, int PaddedDim = 2, class Launch>
void in_bucket(std::int32_t dim, Launch const& launch) {
  if constexpr (PaddedDim < Largest)
    if (dim > PaddedDim) return in_bucket<Largest, 2 * PaddedDim>(dim, launch);
  launch.template operator()<PaddedDim>();
}

template <class ExecutionSpace, int Threads, int Teams>
using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<Threads, Teams>>;

template <MapDirection direction>
std::string map_label(std::string const& kernel) {
  return std::string("meander::planar::") +
         (direction == MapDirection::forward ? "forward[" : "inverse[") + kernel + "]";
}

template <MapDirection direction, class Shape, bool ByRows, class ExecutionSpace, class Storage,
          class Compute>
void launch_registers(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& stack,
                      StridedMatrix<Storage const> const& z, StridedMatrix<Storage> const& y,
                      StridedVector<Storage> const& log_det, Access access) {
  using Kernel = PlanarRegisters<Storage, Compute, Shape::dim_per_lane, Shape::lanes, Shape::rows,
                                 ByRows, direction>;
  static std::string const label =
      map_label<direction>("registers,D=" + std::to_string(Kernel::padded_dim));
  constexpr std::size_t fitting = (scratch_per_team(Shape::teams) - Kernel::scratch_bytes(0)) /
                                  (Kernel::pitch * sizeof(Compute));
  int const chunk = static_cast<int>(std::min<std::size_t>(std::max(stack.layers, 1), fitting));
  int const tile  = Kernel::rows_per_tile(Shape::threads);
  int const tiles = static_cast<int>((z.extent0 + tile - 1) / tile);
  Kokkos::parallel_for(
      label,
      Policy<ExecutionSpace, Shape::threads, Shape::teams>(exec, tiles, Shape::threads)
          .set_scratch_size(0, Kokkos::PerTeam(Kernel::scratch_bytes(chunk))),
      Kernel{stack, z, y, log_det, access, chunk});
}

/// Shapes as measured on an H200. About 64 registers of a thread hold rows, four teams of 128
/// threads share a multiprocessor, and a coefficient serves as many rows as that allows.
template <MapDirection direction, int PaddedDim, class ExecutionSpace, class Storage, class Compute>
void launch_bucket(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& stack,
                   StridedMatrix<Storage const> const& z, StridedMatrix<Storage> const& y,
                   StridedVector<Storage> const& log_det, Access access) {
  constexpr bool single  = sizeof(Compute) == 4;
  constexpr bool forward = direction == MapDirection::forward;
  auto const launch      = [&]<class Rows, class Columns>() {
    if (access == Access::rows)
      launch_registers<direction, Rows, true>(exec, stack, z, y, log_det, access);
    else
      launch_registers<direction, Columns, false>(exec, stack, z, y, log_det, access);
  };
  constexpr int lanes = PaddedDim <= 4 ? 1 : PaddedDim == 8 ? 2 : PaddedDim / 8;
  // The inverse needs more registers beside the rows: in double a quarter fewer threads then share
  // a multiprocessor.
  constexpr bool fewer  = !forward && !single;
  constexpr int threads = PaddedDim >= 128 && !fewer ? 256 : 128;
  constexpr int teams   = single && PaddedDim == 2 ? 5 : fewer ? 3 : 512 / threads;
  using Default         = RegisterShape<PaddedDim / lanes, lanes, single ? 8 : 4, threads, teams>;
  if constexpr (single && PaddedDim == 32 && !forward) {
    launch.template operator()<Default, RegisterShape<16, 2, 4, 128, 4>>();
  } else if constexpr (single && PaddedDim == 32) {
    launch.template operator()<Default, RegisterShape<32, 1, 2, 128, 5>>();
  } else if constexpr (single && PaddedDim == 64) {
    launch.template operator()<Default, RegisterShape<16, 4, 4, 128, forward ? 5 : 4>>();
  } else if constexpr (single && (PaddedDim == 128 || PaddedDim == 256)) {
    using Shape = RegisterShape<16, PaddedDim / 16, 4, 256, 2>;
    launch.template operator()<Shape, Shape>();
  } else if constexpr (sizeof(Storage) == 8 && PaddedDim == 32) {
    launch.template operator()<RegisterShape<4, 8, 8, 128, 4>, Default>();
  } else if constexpr (PaddedDim > 512) {
    using Shape = RegisterShape<PaddedDim / 32, 32, 1, 128, 2>;
    launch.template operator()<Shape, Shape>();
  } else if constexpr (single && PaddedDim == 16) {
    using Shape = RegisterShape<4, 4, 8, 128, 4>;
    launch.template operator()<Shape, Shape>();
  } else if constexpr (PaddedDim == 512) {
    using Rows    = RegisterShape<16, 32, single ? 4 : 2, 256, 2>;
    using Columns = RegisterShape<16, 32, single ? 4 : 2, 128, 3>;
    launch.template operator()<Rows, Columns>();
  } else {
    launch.template operator()<Default, Default>();
  }
}

template <MapDirection direction, int Block, bool ByRows, class ExecutionSpace, class Storage,
          class Compute>
void launch_tiled(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& stack,
                  StridedMatrix<Storage const> const& z, StridedMatrix<Storage> const& y,
                  StridedVector<Storage> const& log_det) {
  using Kernel                   = PlanarTiled<Storage, Compute, Block, ByRows, direction>;
  static std::string const label = map_label<direction>("tiled,layers=" + std::to_string(Block));
  int const tiles                = static_cast<int>((z.extent0 + Kernel::rows - 1) / Kernel::rows);
  Kokkos::parallel_for(
      label,
      Policy<ExecutionSpace, Kernel::threads, Kernel::teams>(exec, tiles, Kernel::threads)
          .set_scratch_size(0, Kokkos::PerTeam(Kernel::scratch_bytes())),
      Kernel{stack, z, y, log_det});
}

template <MapDirection direction, int Blocks, bool ByRows, class ExecutionSpace>
void launch_tensor(ExecutionSpace const& exec, PlanarCoefficients<float> const& stack,
                   StridedMatrix<float const> const& z, StridedMatrix<float> const& y,
                   StridedVector<float> const& log_det, Access access) {
  using Kernel = PlanarTensor<Blocks, ByRows, direction>;
  static std::string const label =
      map_label<direction>("tensor,layers=" + std::to_string(Blocks * Kernel::block));
  int const teams =
      static_cast<int>((z.extent0 + Kernel::rows_per_team - 1) / Kernel::rows_per_team);
  Kokkos::parallel_for(
      label,
      Policy<ExecutionSpace, Kernel::threads, Kernel::teams>(exec, teams, Kernel::threads)
          .set_scratch_size(0, Kokkos::PerTeam(Kernel::scratch_bytes())),
      Kernel{stack, z, y, log_det, access});
}

template <MapDirection direction, class ExecutionSpace>
void launch_tensor(ExecutionSpace const& exec, PlanarCoefficients<float> const& stack,
                   StridedMatrix<float const> const& z, StridedMatrix<float> const& y,
                   StridedVector<float> const& log_det, Access access) {
  auto const launch = [&]<int Blocks>() {
    if (stack.dim % 4 == 0 && access == Access::rows)
      launch_tensor<direction, Blocks, true>(exec, stack, z, y, log_det, access);
    else
      launch_tensor<direction, Blocks, false>(exec, stack, z, y, log_det, access);
  };
  if (stack.layers <= 16) return launch.template operator()<1>();
  if (stack.layers <= 32) return launch.template operator()<2>();
  launch.template operator()<4>();
}

template <MapDirection direction, class ExecutionSpace, class Storage, class Compute>
void planar_map(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& stack,
                StridedMatrix<Storage const> z, StridedMatrix<Storage> y,
                StridedVector<Storage> log_det, Path path) {
  if (z.extent0 == 0) return;
  Access const access = access_to(z, y);
  if (path == Path::automatic)
    path = choose_path<Storage, Compute>(stack.dim, stack.layers, access);
  if constexpr (has_tensor_path<Storage, Compute>)
    if (path == Path::tensor) return launch_tensor<direction>(exec, stack, z, y, log_det, access);
  if (path == Path::tiled) {
    constexpr int long_block = tiled_block<Compute>;
    // The packs of this kernel are of 16 bytes whatever D is.
    bool const by_rows = stack.dim % 4 == 0 && access == Access::rows;
    if (stack.layers <= 16)
      return by_rows ? launch_tiled<direction, 16, true>(exec, stack, z, y, log_det)
                     : launch_tiled<direction, 16, false>(exec, stack, z, y, log_det);
    return by_rows ? launch_tiled<direction, long_block, true>(exec, stack, z, y, log_det)
                   : launch_tiled<direction, long_block, false>(exec, stack, z, y, log_det);
  }
  in_bucket<max_registers_dim<Storage, Compute>>(stack.dim, [&]<int PaddedDim>() {
    launch_bucket<direction, PaddedDim>(exec, stack, z, y, log_det, access);
  });
}

}  // namespace meander::impl::device
