// SPDX-License-Identifier: BSD-3-Clause
#include <meander/impl/planar_prepare.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>

#include "device/path.hpp"
#include "device/tensor_layout.hpp"
#include "instantiate.hpp"

#if defined(KOKKOS_ENABLE_CUDA)
#include "device/tensor_coefficients.hpp"
#endif

namespace meander::impl {

namespace {

/// Every array starts at a multiple of this many elements: 64 bytes or more.
constexpr std::size_t alignment = 16;

std::size_t rounded(std::size_t n) { return (n + alignment - 1) / alignment * alignment; }

template <class Compute>
std::size_t matrix_size(PlanarCoefficients<Compute> const& c) {
  std::size_t const groups = (std::size_t(c.layers) + c.group - 1) / c.group;
  return rounded(groups * c.group * std::size_t(c.padded_dim));
}

template <class Compute>
std::size_t vector_size(PlanarCoefficients<Compute> const& c) {
  return rounded(std::size_t(c.layers) + c.group);
}

template <class Compute>
std::size_t gram_size(PlanarCoefficients<Compute> const& c) {
  return rounded((std::size_t(c.layers) + c.gram_group) * c.gram_group);
}

/// Only the tensor kernels read the parts; groups of one layer mean that the stack is a device's.
template <class Compute>
std::size_t parts_size(PlanarCoefficients<Compute> const& c) {
  bool const needed = device::has_tensor_kernels && std::is_same_v<Compute, float> &&
                      c.group == 1 && device::wants_tensor_path(c.dim, c.layers);
  return needed ? rounded(device::TensorLayout(c.dim, c.layers).size()) : 0;
}

KOKKOS_FUNCTION double softplus(double x) {
  return (x > 0 ? x : 0.0) + Kokkos::log1p(Kokkos::exp(-Kokkos::abs(x)));
}

/// s and s - 1 where s = 1 + w.u_hat is what the constraint makes of x = w.u.
struct Determinant {
  double s, s_minus_1;
};

/// softplus(x) - level where softplus(root) = level, without cancellation near the root (given in
/// two parts): log(1 + exp x) - level = log1p((1 - exp(-level)) expm1(x - root)).
KOKKOS_FUNCTION double softplus_minus(double x, double level, double shrink, double root,
                                      double root_rest) {
  double const distance = (x - root) - root_rest;
  if (Kokkos::abs(distance) > 0.5) return softplus(x) - level;
  return Kokkos::log1p(shrink * Kokkos::expm1(distance));
}

KOKKOS_FUNCTION Determinant constrained(Constraint constraint, double x) {
  switch (constraint) {
    case Constraint::softplus: {
      return {softplus(x), softplus_minus(x, 1, 0.6321205588285577, 0.5413248546129181,
                                          -1.8138570925507326e-17)};
    }
    case Constraint::log_softplus: {
      // log(1 + p) - 1 = log1p((p - (e - 1)) / e)
      constexpr double e_minus_1 = 1.718281828459045;
      double const above = softplus_minus(x, e_minus_1, 0.8206259212659828, 1.5205939171727694,
                                          -1.426731671106519e-17);
      double const s     = Kokkos::log1p(softplus(x));
      return {s, Kokkos::abs(above) < 1 ? Kokkos::log1p(above * 0.36787944117144233) : s - 1};
    }
    case Constraint::none: break;
  }
  return {1 + x, x};
}

/// Loops over coordinates as the space of the kernel has them: one host thread, or the lanes of a
/// team. (A host space would allocate scratch for its first team.)
struct OneThread {};

template <class F>
KOKKOS_FUNCTION double sum_over(OneThread, int n, F const& f) {
  double sum = 0;
  for (int d = 0; d < n; ++d) sum += f(d);
  return sum;
}

template <class F>
KOKKOS_FUNCTION double max_over(OneThread, int n, F const& f) {
  double largest = 0;
  for (int d = 0; d < n; ++d)
    if (f(d) > largest) largest = f(d);
  return largest;
}

template <class F>
KOKKOS_FUNCTION void for_each(OneThread, int n, F const& f) {
  for (int d = 0; d < n; ++d) f(d);
}

template <class F>
KOKKOS_FUNCTION void once(OneThread, F const& f) {
  f();
}

template <class F>
KOKKOS_FUNCTION void once_per_team(OneThread, F const& f) {
  f();
}

/// Calls f(0) to f(n - 1), each for all lanes of some thread of the team.
template <class F>
KOKKOS_FUNCTION void for_each_sum(OneThread, int n, F const& f) {
  for (int i = 0; i < n; ++i) f(i);
}

template <class Team, class F>
KOKKOS_FUNCTION double sum_over(Team const& team, int n, F const& f) {
  double sum = 0;
  Kokkos::parallel_reduce(
      Kokkos::ThreadVectorRange(team, n), [&](int d, double& part) { part += f(d); }, sum);
  return sum;
}

template <class Team, class F>
KOKKOS_FUNCTION double max_over(Team const& team, int n, F const& f) {
  double largest = 0;
  Kokkos::parallel_reduce(
      Kokkos::ThreadVectorRange(team, n),
      [&](int d, double& m) {
        if (f(d) > m) m = f(d);
      },
      Kokkos::Max<double>(largest));
  return largest > 0 ? largest : 0;
}

template <class Team, class F>
KOKKOS_FUNCTION void for_each(Team const& team, int n, F const& f) {
  Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, n), f);
}

