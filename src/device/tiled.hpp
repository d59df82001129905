// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <Kokkos_Core.hpp>

#include <meander/impl/map_direction.hpp>
#include <meander/impl/planar_coefficients.hpp>
#include <meander/impl/strided.hpp>

#include "lanes.hpp"
#include "layer_scalars.hpp"

namespace meander::impl::device {

/// The forward map in Gram form, for any D and L. For a block of `Block` layers and a tile of rows:
///   A = Z Wt,  a_i = A_i + b_i + sum over j < i of (w_i . u_hat_j) h_j,  Y = Z + H U_hat.
/// The inverse map is the same from the last layer to the first, with the sum over j > i and -h for
/// h.
/// Two matrix products with the numbers of a thread's output in registers, and between them a
/// triangular recurrence on scalars, one row per thread. A longer stack takes further blocks, each
/// of which starts from Y.
///
/// `ByRows` kernels move packs of coordinates of a row, the others single numbers.
template <class Storage, class Compute, int Block, bool ByRows, MapDirection direction>
struct PlanarTiled {
  static constexpr bool is_forward = direction == MapDirection::forward;
  static constexpr int threads     = 128;
  /// That share a multiprocessor. The inverse in double needs more registers.
  static constexpr int teams = is_forward || sizeof(Compute) == 4 ? 3 : 2;
  static constexpr int rows  = 128;  ///< per tile: one per thread in the recurrence
  static constexpr int width = 16 / sizeof(Compute);  ///< numbers in 16 bytes
  static constexpr int depth = 16;                    ///< coordinates, or layers, staged at once

  /// A thread's part of A: a_rows x a_layers; of Y: y_rows x y_columns.
  static constexpr int a_layers  = Block >= 64 ? 8 : 4;
  static constexpr int a_rows    = rows * Block / threads / a_layers;
  static constexpr int y_columns = sizeof(Compute) == 4 ? 8 : 4;
  static constexpr int y_rows    = 8;
  static constexpr int columns   = y_columns * threads / (rows / y_rows);  ///< of Y at once

  static constexpr int w_count = Block * depth / threads;  ///< of a staged chunk, per thread
  static constexpr int u_count = depth * columns / threads;

  static constexpr int row_pitch    = rows + width;  ///< of A and Z in scratch
  static constexpr int layer_pitch  = Block + width;
  static constexpr int column_pitch = columns + width;
  static constexpr int product_size = depth * (row_pitch + layer_pitch);
  static constexpr int update_size  = Block * row_pitch + depth * column_pitch;
  static constexpr int scratch_size = product_size > update_size ? product_size : update_size;

  PlanarCoefficients<Compute> stack;
  StridedMatrix<Storage const> z;
  StridedMatrix<Storage> y;
  StridedVector<Storage> log_det;

  static constexpr std::size_t scratch_bytes() { return sizeof(Compute) * scratch_size + 32; }

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(Team const& team) const {
    Compute* const scratch = static_cast<Compute*>(
        team.team_scratch(0).get_shmem_aligned(sizeof(Compute) * scratch_size, 32));
    std::int64_t const first_row = std::int64_t(team.league_rank()) * rows;
    std::int32_t const count =
        static_cast<std::int32_t>(z.extent0 - first_row < rows ? z.extent0 - first_row : rows);
    LogDeterminant<Compute> det;
    StridedMatrix<Storage const> source = z;
    std::int32_t const blocks           = (stack.layers + Block - 1) / Block;
    for (std::int32_t i = 0; i < blocks; ++i) {
      std::int32_t const first = (is_forward ? i : blocks - 1 - i) * Block;
      product(team, scratch, source, first_row, count, first);
      recurrence(team, scratch, first, det);
      update(team, scratch, source, first_row, count, first);
      source = {y.data, y.extent0, y.extent1, y.stride0, y.stride1};
      team.team_barrier();  // the next block reads what other threads wrote
    }
    if (stack.layers == 0) copy(team, first_row, count);
    if (log_det.data != nullptr && team.team_rank() < count)
      log_det.data[(first_row + team.team_rank()) * log_det.stride0] =
          Storage(is_forward ? det.sum : 0 - det.sum);
  }

