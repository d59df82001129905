// SPDX-License-Identifier: BSD-3-Clause
#include <meander/impl/planar_forward.hpp>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <meander/impl/planar_prepare.hpp>

#include "host/planar_forward.hpp"
#include "instantiate.hpp"

namespace meander::impl::device {

template <class ExecutionSpace, class Storage, class Compute>
void planar_forward(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& stack,
                    StridedMatrix<Storage const> z, StridedMatrix<Storage> y,
                    StridedVector<Storage> log_det);

}  // namespace meander::impl::device

#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
#include "device/planar_forward.hpp"
#endif

namespace meander::impl {

namespace {

/// A run of whole tiles per index.
template <class Storage, class Compute>
struct ForwardTiles {
  host::PlanarForward<Storage, Compute> forward;
  int rows_per_tile;
  std::int64_t rows;

  void operator()(std::int64_t i) const { forward.run(i * rows, (i + 1) * rows, rows_per_tile); }
};

template <class ExecutionSpace, class Storage, class Compute>
void forward_on_host(ExecutionSpace const& exec,
                     host::PlanarForward<Storage, Compute> const& forward) {
  int const threads        = exec.concurrency();
  int const rows_per_tile  = forward.rows_per_tile(threads);
  std::int64_t const tiles = (forward.z.extent0 + rows_per_tile - 1) / rows_per_tile;
  // Enough pieces to share them evenly, few enough that handing them out costs nothing.
  constexpr int pieces_per_thread = 32;
  std::int64_t const tiles_a_piece =
      std::max<std::int64_t>(1, tiles / (std::int64_t{pieces_per_thread} * threads));
  std::int64_t const pieces = (tiles + tiles_a_piece - 1) / tiles_a_piece;
  Kokkos::parallel_for(
      "meander::planar::forward[tiles]",
      Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(exec, 0, pieces),
      ForwardTiles<Storage, Compute>{forward, rows_per_tile, tiles_a_piece * rows_per_tile});
}

}  // namespace

template <class ExecutionSpace, class Storage, class Compute>
void planar_forward(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& stack,
                    StridedMatrix<Storage const> z, StridedMatrix<Storage> y,
                    StridedVector<Storage> log_det) {
  if (z.extent0 == 0) return;
  if constexpr (is_host_space<ExecutionSpace>)
    forward_on_host(exec, host::PlanarForward<Storage, Compute>{stack, z, y, log_det});
  else
    device::planar_forward<ExecutionSpace, Storage, Compute>(exec, stack, z, y, log_det);
}

#define MEANDER_FORWARD(Space, Storage, Compute)                                      \
  template void planar_forward<Space, Storage, Compute>(                              \
      Space const&, PlanarCoefficients<Compute> const&, StridedMatrix<Storage const>, \
      StridedMatrix<Storage>, StridedVector<Storage>);
#define MEANDER_FORWARD_ALL(Space)       \
  MEANDER_FORWARD(Space, float, float)   \
  MEANDER_FORWARD(Space, double, double) \
  MEANDER_FORWARD(Space, float, double)
MEANDER_FOR_EACH_SPACE(MEANDER_FORWARD_ALL)

}  // namespace meander::impl
