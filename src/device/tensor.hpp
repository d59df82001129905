// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <Kokkos_Core.hpp>

#include <meander/impl/map_direction.hpp>
#include <meander/impl/planar_coefficients.hpp>
#include <meander/impl/strided.hpp>

#include "access.hpp"
#include "bfloat16_parts.hpp"
#include "lanes.hpp"
#include "layer_scalars.hpp"
#include "scratch_copy.hpp"
#include "tensor_coefficients.hpp"

namespace meander::impl::device {

/// A product of determinants whose exponent is kept apart where it could leave the range of float.
struct ScaledDeterminant : LogDeterminant<float> {
  float exponents = 0;

  KOKKOS_INLINE_FUNCTION void normalize() {
    constexpr std::int32_t mask = 0x7f800000;
    auto const bits             = Kokkos::bit_cast<std::int32_t>(product);
    auto const exponent         = bits & mask;
    if (exponent == 0 || exponent == mask) return;  // zero, NaN: they stay what they are
    product = Kokkos::bit_cast<float>(bits - exponent + 0x3f800000);
    exponents += static_cast<float>(exponent - 0x3f800000) * 1.1920929e-7f;
  }

  KOKKOS_INLINE_FUNCTION float log() const {
    bool const near_one = distance < 0.5f;
    float const log     = log_of_product(near_one ? 1 + excess : product, excess, near_one);
    return near_one ? log : Kokkos::fma(exponents, 0.693147181f, log);
  }
};

KOKKOS_INLINE_FUNCTION void warp_barrier() {
#if defined(__CUDA_ARCH__)
  __syncwarp();
#endif
}

/// The map in Gram form on tensor cores, in float, for any D. A warp takes 32 rows; what
/// warps of a team share is the cache: they walk through the coefficients together.
///
/// For up to `Blocks` blocks of 16 layers at a time: A = Z W^T as matrix products, z streaming
/// through registers; then, block by block, each thread takes the scalars of one row through the
/// chain, and with the h that come out A of the blocks after it is brought up to date; at last Y =
/// Z + H U_hat, z streaming once more. The inverse takes the blocks and their layers from the last
/// to the first, with -h in place of h; z then stands for the rows that are read, y for those that
/// are written.
///
/// A thread has the numbers that the products want from it: of rows g and g + 8 of two 16-row tiles
/// four neighbouring coordinates per step. Which rows of the batch these are is free: `ByRows`
/// kernels move packs of four coordinates, the others packs of the four rows that one thread holds.
template <int Blocks, bool ByRows, MapDirection direction>
struct PlanarTensor {
  static constexpr bool forward = direction == MapDirection::forward;
  static constexpr int block    = 16;  ///< layers
  static constexpr int tiles    = 2;
  static constexpr int rows     = 16 * tiles;  ///< of a warp
  static constexpr int step     = TensorLayout::step;
  static constexpr int pitch    = block + 4;  ///< scratch of a row: neighbours in different banks
  static constexpr int set      = TensorLayout::set;
  static constexpr int at_once  = Blocks > 1 ? 2 : 1;  ///< blocks multiplied together
  static constexpr int threads  = 128;                 ///< of a team
  static constexpr int warps    = threads / 32;
  /// Of a multiprocessor: as many as leave enough registers.
  static constexpr int teams = Blocks > 1 ? 2 : 3;

  using Lefts       = LeftPiece[tiles];
  using Right       = RightPair;
  using Determinant = ScaledDeterminant;
  using Numbers     = float[tiles][2][4];  ///< what a thread has of a step

  PlanarCoefficients<float> stack;
  StridedMatrix<float const> z;
  StridedMatrix<float> y;
  StridedVector<float> log_det;
  Access access;

  /// A team's scratch. While z and the coefficients stream past: two steps of both, of which each
  /// thread reads those numbers of z that it has asked for itself. In between: the scalars of a
  /// block, row by row.
  struct Scratch {
    float* stages;  ///< the team's
    float* chain;   ///< this warp's

