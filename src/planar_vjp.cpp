// SPDX-License-Identifier: BSD-3-Clause
#include <meander/impl/planar_vjp.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <meander/impl/flow_gradient.hpp>
#include <meander/impl/planar_prepare.hpp>

#include "host/planar_vjp.hpp"
#include "instantiate.hpp"
#include "light_weight.hpp"
#include "refuse.hpp"

#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
#include "device/planar_vjp.hpp"
#endif

namespace meander::impl {

namespace device {

template <class Compute>
PlanarVjpSizes vjp_sizes(PlanarCoefficients<Compute> const& stack, std::int64_t max_batch);

template <class ExecutionSpace, class Storage, class Compute>
void planar_vjp(ExecutionSpace const& exec, PlanarVjpCall<Storage, Compute> const& call);

}  // namespace device

namespace {

/// Rows that make a chunk worth its sums, in units.
std::int64_t least_rows(std::int32_t dim, std::int32_t layers) {
  std::int64_t const rows =
      std::max<std::int64_t>(PlanarVjpChunks::unit, 4 * std::int64_t(std::min(dim, layers)));
  return (rows + PlanarVjpChunks::unit - 1) / PlanarVjpChunks::unit * PlanarVjpChunks::unit;
}

/// Adds up the chunks of a host, from the first to the last.
struct AddChunks {
  double* sums;
  std::int64_t size, chunks;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    double sum = 0;
    for (std::int64_t c = 1; c <= chunks; ++c) sum += sums[c * size + i];
    sums[i] = sum;
  }
};

/// Loops over coordinates: one host thread, or the lanes of a team.
struct OneThread {
  template <class F>
  KOKKOS_FUNCTION double sum(int n, F const& f) const {
    double sum = 0;
    for (int d = 0; d < n; ++d) sum += f(d);
    return sum;
  }
  template <class F>
  KOKKOS_FUNCTION double largest(int n, F const& f) const {
    double largest = 0;
    for (int d = 0; d < n; ++d)
      if (f(d) > largest) largest = f(d);
    return largest;
  }
  template <class F>
  KOKKOS_FUNCTION void each(int n, F const& f) const {
    for (int d = 0; d < n; ++d) f(d);
  }
};

template <class Team>
struct TeamLanes {
  Team const& team;

  template <class F>
  KOKKOS_FUNCTION double sum(int n, F const& f) const {
    double sum = 0;
    Kokkos::parallel_reduce(
        Kokkos::TeamVectorRange(team, n), [&](int d, double& part) { part += f(d); }, sum);
    return sum;
  }
  template <class F>
  KOKKOS_FUNCTION double largest(int n, F const& f) const {
    double largest = 0;
    Kokkos::parallel_reduce(
        Kokkos::TeamVectorRange(team, n),
        [&](int d, double& m) {
          if (f(d) > m) m = f(d);
        },
        Kokkos::Max<double>(largest));
    return largest > 0 ? largest : 0;
  }
  template <class F>
  KOKKOS_FUNCTION void each(int n, F const& f) const {
    Kokkos::parallel_for(Kokkos::TeamVectorRange(team, n), f);
  }
};

/// What the constraint makes of x = w.u, for gradients.
struct ConstraintSlope {
  double m_minus_x;      ///< s - 1 - x, by which u_hat differs from u
  double slope;          ///< ds/dx over log_det_scale
  double slope_minus_1;  ///< ds/dx - 1
};

KOKKOS_FUNCTION ConstraintSlope slope_of(Constraint constraint, double x) {
  if (constraint == Constraint::none) return {0, 1, 0};
  // Below it s and its slope are exp(x) to rounding, and would soon be 0/0.
  constexpr double ratio_is_one = -40;
  double const e                = Kokkos::exp(-Kokkos::abs(x));
  double const r                = 1 / (1 + e);
  double const sigmoid          = x >= 0 ? r : e * r;
  double const softplus         = (x > 0 ? x : 0.0) + Kokkos::log1p(e);
  if (constraint == Constraint::softplus)
    return {x > 0 ? Kokkos::log1p(e) - 1 : (Kokkos::log1p(e) - 1) - x,
            x < ratio_is_one ? 1 : sigmoid / softplus, x >= 0 ? -e * r : -r};
  double const s     = Kokkos::log1p(softplus);
  double const slope = sigmoid / (1 + softplus);
  return {(s - 1) - x, x < ratio_is_one ? 1 : slope / s, slope - 1};
}

/// From the sums of one layer to the gradients of its raw w, u, b, in double.
///
/// With x = w.u and m = s - 1: u_hat = u + (m - x) w / |w|^2. The sums give the gradients W by w as
/// it stands in w.z, U by u_hat, S by s, so that with k = U.w / |w|^2
///   du = U + dx w,  dw = W + dx u + (m - x) (U - 2 k w) / |w|^2,  dx = S s' + k (s' - 1).
template <class Compute, class Parameter, class Gradient>
struct ParameterGradients {
  PlanarCoefficients<Compute> c;
  double* sums;
  PlanarVjpSums at;
  PlanarVjpParameters<Parameter, Gradient> p;

