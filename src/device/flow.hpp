// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <variant>

#include <Kokkos_Core.hpp>

#include <meander/impl/affine.hpp>
#include <meander/impl/flow.hpp>
#include <meander/impl/planar_forward.hpp>
#include <meander/impl/planar_inverse.hpp>

#include "flow_in_registers.hpp"
#include "normal.hpp"

/// A flow on a device, a few launches for each chunk of rows: the rows are loaded or drawn into the
/// flow's workspace, mapped there in the type of the arithmetic, scored and stored.
namespace meander::impl::device {

/// The workspace: rows of the batch, row-major, then two numbers per row.
template <class T>
struct ChunkMemory {
  StridedMatrix<T> rows;
  StridedVector<T> log, log_det;

  ChunkMemory(FlowState<T> const& flow, std::int64_t count)
      : rows{flow.workspace, count, flow.dim, pitch(flow.dim), 1},
        log{flow.workspace + flow.workspace_rows * pitch(flow.dim), count, 1},
        log_det{log.data + flow.workspace_rows, count, 1} {}

  static std::int64_t pitch(std::int64_t dim) { return (dim + 3) / 4 * 4; }
};

/// Of at most one stack of planar layers, and rows that fit into registers: calls are one kernel.
template <class T>
bool fits_registers(FlowState<T> const& flow) {
  bool const at_most_one =
      flow.num_layers == 0 ||
      (flow.num_layers == 1 && std::holds_alternative<PlanarCoefficients<T>>(flow.layers[0]));
  return at_most_one && flow.dim <= max_flow_registers_dim;
}

/// Enough rows for two waves of the teams of a large GPU (64 Ki rows at D = 1024 in float), within
/// bounds of memory.
template <class T>
Workspace chunk_memory(FlowState<T> const& flow) {
  if (fits_registers(flow)) return {};
  constexpr std::int64_t bytes = std::int64_t{256} << 20;
  std::int64_t const per_row   = ChunkMemory<T>::pitch(flow.dim) + 2;
  std::int64_t const rows =
      std::clamp<std::int64_t>(bytes / (per_row * std::int64_t{sizeof(T)}), 1024, 256 * 1024);
  return {rows, std::size_t(rows * per_row)};
}

/// Element-wise copy between matrices of any layout and type, along the unit stride of the one
/// outside the workspace.
template <class From, class To>
struct CopyRows {
  StridedMatrix<From const> from;
  StridedMatrix<To> to;
  bool by_columns;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    std::int64_t const row = by_columns ? i % to.extent0 : i / to.extent1;
    std::int64_t const d   = by_columns ? i / to.extent0 : i % to.extent1;
    to.data[row * to.stride0 + d * to.stride1] =
        To(from.data[row * from.stride0 + d * from.stride1]);
  }
};

/// The log-density of rows under the base.
template <class T>
struct ScoreRows {
  static constexpr int rows_per_team = 8;
  static constexpr int lanes         = 32;
  StridedMatrix<T> rows;
  NormalBase<T> base;
  T constant;
  StridedVector<T> log;
  bool keep;  ///< add to what log holds

  template <class Team>
  KOKKOS_FUNCTION void operator()(Team const& team) const {
    std::int64_t const row = std::int64_t(team.league_rank()) * rows_per_team + team.team_rank();
    if (row >= rows.extent0) return;
    T const* const x = rows.data + row * rows.stride0;
    T squares        = 0;
    Kokkos::parallel_reduce(
        Kokkos::ThreadVectorRange(team, rows.extent1),
        [&](std::int64_t d, T& sum) {
          T const n = base.loc == nullptr ? x[d] : (x[d] - base.loc[d]) * base.inverse_scale[d];
          sum       = Kokkos::fma(n, n, sum);
        },
        squares);
    Kokkos::single(Kokkos::PerThread(team), [&]() {
      T const normalizer = base.loc == nullptr ? constant : constant - *base.log_volume;
      T const score      = Kokkos::fma(T(-0.5), squares, normalizer);
      log.data[row]      = keep ? log.data[row] + score : score;
    });
  }
};

/// log = log + sign part; a null part is zero, and so is log where it is not kept.
template <class T>
struct AddLog {
  StridedVector<T> log, part;
  T sign;
  bool keep;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    T const before = keep ? log.data[i] : T(0);
    log.data[i]    = part.data == nullptr ? before : Kokkos::fma(sign, part.data[i], before);
  }
};

template <class T, class Storage>
struct StoreLog {
  StridedVector<T> log;
  StridedVector<Storage> to;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    to.data[i * to.stride0] = Storage(log.data[i]);
  }
};

template <class ExecutionSpace>
auto over(ExecutionSpace const& exec, std::int64_t count) {
  return Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(exec, 0, count);
}

template <class ExecutionSpace, class From, class To>
void copy_rows(ExecutionSpace const& exec, StridedMatrix<From> const& from,
               StridedMatrix<To> const& to, bool by_columns) {
  Kokkos::parallel_for(
      "meander::flow[copy]", over(exec, to.extent0 * to.extent1),
      CopyRows<std::remove_const_t<From>, To>{
          {from.data, from.extent0, from.extent1, from.stride0, from.stride1}, to, by_columns});
}

template <class Matrix>
Matrix rows_from(Matrix m, std::int64_t first, std::int64_t count) {
  m.data += first * m.stride0;
  m.extent0 = count;
  return m;
}