  /// A = Z Wt for one block of layers, left in scratch as A[layer][row].
  template <class Team>
  KOKKOS_INLINE_FUNCTION void product(Team const& team, Compute* scratch,
                                      StridedMatrix<Storage const> const& source,
                                      std::int64_t first_row, std::int32_t count,
                                      std::int32_t first) const {
    int const t       = team.team_rank();
    int const layer   = t % (Block / a_layers);
    int const row     = t / (Block / a_layers);
    Compute* const zs = scratch;                      // [coordinate][row]
    Compute* const ws = scratch + depth * row_pitch;  // [coordinate][layer]
    Storage const* const mine =
        source.data + (first_row + (t < count ? t : count - 1)) * source.stride0;
    Compute sum[a_rows][a_layers] = {};
    Storage z_next[depth];
    Compute w_next[w_count];
    ask_z(mine, source.stride1, 0, z_next);
    ask_matrix<Block, depth>(stack.w, t, first, 0, w_next);

    for (std::int32_t d = 0; d < stack.dim; d += depth) {
      team.team_barrier();
#pragma unroll
      for (int k = 0; k < depth; ++k) zs[k * row_pitch + t] = z_next[k];
#pragma unroll
      for (int n = 0; n < w_count; ++n)
        ws[(t * w_count % depth + n) * layer_pitch + t * w_count / depth] = w_next[n];
      team.team_barrier();
      // The next chunk is on its way while this one is multiplied.
      std::int32_t const next = d + depth < stack.dim ? d + depth : d;
      ask_z(mine, source.stride1, next, z_next);
      ask_matrix<Block, depth>(stack.w, t, first, next, w_next);
#pragma unroll
      for (int k = 0; k < depth; ++k) {
        Compute zk[a_rows], wk[a_layers];
        read<a_rows, threads / (Block / a_layers)>(zs + k * row_pitch, row, zk);
        read<a_layers, Block / a_layers>(ws + k * layer_pitch, layer, wk);
#pragma unroll
        for (int i = 0; i < a_rows; ++i)
#pragma unroll
          for (int j = 0; j < a_layers; ++j) sum[i][j] = Kokkos::fma(zk[i], wk[j], sum[i][j]);
      }
    }
    team.team_barrier();
#pragma unroll
    for (int j = 0; j < a_layers; ++j) {
      Compute column[a_rows];
#pragma unroll
      for (int i = 0; i < a_rows; ++i) column[i] = sum[i][j];
      int const l = (j / width * (Block / a_layers) + layer) * width + j % width;
      write<a_rows, threads / (Block / a_layers)>(scratch + l * row_pitch, row, column);
    }
    team.team_barrier();
  }

  /// The next `depth` coordinates of this thread's row. Past the last coordinate another one stands
  /// in; it meets zero coefficients.
  KOKKOS_INLINE_FUNCTION void ask_z(Storage const* mine, std::int64_t stride1, std::int32_t d,
                                    Storage (&values)[depth]) const {
    if constexpr (ByRows) {
      constexpr int pack = 16 / sizeof(Storage);
#pragma unroll
      for (int k = 0; k < depth; k += pack) {
        auto const p = load_pack<pack>(mine + (d + k < stack.dim ? d + k : 0));
#pragma unroll
        for (int c = 0; c < pack; ++c) values[k + c] = p.v[c];
      }
    } else {
#pragma unroll
      for (int k = 0; k < depth; ++k) values[k] = mine[(d + k < stack.dim ? d + k : 0) * stride1];
    }
  }

  /// This thread's share of a Height x Width piece of w or u_hat that starts at (first, d):
  /// neighbouring numbers of one row of the piece. Zero where the matrix has ended.
  template <int Height, int Width>
  KOKKOS_INLINE_FUNCTION void ask_matrix(Compute const* matrix, int t, std::int32_t first,
                                         std::int32_t d,
                                         Compute (&values)[Height * Width / threads]) const {
    constexpr int share       = Height * Width / threads;
    constexpr int pack        = share < width ? share : width;
    std::int32_t const l      = first + t * share / Width;
    bool const exists         = l < stack.layers;
    Compute const* const from = matrix + std::size_t(exists ? l : 0) * stack.padded_dim;
#pragma unroll
    for (int n = 0; n < share; n += pack) {
      std::int32_t const at = d + t * share % Width + n;
      bool const inside     = exists && at < stack.padded_dim;
      auto const p          = load_pack<pack>(from + (inside ? at : 0));
#pragma unroll
      for (int c = 0; c < pack; ++c) values[n + c] = inside ? p.v[c] : Compute(0);
    }
  }

  /// The chain of scalars of this thread's row; A[layer][row] becomes H[layer][row].
  template <class Team>
  KOKKOS_INLINE_FUNCTION void recurrence(Team const& team, Compute* scratch, std::int32_t first,
                                         LogDeterminant<Compute>& det) const {
    LayerRule<Compute> const rule{stack.activation, stack.negative_slope, stack.log_det_epsilon};
    Compute* const mine = scratch + team.team_rank();
    if (rule.usual())
      recurrence<true>(rule, mine, first, det);
    else
      recurrence<false>(rule, mine, first, det);
    team.team_barrier();
  }

