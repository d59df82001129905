// SPDX-License-Identifier: BSD-3-Clause
#include "trainer_rows.hpp"

#include <cstdint>

#include <Kokkos_Core.hpp>

#include <meander/impl/planar_prepare.hpp>

#include "instantiate.hpp"

namespace meander::impl {

namespace {

/// Rows of a team on a device, one to each of its threads; a row is copied by the vector lanes.
constexpr int rows_of_team = 8, lanes_of_row = 32;

template <class Storage>
struct GatherRows {
  RowStream stream;
  StridedMatrix<Storage const> from;
  StridedMatrix<Storage> to;

  void operator()(std::int64_t i) const {
    auto const row = static_cast<std::int64_t>(stream.row(static_cast<std::uint64_t>(i)));
    for (std::int64_t d = 0; d < to.extent1; ++d) copy(i, row, d);
  }

  template <class Team>
  KOKKOS_FUNCTION void operator()(Team const& team) const {
    std::int64_t const i = std::int64_t(team.league_rank()) * rows_of_team + team.team_rank();
    if (i >= to.extent0) return;
    auto const row = static_cast<std::int64_t>(stream.row(static_cast<std::uint64_t>(i)));
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, to.extent1),
                         [&](std::int64_t d) { copy(i, row, d); });
  }

  KOKKOS_FUNCTION void copy(std::int64_t i, std::int64_t row, std::int64_t d) const {
    to.data[i * to.stride0 + d * to.stride1] = from.data[row * from.stride0 + d * from.stride1];
  }
};

template <class T>
struct Flatten {
  StridedMatrix<T const> from;
  StridedVector<double> to;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    std::int64_t const row = i / from.extent1;
    to.data[i * to.stride0] =
        double(from.data[row * from.stride0 + (i - row * from.extent1) * from.stride1]);
  }
};

}  // namespace

template <class ExecutionSpace, class Storage>
void gather_rows(ExecutionSpace const& exec, RowStream const& stream,
                 StridedMatrix<Storage const> from, StridedMatrix<Storage> to) {
  char const* const label = "meander::Trainer[gather rows]";
  GatherRows<Storage> const work{stream, from, to};
  if constexpr (is_host_space<ExecutionSpace>) {
    Kokkos::parallel_for(
        label,
        Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(exec, 0, to.extent0),
        work);
  } else {
    auto const teams = static_cast<int>((to.extent0 + rows_of_team - 1) / rows_of_team);
    Kokkos::parallel_for(
        label, Kokkos::TeamPolicy<ExecutionSpace>(exec, teams, rows_of_team, lanes_of_row), work);
  }
}

template <class ExecutionSpace, class T>
void flatten(ExecutionSpace const& exec, StridedMatrix<T const> from, StridedVector<double> to) {
  Kokkos::parallel_for("meander::Trainer[flatten]",
                       Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(
                           exec, 0, from.extent0 * from.extent1),
                       Flatten<T>{from, to});
}

#define MEANDER_TRAINER_ROWS_OF(Space, T)                                                     \
  template void gather_rows<Space, T>(Space const&, RowStream const&, StridedMatrix<T const>, \
                                      StridedMatrix<T>);                                      \
  template void flatten<Space, T>(Space const&, StridedMatrix<T const>, StridedVector<double>);
#define MEANDER_TRAINER_ROWS(Space)     \
  MEANDER_TRAINER_ROWS_OF(Space, float) \
  MEANDER_TRAINER_ROWS_OF(Space, double)
MEANDER_FOR_EACH_SPACE(MEANDER_TRAINER_ROWS)

}  // namespace meander::impl