  void operator()(int l) const { work(OneThread{}, l); }

  template <class Team>
  KOKKOS_FUNCTION void operator()(Team const& team) const {
    work(TeamLanes<Team>{team}, team.league_rank());
  }

  /// How many times it is to be called: for the loss, a flow without layers counts as one layer.
  int count() const { return c.layers == 0 && p.loss != nullptr ? 1 : c.layers; }

  KOKKOS_FUNCTION double w_at(int l, int d) const {
    return p.w.data[l * p.w.stride0 + d * p.w.stride1];
  }
  KOKKOS_FUNCTION double u_at(int l, int d) const {
    return p.u.data[l * p.u.stride0 + d * p.u.stride1];
  }

  template <class Lanes>
  KOKKOS_FUNCTION void work(Lanes const& lanes, int l) const {
    if (l == 0 && p.loss != nullptr) lanes.each(1, [&](int) { *p.loss = p.scale * sums[at.loss]; });
    if (c.layers == 0) return;
    complete_sums(lanes, l);
    double const* const direct_w = sums + at.w;
    double const* const by_u_hat = sums + at.u;
    auto const index             = [&](int d) { return c.index(l, d); };

    // Scaled as in the preparation: |w|^2 of a tiny w underflows.
    double const largest = lanes.largest(c.dim, [&](int d) { return Kokkos::abs(w_at(l, d)); });
    double const inverse = largest > 0 ? 1 / largest : 1.0;
    double const scale   = Kokkos::isfinite(inverse) && inverse > 0 ? inverse : 1.0;
    double const w_dot_w = lanes.sum(c.dim, [&](int d) {
      double const v = w_at(l, d) * scale;
      return v * v;
    });
    double const x       = lanes.sum(c.dim, [&](int d) { return w_at(l, d) * u_at(l, d); });
    double const along_w =
        lanes.sum(c.dim, [&](int d) { return by_u_hat[index(d)] * (w_at(l, d) * scale); });

    bool const constrained  = p.constraint != Constraint::none;
    bool const shift        = constrained && w_dot_w == 0;
    ConstraintSlope const s = slope_of(shift ? Constraint::none : p.constraint, x);
    bool const bent         = constrained && !shift;
    double const k          = bent ? along_w / w_dot_w * scale : 0.0;
    double const dx         = shift ? 0.0 : sums[at.s + l] * s.slope + k * s.slope_minus_1;
    double const step       = bent ? s.m_minus_x / w_dot_w * scale : 0.0;
    double const factor     = p.direction == MapDirection::forward ? p.scale : -p.scale;

    lanes.each(c.dim, [&](int d) {
      double const w  = w_at(l, d);
      double const u  = by_u_hat[index(d)];
      double const dw = direct_w[index(d)] + dx * u_at(l, d) +
                        (bent ? step * (scale * u - 2 * k * (w * scale)) : 0.0);
      p.grad_w.data[l * p.grad_w.stride0 + d * p.grad_w.stride1] =
          Gradient(shift ? 0.0 : factor * dw);
      p.grad_u.data[l * p.grad_u.stride0 + d * p.grad_u.stride1] = Gradient(factor * (u + dx * w));
      if (d == 0) p.grad_b.data[l * p.grad_b.stride0] = Gradient(factor * sums[at.b + l]);
    });
  }