  template <bool Usual>
  KOKKOS_INLINE_FUNCTION void recurrence(LayerRule<Compute> const& rule, Compute* mine,
                                         std::int32_t first, LogDeterminant<Compute>& det) const {
    constexpr int step = 4;  // layers whose sums over the others go together
    std::int32_t const layers =
        stack.layers - first < Block ? stack.layers - first : std::int32_t(Block);
    std::int32_t const steps = (layers + step - 1) / step;
#pragma unroll 1
    for (int n = 0; n < steps; ++n) {
      int const base = (is_forward ? n : steps - 1 - n) * step;
      Compute a[step], h[step];
      Compute const* gram[step];
#pragma unroll
      for (int i = 0; i < step; ++i) {
        // Rows of the Gram matrix past the last layer repeat the last one; their h is not used.
        std::int32_t const l =
            first + base + i < stack.layers ? first + base + i : stack.layers - 1;
        a[i]    = mine[(base + i) * row_pitch] + stack.b[l];
        gram[i] = stack.gram + std::size_t(l) * stack.gram_group + first % stack.gram_group;
      }
      // Those that have their h: before these layers, or, backwards, behind them. Past the last
      // layer A is zero, and so is the Gram matrix.
#pragma unroll 1
      for (int j = is_forward ? 0 : base + step; j < (is_forward ? base : steps * step);
           j += step) {
        Compute hj[step];
#pragma unroll
        for (int c = 0; c < step; ++c) hj[c] = mine[(j + c) * row_pitch];
#pragma unroll
        for (int i = 0; i < step; ++i) {
          auto const g = load_pack<step>(gram[i] + j);
#pragma unroll
          for (int c = 0; c < step; ++c) a[i] = Kokkos::fma(g.v[c], hj[c], a[i]);
        }
      }
#pragma unroll
      for (int k = 0; k < step; ++k) {
        int const i          = is_forward ? k : step - 1 - k;
        std::int32_t const l = first + base + i;
        if (l >= stack.layers) {
          h[i] = 0;
          continue;
        }
#pragma unroll
        for (int j = is_forward ? 0 : i + 1; j < (is_forward ? i : step); ++j)
          a[i] = Kokkos::fma(gram[i][base + j], h[j], a[i]);
        // A row that holds an infinity comes out NaN; the activation would hide it.
        if (l == (is_forward ? 0 : stack.layers - 1)) a[i] += a[i] - a[i];
        bool log_is_due;
        if constexpr (is_forward) {
          h[i]       = rule.template apply<Usual>(a[i], stack.s[l], stack.s_minus_1[l], det);
          log_is_due = stack.take_log[l] != 0;
        } else {
          h[i] = -rule.template undo<Usual>(a[i], stack.s[l], stack.s_minus_1[l], det);
          // take_log closes a run of layers after its last one: backwards, before its first.
          log_is_due = l == 0 || stack.take_log[l - 1] != 0;
        }
        if (log_is_due) det.take_log();
        mine[(base + i) * row_pitch] = h[i];
      }
    }
  }

  /// Y = Z + H U_hat.
  template <class Team>
  KOKKOS_INLINE_FUNCTION void update(Team const& team, Compute* scratch,
                                     StridedMatrix<Storage const> const& source,
                                     std::int64_t first_row, std::int32_t count,
                                     std::int32_t first) const {
    constexpr int columns_of_threads = columns / y_columns;
    int const t                      = team.team_rank();
    int const column                 = t % columns_of_threads;
    int const row                    = t / columns_of_threads;
    Compute* const us                = scratch + Block * row_pitch;  // [layer][column]
    std::int32_t const block =
        stack.layers - first < Block ? stack.layers - first : std::int32_t(Block);

    Compute u_next[u_count];
    ask_matrix<depth, columns>(stack.u_hat, t, first, 0, u_next);
    for (std::int32_t d = 0; d < stack.dim; d += columns) {
      Compute sum[y_rows][y_columns] = {};
      for (std::int32_t l = 0; l < block; l += depth) {
        team.team_barrier();
#pragma unroll
        for (int n = 0; n < u_count; ++n)
          us[t * u_count / columns * column_pitch + t * u_count % columns + n] = u_next[n];
        team.team_barrier();
        if (l + depth < block)
          ask_matrix<depth, columns>(stack.u_hat, t, first + l + depth, d, u_next);
        else
          ask_matrix<depth, columns>(stack.u_hat, t, first,
                                     d + columns < stack.dim ? d + columns : d, u_next);
        std::int32_t const steps = block - l < depth ? block - l : std::int32_t(depth);
#pragma unroll 4
        for (int k = 0; k < steps; ++k) {
          Compute hk[y_rows], uk[y_columns];
          read<y_rows, threads / columns_of_threads>(scratch + (l + k) * row_pitch, row, hk);
          read<y_columns, columns_of_threads>(us + k * column_pitch, column, uk);
#pragma unroll
          for (int i = 0; i < y_rows; ++i)
#pragma unroll
            for (int j = 0; j < y_columns; ++j) sum[i][j] = Kokkos::fma(hk[i], uk[j], sum[i][j]);
        }
      }
      add<threads / columns_of_threads, columns_of_threads>(source, first_row, count, row, d,
                                                            column, sum);
    }
    team.team_barrier();
  }