    static constexpr int chain_share = rows * pitch;
    static constexpr int z_share     = rows * step;
    static constexpr int stage       = warps * z_share + Blocks * set;
    static constexpr int all = 2 * stage > warps* chain_share ? 2 * stage : warps* chain_share;
  };

  static constexpr std::size_t scratch_bytes() { return Scratch::all * sizeof(float) + 16; }
  static constexpr int rows_per_team = warps * rows;

  /// The rows of this warp, and what this thread has of them.
  struct Place {
    int warp, lane, g, t;
    std::int64_t first_row;
    std::int32_t count;

    /// Row g + 8 * half of a tile, among the warp's rows: in the batch, and in scratch.
    KOKKOS_INLINE_FUNCTION int row(int tile, int half) const {
      return ByRows ? scratch_row(tile, half) : 4 * g + 2 * tile + half;
    }
    KOKKOS_INLINE_FUNCTION int scratch_row(int tile, int half) const {
      return 16 * tile + 8 * half + g;
    }
    /// The row whose scalars this thread takes through the chain: that of scratch row `lane`.
    KOKKOS_INLINE_FUNCTION int own_row() const { return ByRows ? lane : 4 * (lane % 8) + lane / 8; }
  };

  template <class Team>
  KOKKOS_INLINE_FUNCTION void operator()(Team const& team) const {
    int const rank = static_cast<int>(opaque(team.team_rank()));
    Place place;
    place.warp              = rank / 32;
    place.lane              = rank % 32;
    place.g                 = place.lane / 4;
    place.t                 = place.lane % 4;
    place.first_row         = std::int64_t(team.league_rank()) * rows_per_team + place.warp * rows;
    std::int64_t const left = z.extent0 - place.first_row;
    place.count             = static_cast<std::int32_t>(left < 0 ? 0 : left < rows ? left : rows);
    Scratch scratch;
    scratch.stages = static_cast<float*>(
        team.team_scratch(0).get_shmem_aligned(Scratch::all * sizeof(float), 16));
    scratch.chain = scratch.stages + place.warp * Scratch::chain_share;

    TensorLayout const layout(stack.dim, stack.layers);
    Determinant det;
    std::int32_t const groups = (layout.blocks + Blocks - 1) / Blocks;
#pragma unroll 1
    for (std::int32_t group = 0; group < groups; ++group) {
      std::int32_t const first     = (forward ? group : groups - 1 - group) * Blocks;
      float a[Blocks][2][tiles][4] = {};
      project(team, layout, group > 0, first, place, scratch, a);
      Lefts h[Blocks] = {};
#pragma unroll
      for (int i = 0; i < Blocks; ++i) {
        int const n = forward ? i : Blocks - 1 - i;
        if (first + n >= layout.blocks) continue;
        chain(stack.parts + layout.scalars(first + n), place, scratch.chain, a[n], det);
        collect(place, scratch.chain, h[n]);
#pragma unroll
        for (int later = i + 1; later < Blocks; ++later) {
          int const to = forward ? later : Blocks - 1 - later;
          if (first + to >= layout.blocks) continue;
          Right gram[1];
          gram[0].load(words(layout.cross(first + to, first + n)) + place.lane * Right::words);
          multiply<tiles>(
              [&](int) -> Lefts const& { return h[n]; }, gram,
              [&](int, int e, int tile, float const(&sum)[4]) { add(a[to][e][tile], sum); });
        }
      }
      update(team, layout, group > 0, first, place, scratch, h);
    }
    int const own = place.own_row();
    if (log_det.data != nullptr && own < place.count)
      log_det.data[(place.first_row + own) * log_det.stride0] = forward ? det.log() : -det.log();
  }

  KOKKOS_INLINE_FUNCTION std::uint32_t const* words(std::size_t at) const {
    return reinterpret_cast<std::uint32_t const*>(stack.parts) + at;
  }