  /// f(begin) + ... + f(end - 1), eight at a time: a device waits for memory once for all of them.
  template <class F>
  KOKKOS_FUNCTION static double sum_of(int begin, int end, F const& f) {
    constexpr int width = 8;
    double sum[width]   = {};
    int j               = begin;
    for (; j + width <= end; j += width)
      for (int i = 0; i < width; ++i) sum[i] += f(j + i);
    for (; j < end; ++j) sum[0] += f(j);
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
  }

  /// The sums were taken with z before and g after a whole group of layers; the layers between
  /// add h_j u_hat_j to the one and da_j w_j to the other.
  template <class Lanes>
  KOKKOS_FUNCTION void complete_sums(Lanes const& lanes, int l) const {
    int const first = l - l % c.gram_group;
    int const end   = first + c.gram_group < c.layers ? first + c.gram_group : c.layers;
    auto const m    = [&](int i, int j) {
      return sums[at.m + std::size_t(i) * at.m_pitch + j % c.gram_group];
    };
    lanes.each(c.dim, [&](int d) {
      sums[at.w + c.index(l, d)] +=
          sum_of(first, l, [&](int j) { return m(l, j) * double(c.u_hat[c.index(j, d)]); });
      sums[at.u + c.index(l, d)] +=
          sum_of(l + 1, end, [&](int j) { return m(j, l) * double(c.w[c.index(j, d)]); });
    });
  }
};

}  // namespace

PlanarVjpChunks::PlanarVjpChunks(std::int64_t batch, std::int32_t dim, std::int32_t layers) {
  std::int64_t const even = (batch + most - 1) / most;
  rows                    = std::max(least_rows(dim, layers), (even + unit - 1) / unit * unit);
  count                   = (batch + rows - 1) / rows;
}

PlanarVjpChunks PlanarVjpChunks::of(std::int64_t batch, std::int64_t tile,
                                    std::int64_t most_chunks) {
  PlanarVjpChunks chunks;
  std::int64_t const tiles = (batch + tile - 1) / tile;
  chunks.rows  = std::max<std::int64_t>(1, (tiles + most_chunks - 1) / most_chunks) * tile;
  chunks.count = (batch + chunks.rows - 1) / chunks.rows;
  return chunks;
}

std::int64_t PlanarVjpChunks::bound(std::int64_t max_batch, std::int32_t dim, std::int32_t layers) {
  std::int64_t const rows = least_rows(dim, layers);
  return std::min(most, (max_batch + rows - 1) / rows);
}

void check_vjp_max_batch(std::int64_t max_batch) {
  if (max_batch >= 0) return;
  refuse("meander::PlanarVjpWorkspace", "argument max_batch is ", max_batch,
         ", expected a number >= 0");
}

void check_vjp_batch(char const* function, char const* argument, std::int64_t batch,
                     std::int64_t max_batch) {
  if (batch <= max_batch) return;
  refuse(function, "extent 0 of argument ", argument, " is ", batch, ", expected at most ",
         max_batch, " (the rows the workspace is for)");
}

void check_mean_rows(char const* function, char const* argument, std::int64_t rows) {
  if (rows > 0) return;
  refuse(function, "argument ", argument,
         " has no rows, expected at least one: the loss is a mean over rows");
}

template <class ExecutionSpace, class Compute>
PlanarVjpSizes planar_vjp_sizes(PlanarCoefficients<Compute> const& stack, std::int64_t max_batch,
                                std::int32_t slots) {
  if constexpr (is_host_space<ExecutionSpace>) {
    std::int64_t const chunks = PlanarVjpChunks::bound(max_batch, stack.dim, stack.layers);
    std::size_t const rows    = std::size_t(std::min<std::int64_t>(chunks, slots)) *
                             host::PlanarVjp<Compute, Compute>::slot_size(stack);
    return {rows, std::size_t(chunks + 1) * PlanarVjpSums(stack).size};
  } else {
    return device::vjp_sizes(stack, max_batch);
  }
}

