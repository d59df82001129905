// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include <Kokkos_Core.hpp>

#include <meander/impl/planar_coefficients.hpp>
#include <meander/impl/strided.hpp>

#include "access.hpp"
#include "registers.hpp"
#include "tiled.hpp"

namespace meander::impl::device {

/// The kernels that can compute the forward map. All of them take every layout, B and L.
enum class Path {
  automatic,
  registers,  ///< D <= max_registers_dim
  tiled       ///< any D
};

/// The largest D whose rows fit into the registers of the threads that share them. Where rows are
/// stored in less than the type of the arithmetic, the tiled kernel would round them between blocks
/// of layers: registers go further there.
template <class Storage, class Compute>
inline constexpr int max_registers_dim = sizeof(Storage) < sizeof(Compute) ? 2048 : 512;

/// The one place that decides. Rows in registers read z once and do the scalar work of a layer once
/// per row whatever D is; past max_registers_dim only the Gram form does without passes over
/// memory.
template <class Storage, class Compute>
Path choose_path(std::int64_t dim) {
  return dim <= max_registers_dim<Storage, Compute> ? Path::registers : Path::tiled;
}

/// What the launches are laid out for: a multiprocessor of 65536 registers, 2048 threads and 227
/// KiB of scratch, 1 KiB of which is lost to each team. Level 0 of Kokkos 4.6 offers a team 40936
/// bytes.
constexpr std::size_t scratch_per_team(int teams) {
  return std::min<std::size_t>(40000, 227 * 1024 / teams - 1536) / 64 * 64;
}
/// How the rows of a bucket of dimensions lie in registers, see PlanarForwardRegisters, and how
/// many threads make a team and teams share a multiprocessor.
template <int DimPerLane, int Lanes, int Rows, int Threads, int Teams>
struct RegisterShape {
  static constexpr int dim_per_lane = DimPerLane;
  static constexpr int lanes        = Lanes;
  static constexpr int rows         = Rows;
  static constexpr int threads      = Threads;
  static constexpr int teams        = Teams;
};

template <class ExecutionSpace, int Threads, int Teams>
using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<Threads, Teams>>;

template <class Shape, bool ByRows, class ExecutionSpace, class Storage, class Compute>
void launch_registers(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& stack,
                      StridedMatrix<Storage const> const& z, StridedMatrix<Storage> const& y,
                      StridedVector<Storage> const& log_det) {
  using Kernel = PlanarForwardRegisters<Storage, Compute, Shape::dim_per_lane, Shape::lanes,
                                        Shape::rows, ByRows>;
  static std::string const label =
      "meander::planar::forward[registers,D=" + std::to_string(Kernel::padded_dim) + "]";
  constexpr std::size_t fitting = (scratch_per_team(Shape::teams) - Kernel::scratch_bytes(0)) /
                                  (Kernel::pitch * sizeof(Compute));
  int const chunk = static_cast<int>(std::min<std::size_t>(std::max(stack.layers, 1), fitting));
  int const tile  = Kernel::rows_per_tile(Shape::threads);
  int const tiles = static_cast<int>((z.extent0 + tile - 1) / tile);
  Kokkos::parallel_for(
      label,
      Policy<ExecutionSpace, Shape::threads, Shape::teams>(exec, tiles, Shape::threads)
          .set_scratch_size(0, Kokkos::PerTeam(Kernel::scratch_bytes(chunk))),
      Kernel{stack, z, y, log_det, access_to(z, y), chunk});
}

/// Shapes as measured on an H200. About 64 registers of a thread hold rows, four teams of 128
/// threads share a multiprocessor, and a coefficient serves as many rows as that allows.
template <int PaddedDim, class ExecutionSpace, class Storage, class Compute>
void launch_bucket(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& stack,
                   StridedMatrix<Storage const> const& z, StridedMatrix<Storage> const& y,
                   StridedVector<Storage> const& log_det) {
  constexpr bool single = sizeof(Compute) == 4;
  auto const launch     = [&]<class Rows, class Columns>() {
    if (access_to(z, y) == Access::rows)
      launch_registers<Rows, true>(exec, stack, z, y, log_det);
    else
      launch_registers<Columns, false>(exec, stack, z, y, log_det);
  };
  constexpr int lanes   = PaddedDim <= 4 ? 1 : PaddedDim == 8 ? 2 : PaddedDim / 8;
  constexpr int threads = PaddedDim >= 128 ? 256 : 128;
  constexpr int teams   = single && PaddedDim == 2 ? 5 : 512 / threads;
  using Default         = RegisterShape<PaddedDim / lanes, lanes, single ? 8 : 4, threads, teams>;
  if constexpr (single && PaddedDim == 32) {
    launch.template operator()<Default, RegisterShape<32, 1, 4, 128, 3>>();
  } else if constexpr (single && PaddedDim == 64) {
    launch.template operator()<Default, RegisterShape<16, 4, 4, 128, 4>>();
  } else if constexpr (single && (PaddedDim == 128 || PaddedDim == 256)) {
    using Shape = RegisterShape<16, PaddedDim / 16, 4, 256, 2>;
    launch.template operator()<Shape, Shape>();
  } else if constexpr (sizeof(Storage) == 8 && PaddedDim == 32) {
    launch.template operator()<RegisterShape<4, 8, 8, 128, 4>, Default>();
  } else if constexpr (PaddedDim > 512) {
    using Shape = RegisterShape<PaddedDim / 32, 32, 1, 128, 2>;
    launch.template operator()<Shape, Shape>();
  } else if constexpr (single && PaddedDim == 16) {
    launch.template operator()<Default, RegisterShape<4, 4, 8, 128, 4>>();
  } else if constexpr (PaddedDim == 512) {
    using Rows    = RegisterShape<16, 32, single ? 4 : 2, 256, 2>;
    using Columns = RegisterShape<16, 32, single ? 4 : 2, 128, 3>;
    launch.template operator()<Rows, Columns>();
  } else {
    launch.template operator()<Default, Default>();
  }
}

template <int Block, bool ByRows, class ExecutionSpace, class Storage, class Compute>
void launch_tiled(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& stack,
                  StridedMatrix<Storage const> const& z, StridedMatrix<Storage> const& y,
                  StridedVector<Storage> const& log_det) {
  using Kernel = PlanarForwardTiled<Storage, Compute, Block, ByRows>;
  static std::string const label =
      "meander::planar::forward[tiled,layers=" + std::to_string(Block) + "]";
  int const tiles = static_cast<int>((z.extent0 + Kernel::rows - 1) / Kernel::rows);
  Kokkos::parallel_for(
      label,
      Policy<ExecutionSpace, Kernel::threads, Kernel::teams>(exec, tiles, Kernel::threads)
          .set_scratch_size(0, Kokkos::PerTeam(Kernel::scratch_bytes())),
      Kernel{stack, z, y, log_det});
}

/// The forward map for checked arguments. A path that is forced must accept the stack's dimension.
template <class ExecutionSpace, class Storage, class Compute>
void planar_forward(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& stack,
                    StridedMatrix<Storage const> z, StridedMatrix<Storage> y,
                    StridedVector<Storage> log_det, Path path) {
  if (z.extent0 == 0) return;
  if (path == Path::automatic) path = choose_path<Storage, Compute>(stack.dim);
  if (path == Path::tiled) {
    constexpr int long_block = sizeof(Compute) == 4 ? 64 : 32;
    // The packs of this kernel are of 16 bytes whatever D is.
    bool const by_rows = stack.dim % 4 == 0 && access_to(z, y) == Access::rows;
    if (stack.layers <= 16)
      return by_rows ? launch_tiled<16, true>(exec, stack, z, y, log_det)
                     : launch_tiled<16, false>(exec, stack, z, y, log_det);
    return by_rows ? launch_tiled<long_block, true>(exec, stack, z, y, log_det)
                   : launch_tiled<long_block, false>(exec, stack, z, y, log_det);
  }
  if (stack.dim <= 2) return launch_bucket<2>(exec, stack, z, y, log_det);
  if (stack.dim <= 4) return launch_bucket<4>(exec, stack, z, y, log_det);
  if (stack.dim <= 8) return launch_bucket<8>(exec, stack, z, y, log_det);
  if (stack.dim <= 16) return launch_bucket<16>(exec, stack, z, y, log_det);
  if (stack.dim <= 32) return launch_bucket<32>(exec, stack, z, y, log_det);
  if (stack.dim <= 64) return launch_bucket<64>(exec, stack, z, y, log_det);
  if (stack.dim <= 128) return launch_bucket<128>(exec, stack, z, y, log_det);
  if (stack.dim <= 256) return launch_bucket<256>(exec, stack, z, y, log_det);
  if constexpr (max_registers_dim < Storage, Compute >> 512) {
    if (stack.dim > 1024) return launch_bucket<2048>(exec, stack, z, y, log_det);
    if (stack.dim > 512) return launch_bucket<1024>(exec, stack, z, y, log_det);
  }
  launch_bucket<512>(exec, stack, z, y, log_det);
}

template <class ExecutionSpace, class Storage, class Compute>
void planar_forward(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& stack,
                    StridedMatrix<Storage const> z, StridedMatrix<Storage> y,
                    StridedVector<Storage> log_det) {
  planar_forward(exec, stack, z, y, log_det, Path::automatic);
}

}  // namespace meander::impl::device