  KOKKOS_INLINE_FUNCTION static void add(float (&to)[4], float const (&sum)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] += sum[i];
  }

  /// Asks for z and the coefficients of step k.
  KOKKOS_INLINE_FUNCTION void ask(TensorLayout const& layout, bool again,
                                  std::uint32_t const* coefficients, std::int32_t blocks,
                                  Place const& place, std::int32_t k,
                                  Scratch const& scratch) const {
    if (k < layout.steps) {
      float* const stage = scratch.stages + k % 2 * Scratch::stage;
      ask_z(again, place, k, stage + place.warp * Scratch::z_share + 4 * place.lane);
      float* const to  = stage + warps * Scratch::z_share;
      auto const* from = reinterpret_cast<float const*>(coefficients) + std::size_t(k) * set;
#pragma unroll
      for (int n = 0; n < (Blocks * set + 4 * threads - 1) / (4 * threads); ++n) {
        int const at = 4 * (n * threads + 32 * place.warp + place.lane);
        if (at / set < (blocks < Blocks ? blocks : Blocks))
          copy_later<4>(to + at, from + std::size_t(at / set) * layout.steps * set + at % set);
      }
    }
    end_group_of_copies();
  }

  /// `again`: of the rows as the layers so far have left them. Where a row or a coordinate past the
  /// last one would be, another stands in: it is not stored, or meets zero coefficients.
  KOKKOS_INLINE_FUNCTION void ask_z(bool again, Place const& place, std::int32_t k,
                                    float* to) const {
    if (place.count == 0) return;
    StridedMatrix<float const> const source{again ? y.data : z.data, 0, 0,
                                            again ? y.stride0 : z.stride0,
                                            again ? y.stride1 : z.stride1};
    float const* const from = source.data + place.first_row * source.stride0;
    std::int32_t const last = place.count - 1;
    std::int32_t const d    = step * k + 4 * place.t;
    if constexpr (ByRows) {
      std::int32_t const at = d < stack.dim ? d : 0;
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        int const r = place.row(q / 2, q % 2);
        copy_later<4>(to + 128 * q, from + (r < last ? r : last) * source.stride0 + at);
      }
    } else if (access == Access::columns && place.count == rows) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        copy_later<4>(to + 128 * i,
                      from + place.row(0, 0) + (d + i < stack.dim ? d + i : 0) * source.stride1);
    } else {
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        int const row           = place.row(q / 2, q % 2);
        float const* const mine = from + (row < last ? row : last) * source.stride0;
#pragma unroll
        for (int i = 0; i < 4; ++i)
          copy_later<1>(to + 128 * i + q, mine + (d + i < stack.dim ? d + i : 0) * source.stride1);
      }
    }
  }

  /// The numbers of z of step k.
  KOKKOS_INLINE_FUNCTION void take(Place const& place, std::int32_t k, Scratch const& scratch,
                                   Numbers& numbers) const {
    float const* const from =
        scratch.stages + k % 2 * Scratch::stage + place.warp * Scratch::z_share + 4 * place.lane;
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      auto const p = load_pack<4>(from + 128 * q);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if constexpr (ByRows)
          numbers[q / 2][q % 2][i] = p.v[i];
        else
          numbers[i / 2][i % 2][q] = p.v[i];
      }
    }
  }

  /// Walks through the coordinates: begin(numbers of z), visit(n, sets of blocks n onwards) until
  /// all blocks have been seen, end(k, numbers). Meanwhile the next step is on its way.
  template <class Team, class Begin, class Visit, class End>
  KOKKOS_INLINE_FUNCTION void for_each_step(Team const& team, TensorLayout const& layout,
                                            bool again, std::uint32_t const* coefficients,
                                            std::int32_t blocks, Place const& place,
                                            Scratch const& scratch, Begin const& begin,
                                            Visit const& visit, End const& end) const {
    team.team_barrier();  // the scalars of a block may still be read
    ask(layout, again, coefficients, blocks, place, 0, scratch);
#pragma unroll 1
    for (std::int32_t k = 0; k < layout.steps; ++k) {
      wait_for_copies<0>();
      team.team_barrier();
      ask(layout, again, coefficients, blocks, place, k + 1, scratch);
      Numbers numbers;
      take(place, k, scratch, numbers);
      begin(numbers);
      auto const* const sets = reinterpret_cast<std::uint32_t const*>(
          scratch.stages + k % 2 * Scratch::stage + warps * Scratch::z_share);
#pragma unroll
      for (int n = 0; n < Blocks; n += at_once) {
        if (n < blocks) {
          Right now[at_once];
#pragma unroll
          for (int i = 0; i < at_once; ++i)
            now[i].load(sets + (n + i) * set + place.lane * Right::words);
          visit(n, now);
        }
      }
      end(k, numbers);
    }
    team.team_barrier();  // the stages may still be read
  }

  /// a += Z W^T for the layers of `Blocks` blocks.
  template <class Team>
  KOKKOS_INLINE_FUNCTION void project(Team const& team, TensorLayout const& layout, bool again,
                                      std::int32_t first, Place const& place,
                                      Scratch const& scratch,
                                      float (&a)[Blocks][2][tiles][4]) const {
    Lefts left;
    for_each_step(
        team, layout, again, words(layout.w(first, 0)), layout.blocks - first, place, scratch,
        [&](Numbers const& numbers) {
#pragma unroll
          for (int tile = 0; tile < tiles; ++tile)
#pragma unroll
            for (int half = 0; half < 2; ++half) left[tile].set(half, numbers[tile][half]);
        },
        [&](int n, Right const(&sets)[at_once]) {
          multiply<tiles>(
              [&](int) -> Lefts const& { return left; }, sets,
              [&](int s, int e, int tile, float const(&sum)[4]) { add(a[n + s][e][tile], sum); });
        },
        [](std::int32_t, Numbers const&) {});
  }

  /// Y = Z + H U_hat.
  template <class Team>
  KOKKOS_INLINE_FUNCTION void update(Team const& team, TensorLayout const& layout, bool again,
                                     std::int32_t first, Place const& place, Scratch const& scratch,
                                     Lefts const (&h)[Blocks]) const {
    float sum[2][tiles][4];
    std::int32_t const blocks = layout.blocks - first;
    for_each_step(
        team, layout, again, words(layout.u(first, 0)), blocks, place, scratch,
        [&](Numbers const&) {
#pragma unroll
          for (int side = 0; side < 2; ++side)
#pragma unroll
            for (int tile = 0; tile < tiles; ++tile)
#pragma unroll
              for (int i = 0; i < 4; ++i) sum[side][tile][i] = 0;
        },
        [&](int n, Right const(&sets)[at_once]) {
          multiply<tiles>([&](int s) -> Lefts const& { return h[n + s]; }, sets,
                          [&](int s, int side, int tile, float const(&part)[4]) {
                            // Of a block past the last one there is nothing in scratch.
                            if (n + s < blocks) add(sum[side][tile], part);
                          });
        },
        [&](std::int32_t k, Numbers& numbers) {
#pragma unroll
          for (int tile = 0; tile < tiles; ++tile)
#pragma unroll
            for (int half = 0; half < 2; ++half)
#pragma unroll
              for (int i = 0; i < 4; ++i)
                numbers[tile][half][i] += sum[i / 2][tile][2 * half + i % 2];
          store(place, k, numbers);
        });
  }

  /// The chain of scalars through a block: scratch holds h (-h for the inverse) afterwards, row by
  /// row.
  KOKKOS_INLINE_FUNCTION void chain(float const* gram, Place const& place, float* scratch,
                                    float const (&a)[2][tiles][4], Determinant& det) const {
    warp_barrier();  // the h of the block before may still be read
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float* const to = scratch + place.scratch_row(tile, half) * pitch + 2 * place.t;
#pragma unroll
        for (int n = 0; n < 2; ++n)
          store_pack(to + 8 * n, Pack<float, 2>{{a[n][tile][2 * half], a[n][tile][2 * half + 1]}});
      }
    warp_barrier();
    float* const mine          = scratch + place.lane * pitch;
    float const* const scalars = gram + block * block;
    LayerRule<float> const rule{stack.activation, stack.negative_slope, stack.log_det_epsilon};
    if (rule.usual())
      chain<true>(rule, gram, scalars, mine, det);
    else
      chain<false>(rule, gram, scalars, mine, det);
    warp_barrier();
  }

  template <bool Usual>
  KOKKOS_INLINE_FUNCTION void chain(LayerRule<float> const& rule, float const* gram,
                                    float const* scalars, float* mine, Determinant& det) const {
#pragma unroll 1
    for (int step = 0; step < block; step += 4) {
      int const l = forward ? step : block - 4 - step;
      auto sum    = load_pack<4>(mine + l);
#pragma unroll 1
      for (int done = 0; done < step; done += 4) {
        int const j  = forward ? done : block - 4 - done;
        auto const h = load_pack<4>(mine + j);
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          auto const g = load_pack<4>(gram + (l + r) * block + j);
#pragma unroll
          for (int i = 0; i < 4; ++i) sum.v[r] = Kokkos::fma(g.v[i], h.v[i], sum.v[r]);
        }
      }
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        int const r       = forward ? n : 3 - n;
        auto const scalar = load_pack<4>(scalars + 4 * (l + r));
        auto const g      = load_pack<4>(gram + (l + r) * block + l);
        float pre         = sum.v[r] + scalar.v[0];
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (forward ? i < r : i > r) pre = Kokkos::fma(g.v[i], sum.v[i], pre);
        // Only log_det_epsilon makes a difference past the last layer.
        if (!Usual && scalar.v[3] == 0) {
          sum.v[r] = 0;
          continue;
        }
        if constexpr (forward)
          sum.v[r] = rule.template apply<Usual>(pre, scalar.v[1], scalar.v[2], det);
        else
          sum.v[r] = -rule.template undo<Usual>(pre, scalar.v[1], scalar.v[2], det);
        det.normalize();
      }
      store_pack(mine + l, sum);
    }
  }

  /// The h of this warp's rows as left factors.
  KOKKOS_INLINE_FUNCTION void collect(Place const& place, float const* scratch, Lefts& h) const {
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        auto const p = load_pack<4>(scratch + place.scratch_row(tile, half) * pitch + 4 * place.t);
        h[tile].set(half, p.v);
      }
  }

  KOKKOS_INLINE_FUNCTION void store(Place const& place, std::int32_t k,
                                    Numbers const& numbers) const {
    float* const to      = y.data + place.first_row * y.stride0;
    std::int32_t const d = step * k + 4 * place.t;
    if constexpr (ByRows) {
#pragma unroll
      for (int tile = 0; tile < tiles; ++tile)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          int const r = place.row(tile, half);
          Pack<float, 4> p;
#pragma unroll
          for (int i = 0; i < 4; ++i) p.v[i] = numbers[tile][half][i];
          if (r < place.count && d < stack.dim) store_pack(to + r * y.stride0 + d, p);
        }
    } else if (access == Access::columns && place.count == rows) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        Pack<float, 4> p;
#pragma unroll
        for (int r = 0; r < 4; ++r) p.v[r] = numbers[r / 2][r % 2][i];
        if (d + i < stack.dim) store_pack(to + place.row(0, 0) + (d + i) * y.stride1, p);
      }
    } else {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        int const row = place.row(r / 2, r % 2);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (row < place.count && d + i < stack.dim)
            to[row * y.stride0 + (d + i) * y.stride1] = numbers[r / 2][r % 2][i];
      }
    }
  }
};

}  // namespace meander::impl::device