template <class ExecutionSpace, class Storage, class Compute>
void planar_vjp(ExecutionSpace const& exec, PlanarVjpCall<Storage, Compute> const& call) {
  if constexpr (is_host_space<ExecutionSpace>) {
    PlanarVjpChunks const chunks(call.from.extent0, call.stack.dim, call.stack.layers);
    if (chunks.count > 0) {
      auto const slots = static_cast<std::int32_t>(
          std::min<std::int64_t>({call.memory.slots, exec.concurrency(), chunks.count}));
      host::PlanarVjp<Storage, Compute> const work{call, chunks, slots};
      Kokkos::parallel_for(
          "meander::planar::vjp[tiles]",
          Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(exec, 0, slots),
          [work](std::int64_t slot) { work.run(slot); });
    }
    if (!call.with_parameters) return;
    auto const size = static_cast<std::int64_t>(PlanarVjpSums(call.stack).size);
    Kokkos::parallel_for(
        "meander::planar::vjp[add chunks]",
        Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(exec, 0, size),
        AddChunks{call.memory.sums, size, chunks.count});
  } else {
    device::planar_vjp(exec, call);
  }
}

template <class ExecutionSpace, class Compute, class Parameter, class Gradient>
void planar_vjp_parameters(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& stack,
                           PlanarVjpMemory<Compute> const& memory,
                           PlanarVjpParameters<Parameter, Gradient> const& parameters) {
  char const* const label = "meander::planar::vjp[parameters]";
  ParameterGradients<Compute, Parameter, Gradient> const work{stack, memory.sums,
                                                              PlanarVjpSums(stack), parameters};
  int const count = work.count();
  if (count == 0) return;
  if constexpr (is_host_space<ExecutionSpace>)
    Kokkos::parallel_for(
        label, Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<int>>(exec, 0, count), work);
  else
    Kokkos::parallel_for(label,
                         light_weight(Kokkos::TeamPolicy<ExecutionSpace>(
                             exec, count, std::clamp((stack.dim + 31) / 32, 1, 8), 32)),
                         work);
}

#define MEANDER_VJP_SIZES(Space, Compute)                                                      \
  template PlanarVjpSizes planar_vjp_sizes<Space, Compute>(PlanarCoefficients<Compute> const&, \
                                                           std::int64_t, std::int32_t);
#define MEANDER_VJP(Space, Storage, Compute)                      \
  template void planar_vjp<Space, Storage, Compute>(Space const&, \
                                                    PlanarVjpCall<Storage, Compute> const&);
#define MEANDER_VJP_PARAMETERS(Space, Compute, Parameter, Gradient)                      \
  template void planar_vjp_parameters<Space, Compute, Parameter, Gradient>(              \
      Space const&, PlanarCoefficients<Compute> const&, PlanarVjpMemory<Compute> const&, \
      PlanarVjpParameters<Parameter, Gradient> const&);
#define MEANDER_VJP_ALL(Space)                         \
  MEANDER_VJP_SIZES(Space, float)                      \
  MEANDER_VJP_SIZES(Space, double)                     \
  MEANDER_VJP(Space, float, float)                     \
  MEANDER_VJP(Space, double, double)                   \
  MEANDER_VJP(Space, float, double)                    \
  MEANDER_VJP_PARAMETERS(Space, float, float, float)   \
  MEANDER_VJP_PARAMETERS(Space, float, float, double)  \
  MEANDER_VJP_PARAMETERS(Space, float, double, float)  \
  MEANDER_VJP_PARAMETERS(Space, float, double, double) \
  MEANDER_VJP_PARAMETERS(Space, double, float, float)  \
  MEANDER_VJP_PARAMETERS(Space, double, float, double) \
  MEANDER_VJP_PARAMETERS(Space, double, double, float) \
  MEANDER_VJP_PARAMETERS(Space, double, double, double)
MEANDER_FOR_EACH_SPACE(MEANDER_VJP_ALL)

}  // namespace meander::impl