  /// Y = Z + sum for this thread's rows and columns. Loads are unconditional, from clamped places:
  /// a condition would make each wait for the one before it.
  template <int RowThreads, int ColumnThreads>
  KOKKOS_INLINE_FUNCTION void add(StridedMatrix<Storage const> const& source,
                                  std::int64_t first_row, std::int32_t count, int row,
                                  std::int32_t d, int column,
                                  Compute const (&sum)[y_rows][y_columns]) const {
    Storage const* const from = source.data + first_row * source.stride0;
    Storage* const to         = y.data + first_row * y.stride0;
    std::int64_t const from0 = opaque(source.stride0), from1 = opaque(source.stride1);
    std::int64_t const to0 = opaque(y.stride0), to1 = opaque(y.stride1);
    constexpr int batch = 4;  // of loads on their way at a time
    if constexpr (ByRows) {
#pragma unroll
      for (int j = 0; j < y_columns; j += width) {
        int const c       = d + place<ColumnThreads>(column, j);
        bool const inside = c < stack.dim;
#pragma unroll
        for (int first = 0; first < y_rows; first += batch) {
          Pack<Storage, width> p[batch];
#pragma unroll
          for (int i = 0; i < batch; ++i) {
            int const r = place<RowThreads>(row, first + i);
            p[i] = load_pack<width>(from + (r < count ? r : count - 1) * from0 + (inside ? c : 0));
          }
#pragma unroll
          for (int i = 0; i < batch; ++i) {
            int const r = place<RowThreads>(row, first + i);
#pragma unroll
            for (int n = 0; n < width; ++n)
              p[i].v[n] = Storage(Compute(p[i].v[n]) + sum[first + i][j + n]);
            if (inside && r < count) store_pack(to + r * to0 + c, p[i]);
          }
        }
      }
    } else {
#pragma unroll
      for (int j = 0; j < y_columns; ++j) {
        int const c       = d + place<ColumnThreads>(column, j);
        bool const inside = c < stack.dim;
#pragma unroll
        for (int first = 0; first < y_rows; first += batch) {
          Storage v[batch];
#pragma unroll
          for (int i = 0; i < batch; ++i) {
            int const r = place<RowThreads>(row, first + i);
            v[i]        = from[(r < count ? r : count - 1) * from0 + (inside ? c : 0) * from1];
          }
#pragma unroll
          for (int i = 0; i < batch; ++i) {
            int const r = place<RowThreads>(row, first + i);
            if (inside && r < count)
              to[r * to0 + c * to1] = Storage(Compute(v[i]) + sum[first + i][j]);
          }
        }
      }
    }
  }

  template <class Team>
  KOKKOS_INLINE_FUNCTION void copy(Team const& team, std::int64_t first_row,
                                   std::int32_t count) const {
    if (team.team_rank() >= count) return;
    std::int64_t const row = first_row + team.team_rank();
    for (std::int32_t d = 0; d < stack.dim; ++d)
      y.data[row * y.stride0 + d * y.stride1] = z.data[row * z.stride0 + d * z.stride1];
  }

  /// A thread's numbers along one side of a tile: packs of 16 bytes, `Threads` packs apart, so that
  /// neighbours read neighbouring packs.
  template <int Threads>
  KOKKOS_INLINE_FUNCTION static int place(int thread, int i) {
    return (i / width * Threads + thread) * width + i % width;
  }

  template <int Count, int Threads>
  KOKKOS_INLINE_FUNCTION static void read(Compute const* line, int thread,
                                          Compute (&values)[Count]) {
#pragma unroll
    for (int i = 0; i < Count; i += width) {
      auto const p = load_pack<width>(line + place<Threads>(thread, i));
#pragma unroll
      for (int c = 0; c < width; ++c) values[i + c] = p.v[c];
    }
  }

  template <int Count, int Threads>
  KOKKOS_INLINE_FUNCTION static void write(Compute* line, int thread,
                                           Compute const (&values)[Count]) {
#pragma unroll
    for (int i = 0; i < Count; i += width) {
      Pack<Compute, width> p;
#pragma unroll
      for (int c = 0; c < width; ++c) p.v[c] = values[i + c];
      store_pack(line + place<Threads>(thread, i), p);
    }
  }
};

}  // namespace meander::impl::device