template <class Team, class F>
KOKKOS_FUNCTION void for_each_sum(Team const& team, int n, F const& f) {
  Kokkos::parallel_for(Kokkos::TeamThreadRange(team, n), f);
}

template <class Team, class F>
KOKKOS_FUNCTION void once(Team const& team, F const& f) {
  Kokkos::single(Kokkos::PerThread(team), f);
}

template <class Team, class F>
KOKKOS_FUNCTION void once_per_team(Team const& team, F const& f) {
  if (team.team_rank() == 0) Kokkos::single(Kokkos::PerThread(team), f);
}

/// u_hat, s and the packed w, b of layer l.
template <class Compute, class Parameter>
struct PrepareLayers {
  PlanarCoefficients<Compute> c;
  Constraint constraint;
  StridedMatrix<Parameter const> w, u;
  StridedVector<Parameter const> b;

  KOKKOS_FUNCTION double w_at(int l, int d) const { return w.data[l * w.stride0 + d * w.stride1]; }
  KOKKOS_FUNCTION double u_at(int l, int d) const { return u.data[l * u.stride0 + d * u.stride1]; }

  template <class Lanes>
  KOKKOS_FUNCTION void prepare(Lanes const& lanes, int l) const {
    // |w|^2 of a tiny w underflows; the largest |w_d| scales it to order one. (A NaN shows in the
    // sums.)
    double const largest = max_over(lanes, c.dim, [&](int d) { return Kokkos::abs(w_at(l, d)); });
    double const inverse = largest > 0 ? 1 / largest : 1.0;
    double const scale   = Kokkos::isfinite(inverse) && inverse > 0 ? inverse : 1.0;
    double const w_dot_u = sum_over(lanes, c.dim, [&](int d) { return w_at(l, d) * u_at(l, d); });
    double const w_dot_w = sum_over(lanes, c.dim, [&](int d) {
      double const v = w_at(l, d) * scale;
      return v * v;
    });

    // w = 0: the layer is the shift u h(b), its determinant one; such a layer gets no u_hat.
    bool const shift      = w_dot_w == 0;
    Determinant const det = shift ? Determinant{1, 0} : constrained(constraint, w_dot_u);
    bool const straight   = shift || constraint == Constraint::none;
    double const along_w  = straight ? 0.0 : (det.s_minus_1 - w_dot_u) / w_dot_w * scale;

    for_each(lanes, c.padded_dim, [&](int d) {
      bool const inside      = d < c.dim;
      double const wd        = inside ? w_at(l, d) : 0.0;
      double const ud        = inside ? u_at(l, d) : 0.0;
      c.w[c.index(l, d)]     = Compute(wd);
      c.u_hat[c.index(l, d)] = Compute(straight ? ud : ud + along_w * (wd * scale));
    });
    once(lanes, [&]() {
      c.b[l]         = Compute(b.data[l * b.stride0]);
      c.s[l]         = Compute(det.s);
      c.s_minus_1[l] = Compute(det.s_minus_1);
    });
  }
};

/// w_i . u_hat_j for the other layers j of the group of i, summed in double; zero past the last
/// layer.
template <class Compute>
struct PrepareGram {
  PlanarCoefficients<Compute> c;

  template <class Lanes>
  KOKKOS_FUNCTION void prepare(Lanes const& lanes, int i) const {
    int const first = i - i % c.gram_group;
    for_each_sum(lanes, c.gram_group, [&](int k) {
      int const j = first + k;
      if (j == i) return;
      double const sum = j < c.layers ? dot(lanes, i, j) : 0.0;
      once(lanes, [&]() { c.gram[std::size_t(i) * c.gram_group + k] = Compute(sum); });
    });
  }