template <class ExecutionSpace, class T>
void map_rows(ExecutionSpace const& exec, PlanarCoefficients<T> const& stack, bool as_fitted,
              StridedMatrix<T> const& rows, StridedVector<T> const& log_det) {
  if (as_fitted)
    impl::planar_forward(exec, stack, as_const(rows), rows, log_det);
  else
    impl::planar_inverse(exec, stack, as_const(rows), rows, log_det);
}

template <class ExecutionSpace, class T>
void map_rows(ExecutionSpace const& exec, AffineCoefficients const& layer, bool as_fitted,
              StridedMatrix<T> const& rows, StridedVector<T> const& log_det) {
  impl::affine_map(exec, layer, as_fitted ? MapDirection::forward : MapDirection::inverse,
                   as_const(rows), rows, log_det);
}

template <class ExecutionSpace, class T>
void score_rows(ExecutionSpace const& exec, FlowState<T> const& flow, ChunkMemory<T> const& memory,
                bool keep) {
  using Score = ScoreRows<T>;
  auto const teams =
      static_cast<int>((memory.rows.extent0 + Score::rows_per_team - 1) / Score::rows_per_team);
  Kokkos::parallel_for(
      "meander::flow[score]",
      Kokkos::TeamPolicy<ExecutionSpace>(exec, teams, Score::rows_per_team, Score::lanes),
      Score{memory.rows, flow.base, T(-half_log_two_pi * flow.dim), memory.log, keep});
}

/// The layers on the rows of the workspace. Where log is wanted it is added to, or started.
template <class ExecutionSpace, class T>
void map_chunk(ExecutionSpace const& exec, FlowState<T> const& flow, bool to_data,
               ChunkMemory<T> const& memory, bool with_log, T sign, bool keep) {
  bool const as_fitted = to_data == flow.generative;
  StridedVector<T> part;
  if (with_log && flow.num_layers > 0) part = memory.log_det;
  auto const add = [&](bool keep_log) {
    Kokkos::parallel_for("meander::flow[add]", over(exec, memory.rows.extent0),
                         AddLog<T>{memory.log, part, sign, keep_log});
  };
  for (int i = 0; i < flow.num_layers; ++i) {
    auto const& layer = flow.layers[as_fitted ? i : flow.num_layers - 1 - i];
    std::visit([&](auto const& stack) { map_rows(exec, stack, as_fitted, memory.rows, part); },
               layer);
    if (with_log) add(keep || i > 0);
  }
  if (with_log && flow.num_layers == 0) add(keep);
}

/// The rows [first, first + count) of a call.
template <class ExecutionSpace, class Storage, class T>
void run_chunk(ExecutionSpace const& exec, FlowCall<Storage, T> const& call, std::int64_t first,
               std::int64_t count) {
  ChunkMemory<T> const memory(call.flow, count);
  bool const drawn    = call.from.data == nullptr;
  bool const with_log = call.log.data != nullptr;
  auto const along    = [](auto const& m) { return m.stride0 < m.stride1; };
  if (drawn) {
    fill_normal<T>(exec, "meander::flow[draw]", call.seed, call.first_row + std::uint64_t(first),
                   memory.rows, call.flow.base);
    if (call.drawn.data != nullptr)
      copy_rows(exec, memory.rows, rows_from(call.drawn, first, count), along(call.drawn));
    if (call.scored) score_rows(exec, call.flow, memory, false);
    map_chunk(exec, call.flow, call.to_data, memory, with_log, T(call.scored ? -1 : 1),
              call.scored);
  } else {
    copy_rows(exec, rows_from(call.from, first, count), memory.rows, along(call.from));
    map_chunk(exec, call.flow, call.to_data, memory, with_log, T(1), false);
    if (call.scored) score_rows(exec, call.flow, memory, true);
  }
  if (call.to.data != nullptr)
    copy_rows(exec, memory.rows, rows_from(call.to, first, count), along(call.to));
  if (with_log)
    Kokkos::parallel_for(
        "meander::flow[store]", over(exec, count),
        StoreLog<T, Storage>{memory.log,
                             {call.log.data + first * call.log.stride0, count, call.log.stride0}});
}

/// A call that draws or scores; `stack` is the flow's only one.
template <class ExecutionSpace, class Storage, class T>
void run_in_registers(ExecutionSpace const& exec, PlanarCoefficients<T> const& stack,
                      FlowCall<Storage, T> const& call) {
  if (call.from.data != nullptr) return log_prob_in_registers(exec, stack, call);
  if (call.drawn.data != nullptr)
    fill_normal<T>(exec, "meander::flow[draw]", call.seed, call.first_row, call.drawn,
                   call.flow.base);
  sample_in_registers(exec, stack, call);
}

template <class ExecutionSpace, class Storage, class T>
void run_flow(ExecutionSpace const& exec, FlowCall<Storage, T> const& call) {
  if (fits_registers(call.flow) && (call.scored || call.from.data == nullptr)) {
    if (call.flow.num_layers == 0) {
      PlanarCoefficients<T> nothing;
      nothing.dim = call.flow.dim;
      return run_in_registers(exec, nothing, call);
    }
    return run_in_registers(exec, std::get<PlanarCoefficients<T>>(call.flow.layers[0]), call);
  }
  std::int64_t const step = call.flow.workspace_rows;
  for (std::int64_t first = 0; first < call.rows; first += step)
    run_chunk(exec, call, first, std::min(step, call.rows - first));
}

}  // namespace meander::impl::device