  template <class Lanes>
  KOKKOS_FUNCTION double dot(Lanes const& lanes, int i, int j) const {
    return sum_over(lanes, c.dim, [&](int d) {
      return double(c.w[c.index(i, d)]) * double(c.u_hat[c.index(j, d)]);
    });
  }
};

/// Runs work.prepare for every layer, on the space's own kind of lanes: one host thread, or a team
/// of `threads` threads of 32 lanes.
template <class Work>
struct EachLayer {
  Work work;

  void operator()(int l) const { work.prepare(OneThread{}, l); }

  template <class Team>
  KOKKOS_FUNCTION void operator()(Team const& team) const {
    work.prepare(team, team.league_rank());
  }
};

template <class ExecutionSpace, class Work>
void for_each_layer(ExecutionSpace const& exec, char const* label, int layers, int threads,
                    Work const& work) {
  if constexpr (is_host_space<ExecutionSpace>)
    Kokkos::parallel_for(
        label, Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<int>>(exec, 0, layers),
        EachLayer<Work>{work});
  else
    Kokkos::parallel_for(label, Kokkos::TeamPolicy<ExecutionSpace>(exec, layers, threads, 32),
                         EachLayer<Work>{work});
}

/// Where the running product of determinants must be turned into a logarithm. A determinant lies
/// between min(1, s) and max(1, s); the product of those bounds must stay a normal number.
template <class Compute>
struct PrepareLogarithms {
  PlanarCoefficients<Compute> c;

  KOKKOS_FUNCTION void operator()() const {
    constexpr double range = sizeof(Compute) == 4 ? 110 : 1000;
    double high            = 0;  // log2 of the largest the product can be
    double low             = 0;  // log2 of the smallest
    constexpr int together = 8;
    for (int first = 0; first < c.layers; first += together) {
      // A device waits for memory once for all of them.
      double bits[together];
      for (int k = 0; k < together; ++k) bits[k] = first + k < c.layers ? bound(c.s[first + k]) : 0;
      for (int k = 0; k < together && first + k < c.layers; ++k) {
        double const up = bits[k] > 0 ? bits[k] : 0, down = bits[k] < 0 ? bits[k] : 0;
        bool const with_last = high + up < range && low + down > -range;
        if (first + k > 0) c.take_log[first + k - 1] = with_last ? Compute(0) : Compute(1);
        high = (with_last ? high : 0) + up;
        low  = (with_last ? low : 0) + down;
      }
    }
    if (c.layers > 0) c.take_log[c.layers - 1] = Compute(1);
  }

  KOKKOS_FUNCTION static double bound(double s) {
    // A determinant of unknown sign can vanish: it gets a logarithm of its own, as does a NaN.
    constexpr double beyond = 1e9;
    if (!(s > 0)) return -beyond;
    return Kokkos::log2(s);
  }
};

/// Both, in one launch: the logarithms come behind the last layer.
template <class Compute>
struct PrepareGramAndLogarithms {
  PrepareGram<Compute> gram;
  PrepareLogarithms<Compute> logarithms;

  template <class Lanes>
  KOKKOS_FUNCTION void prepare(Lanes const& lanes, int i) const {
    if (i == gram.c.layers)
      once_per_team(lanes, logarithms);
    else if (gram.c.gram_group > 1)
      gram.prepare(lanes, i);
  }
};

/// The smallest number of a layer whose determinant is not positive wherever its row may lie.
template <class Compute>
struct FindSingular {
  PlanarCoefficients<Compute> c;

  KOKKOS_FUNCTION void operator()(int l, int& first) const {
    Compute const s     = c.s[l];
    bool const positive = s > 0 && Kokkos::isfinite(s) &&
                          (c.activation == Activation::tanh ||
                           (Compute(1) - c.negative_slope) + c.negative_slope * s > 0);
    if (!positive && l < first) first = l;
  }
};

template <class Compute>
struct ReadScalar {
  Compute const* from;

  KOKKOS_FUNCTION void operator()(int, double& sum) const { sum += double(*from); }
};

}  // namespace

template <class Compute>
std::size_t storage_size(PlanarCoefficients<Compute> const& c) {
  return 2 * matrix_size(c) + 4 * vector_size(c) + gram_size(c) + parts_size(c);
}

template <class Compute>
void lay_out(PlanarCoefficients<Compute>& c, int group, Compute* storage,
             PlanarOptions const& options) {
  c.group           = group;
  c.gram_group      = group > 1 ? group : device_gram_group;
  c.padded_dim      = (c.dim + 3) / 4 * 4;
  c.activation      = options.activation;
  c.may_be_singular = options.constraint == Constraint::none;
  c.negative_slope  = Compute(options.negative_slope);
  c.log_det_epsilon = Compute(options.log_det_epsilon);
  if (storage == nullptr) return;
  auto const take = [&storage](std::size_t n) {
    Compute* const start = storage;
    storage += n;
    return start;
  };
  c.w         = take(matrix_size(c));
  c.u_hat     = take(matrix_size(c));
  c.b         = take(vector_size(c));
  c.s         = take(vector_size(c));
  c.s_minus_1 = take(vector_size(c));
  c.take_log  = take(vector_size(c));
  c.gram      = take(gram_size(c));
  c.parts     = parts_size(c) > 0 ? take(parts_size(c)) : nullptr;
}

template <class ExecutionSpace, class Compute, class Parameter>
void planar_prepare(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& c,
                    Constraint constraint, StridedMatrix<Parameter const> w,
                    StridedMatrix<Parameter const> u, StridedVector<Parameter const> b) {
  if (c.layers == 0) return;
  for_each_layer(exec, "meander::planar::prepare[layers]", c.layers, 1,
                 PrepareLayers<Compute, Parameter>{c, constraint, w, u, b});
  for_each_layer(exec, "meander::planar::prepare[gram]", c.layers + 1, 16,
                 PrepareGramAndLogarithms<Compute>{{c}, {c}});
#if defined(KOKKOS_ENABLE_CUDA)
  if constexpr (!is_host_space<ExecutionSpace> && std::is_same_v<Compute, float>) {
    if (c.parts == nullptr) return;
    device::PrepareTensor const prepare(c);
    Kokkos::parallel_for("meander::planar::prepare[tensor]",
                         Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(
                             exec, 0, prepare.shares()),
                         prepare);
  }
#endif
}

template <class ExecutionSpace, class Compute>
SingularLayer planar_find_singular(ExecutionSpace const& exec,
                                   PlanarCoefficients<Compute> const& c) {
  SingularLayer found{c.layers, 0};
  if (c.layers == 0) return found;
  int first = c.layers;
  if constexpr (is_host_space<ExecutionSpace>) {
    // A reduction would allocate scratch for the instance.
    exec.fence("meander::planar::prepare: is there a singular layer?");
    for (int l = 0; l < c.layers; ++l) FindSingular<Compute>{c}(l, first);
    if (first < c.layers) found = {first, double(c.s_minus_1[first])};
  } else {
    using Range = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<int>>;
    Kokkos::parallel_reduce("meander::planar::prepare[find singular]", Range(exec, 0, c.layers),
                            FindSingular<Compute>{c}, Kokkos::Min<int>(first));
    exec.fence("meander::planar::prepare: is there a singular layer?");
    if (first >= c.layers) return found;  // Min's identity is more than any number of layers
    found.layer = first;
    Kokkos::parallel_reduce("meander::planar::prepare[read singular]", Range(exec, 0, 1),
                            ReadScalar<Compute>{c.s_minus_1 + first}, found.w_dot_u);
    exec.fence("meander::planar::prepare: the singular layer");
  }
  return found;
}

template void lay_out(PlanarCoefficients<float>&, int, float*, PlanarOptions const&);
template void lay_out(PlanarCoefficients<double>&, int, double*, PlanarOptions const&);
template std::size_t storage_size(PlanarCoefficients<float> const&);
template std::size_t storage_size(PlanarCoefficients<double> const&);

#define MEANDER_PREPARE(Space, Compute, Parameter)                    \
  template void planar_prepare<Space, Compute, Parameter>(            \
      Space const&, PlanarCoefficients<Compute> const&, Constraint,   \
      StridedMatrix<Parameter const>, StridedMatrix<Parameter const>, \
      StridedVector<Parameter const>);
#define MEANDER_FIND_SINGULAR(Space, Compute)                               \
  template SingularLayer planar_find_singular<Space, Compute>(Space const&, \
                                                              PlanarCoefficients<Compute> const&);
#define MEANDER_PREPARE_ALL(Space)       \
  MEANDER_PREPARE(Space, float, float)   \
  MEANDER_PREPARE(Space, float, double)  \
  MEANDER_PREPARE(Space, double, float)  \
  MEANDER_PREPARE(Space, double, double) \
  MEANDER_FIND_SINGULAR(Space, float)    \
  MEANDER_FIND_SINGULAR(Space, double)
MEANDER_FOR_EACH_SPACE(MEANDER_PREPARE_ALL)

}  // namespace meander::impl
