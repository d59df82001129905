// SPDX-License-Identifier: BSD-3-Clause
#include <meander/adam.hpp>

#include <cmath>
#include <cstdint>

#include <meander/impl/adam.hpp>
#include <meander/impl/planar_prepare.hpp>

#include "instantiate.hpp"
#include "refuse.hpp"

namespace meander {

void AdamOptions::check() const {
  auto const refuse_number = [](char const* name, double came, char const* expected) {
    impl::refuse("meander::AdamOptions", name, " is ", came, ", expected ", expected);
  };
  if (!(beta1 >= 0 && beta1 < 1)) refuse_number("beta1", beta1, "a number in [0, 1)");
  if (!(beta2 >= 0 && beta2 < 1)) refuse_number("beta2", beta2, "a number in [0, 1)");
  if (!(std::isfinite(epsilon) && epsilon > 0))
    refuse_number("epsilon", epsilon, "a finite number > 0");
  if (!(std::isfinite(weight_decay) && weight_decay >= 0))
    refuse_number("weight_decay", weight_decay, "a finite number >= 0");
  if (!(max_grad_norm > 0)) refuse_number("max_grad_norm", max_grad_norm, "a number > 0");
}

template <class ExecutionSpace>
AdamProgress Adam<ExecutionSpace>::progress(ExecutionSpace const& exec) const {
  double n[impl::adam_numbers];
  Kokkos::View<double*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged> const host(n,
                                                                               impl::adam_numbers);
  Kokkos::deep_copy(exec, host,
                    Kokkos::View<double*, memory_space, Kokkos::MemoryUnmanaged>(
                        state_.data(), impl::adam_numbers));
  exec.fence("meander::Adam::progress: the counts are about to be read");
  auto const count = [&](impl::AdamNumber i) { return static_cast<std::int64_t>(n[i]); };
  return {count(impl::adam_taken),   count(impl::adam_refused), count(impl::adam_undone),
          count(impl::adam_stalled), n[impl::adam_rate_factor], n[impl::adam_gradient_norm]};
}

namespace impl {

namespace {

/// How the numbers of a chunk are gone through: by one host thread, or by a team.
struct OneThread {
  template <class F>
  KOKKOS_FUNCTION double sum(std::int64_t begin, std::int64_t end, F const& f) const {
    // Several sums: one alone would wait for each addition.
    constexpr int lanes = 8;
    double part[lanes]  = {};
    std::int64_t i      = begin;
    for (; i + lanes <= end; i += lanes)
      for (int k = 0; k < lanes; ++k) part[k] += f(i + k);
    double sum = 0;
    for (; i < end; ++i) sum += f(i);
    for (double const p : part) sum += p;
    return sum;
  }
  template <class F>
  KOKKOS_FUNCTION void each(std::int64_t begin, std::int64_t end, F const& f) const {
    for (std::int64_t i = begin; i < end; ++i) f(i);
  }
  template <class F>
  KOKKOS_FUNCTION void once(F const& f) const {
    f();
  }
  KOKKOS_FUNCTION void barrier() const {}
};

template <class Team>
struct WholeTeam {
  Team const& team;

  template <class F>
  KOKKOS_FUNCTION double sum(std::int64_t begin, std::int64_t end, F const& f) const {
    double sum = 0;
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(team, begin, end),
        [&](std::int64_t i, double& part) { part += f(i); }, sum);
    return sum;
  }
  template <class F>
  KOKKOS_FUNCTION void each(std::int64_t begin, std::int64_t end, F const& f) const {
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, begin, end), f);
  }
  template <class F>
  KOKKOS_FUNCTION void once(F const& f) const {
    Kokkos::single(Kokkos::PerTeam(team), f);
  }
  KOKKOS_FUNCTION void barrier() const { team.team_barrier(); }
};

/// Fixes the order of summation of a team.
constexpr int team_size = 512;

/// Element i of a matrix, row by row.
template <class T>
KOKKOS_FUNCTION T& element(StridedMatrix<T> const& m, std::int64_t i) {
  if (m.stride1 == 1 && m.stride0 == m.extent1) return m.data[i];
  std::int64_t const row = i / m.extent1;
  return m.data[row * m.stride0 + (i - row * m.extent1) * m.stride1];
}

/// Parameter i in the order of AdamLayout.
template <class T>
KOKKOS_FUNCTION T& parameter(StridedMatrix<T> const& w, StridedMatrix<T> const& u,
                             StridedVector<T> const& b, std::int64_t i) {
  std::int64_t const matrix = w.extent0 * w.extent1;
  if (i < matrix) return element(w, i);
  if (i < 2 * matrix) return element(u, i - matrix);
  return b.data[(i - 2 * matrix) * b.stride0];
}

/// Kingma & Ba 2015, algorithm 1, with the bias corrections drawn together; Loshchilov & Hutter
/// 2019, algorithm 2, where decoupled.
template <class Parameter, class Gradient>
struct AdamWork {
  AdamCall<Parameter, Gradient> call;
  bool sums, updates;  ///< what this launch does

  void operator()(std::int64_t chunk) const { work(OneThread{}, chunk); }

  template <class Team>
  KOKKOS_FUNCTION void operator()(Team const& team) const {
    work(WholeTeam<Team>{team}, team.league_rank());
  }

  KOKKOS_FUNCTION double gradient(std::int64_t i) const {
    return parameter(call.grad_w, call.grad_u, call.grad_b, i);
  }

  template <class Lanes>
  KOKKOS_FUNCTION void work(Lanes const& lanes, std::int64_t chunk) const {
    AdamLayout const& at     = call.layout;
    std::int64_t const begin = chunk * AdamLayout::chunk;
    std::int64_t const end =
        begin + AdamLayout::chunk < at.count ? begin + AdamLayout::chunk : at.count;
    if (sums) {
      double const squares = lanes.sum(begin, end, [&](std::int64_t i) {
        double const g = gradient(i);
        return g * g;
      });
      lanes.once([&] {
        call.state[at.parts + chunk] = squares;
        // The update reads the counts here and writes them there: no team sees those of another.
        if (chunk == 0)
          for (int n = 0; n < adam_numbers; ++n)
            call.state[at.before + n] = call.state[at.numbers + n];
      });
    }
    if (sums && updates) lanes.barrier();
    if (updates) update(lanes, chunk, begin, end);
  }

  template <class Lanes>
  KOKKOS_FUNCTION void update(Lanes const& lanes, std::int64_t chunk, std::int64_t begin,
                              std::int64_t end) const {
    AdamLayout const& at       = call.layout;
    double const* const before = call.state + at.before;
    double squares             = 0;
    for (std::int64_t c = 0; c < at.chunks; ++c) squares += call.state[at.parts + c];
    bool const finite =
        Kokkos::isfinite(squares) && (call.loss == nullptr || Kokkos::isfinite(*call.loss));
    double const norm = Kokkos::sqrt(squares);
    if (finite)
      take(lanes, begin, end, before[adam_taken] + 1, norm);
    else if (before[adam_can_undo] != 0)
      undo(lanes, begin, end);
    if (chunk == 0) lanes.once([&] { count(finite, norm); });
  }

  template <class Lanes>
  KOKKOS_FUNCTION void take(Lanes const& lanes, std::int64_t begin, std::int64_t end, double t,
                            double norm) const {
    AdamLayout const& at = call.layout;
    AdamStep const& o    = call.options;
    double* const state  = call.state;
    // As torch.nn.utils.clip_grad_norm_ has it.
    double const clip  = norm + 1e-6 > o.max_grad_norm ? o.max_grad_norm / (norm + 1e-6) : 1.0;
    double const rate  = o.learning_rate * state[at.before + adam_rate_factor];
    double const step  = rate / (1 - Kokkos::pow(o.beta1, t));
    double const root  = Kokkos::sqrt(1 - Kokkos::pow(o.beta2, t));
    double const keep  = o.decoupled ? 1 - rate * o.weight_decay : 1.0;
    double const decay = o.decoupled ? 0.0 : o.weight_decay;
    lanes.each(begin, end, [&](std::int64_t i) {
      Parameter& p        = parameter(call.w, call.u, call.b, i);
      double const old    = p;
      double const m      = state[at.first + i];
      double const v      = state[at.second + i];
      double const g      = clip * gradient(i) + decay * old;
      double const first  = m + (1 - o.beta1) * (g - m);
      double const second = o.beta2 * v + (1 - o.beta2) * g * g;

      state[at.undo + i]        = old;
      state[at.undo_first + i]  = m;
      state[at.undo_second + i] = v;
      state[at.first + i]       = first;
      state[at.second + i]      = second;
      p = Parameter(keep * old - step * first / (Kokkos::sqrt(second) / root + o.epsilon));
    });
  }

  template <class Lanes>
  KOKKOS_FUNCTION void undo(Lanes const& lanes, std::int64_t begin, std::int64_t end) const {
    AdamLayout const& at = call.layout;
    double* const state  = call.state;
    lanes.each(begin, end, [&](std::int64_t i) {
      parameter(call.w, call.u, call.b, i) = Parameter(state[at.undo + i]);

      state[at.first + i]  = state[at.undo_first + i];
      state[at.second + i] = state[at.undo_second + i];
    });
  }

  KOKKOS_FUNCTION void count(bool taken, double norm) const {
    double const* const before = call.state + call.layout.before;
    double* const now          = call.state + call.layout.numbers;
    double const factor        = before[adam_rate_factor];
    now[adam_gradient_norm]    = norm;
    now[adam_stalled]          = before[adam_stalled] + 1;
    if (taken) {
      now[adam_taken]       = before[adam_taken] + 1;
      now[adam_can_undo]    = 1;
      now[adam_rate_factor] = 1.1 * factor < 1 ? 1.1 * factor : 1.0;
      if (now[adam_taken] > before[adam_most_taken]) {
        now[adam_most_taken] = now[adam_taken];
        now[adam_stalled]    = 0;
      }
      return;
    }
    now[adam_refused] = before[adam_refused] + 1;
    if (before[adam_can_undo] == 0) return;
    now[adam_undone]      = before[adam_undone] + 1;
    now[adam_taken]       = before[adam_taken] - 1;
    now[adam_can_undo]    = 0;
    now[adam_rate_factor] = 0.5 * factor;
  }
};

template <class ExecutionSpace, class Work>
void launch(ExecutionSpace const& exec, char const* label, std::int64_t chunks, Work const& work) {
  if constexpr (is_host_space<ExecutionSpace>)
    Kokkos::parallel_for(label,
                         Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>,
                                             Kokkos::Schedule<Kokkos::Static>>(exec, 0, chunks),
                         work);
  else
    Kokkos::parallel_for(
        label, Kokkos::TeamPolicy<ExecutionSpace>(exec, static_cast<int>(chunks), team_size, 1),
        work);
}

struct Reset {
  AdamLayout at;
  double* state;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    state[i] = i == at.numbers + adam_rate_factor ? 1.0 : 0.0;
  }
};

}  // namespace

void check_adam_extents(std::int64_t num_layers, std::int64_t dim) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max() / 2;
  if (num_layers < 0 || num_layers > most)
    refuse("meander::Adam", "argument num_layers is ", num_layers, ", expected 0 to ", most);
  if (dim < 1 || dim > most)
    refuse("meander::Adam", "argument dim is ", dim, ", expected 1 to ", most);
}

void check_adam_call(double learning_rate, Elements const (&all)[6], double const* loss) {
  char const* const function = "meander::Adam::step";
  if (!(std::isfinite(learning_rate) && learning_rate >= 0))
    refuse(function, "argument learning_rate is ", learning_rate,
           ", expected a finite number >= 0");
  constexpr char const* names[] = {
      "w", "u", "b", "grad_parameters.w", "grad_parameters.u", "grad_parameters.b"};
  constexpr int written = 3;
  for (int i = 0; i < written; ++i) {
    check_distinct(function, names[i], all[i]);
    for (int j = i + 1; j < 2 * written; ++j)
      check_disjoint(function, names[i], names[j], all[i], all[j]);
    if (loss != nullptr)
      check_disjoint(function, names[i], "loss", all[i],
                     elements(StridedVector<double const>{loss, 1, 1}));
  }
}

template <class ExecutionSpace, class Parameter, class Gradient>
void adam_step(ExecutionSpace const& exec, AdamCall<Parameter, Gradient> const& call) {
  using Work         = AdamWork<Parameter, Gradient>;
  auto const& layout = call.layout;
  if (layout.chunks == 0) return;
  if (layout.chunks == 1) {
    launch(exec, "meander::Adam::step", 1, Work{call, true, true});
  } else {
    launch(exec, "meander::Adam::step[norm]", layout.chunks, Work{call, true, false});
    launch(exec, "meander::Adam::step[update]", layout.chunks, Work{call, false, true});
  }
}

template <class ExecutionSpace>
void adam_reset(ExecutionSpace const& exec, AdamLayout const& layout, double* state) {
  Kokkos::parallel_for(
      "meander::Adam::reset",
      Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(exec, 0, layout.size),
      Reset{layout, state});
}

}  // namespace impl

#define MEANDER_ADAM_STEP(Space, Parameter, Gradient)        \
  template void impl::adam_step<Space, Parameter, Gradient>( \
      Space const&, impl::AdamCall<Parameter, Gradient> const&);
#define MEANDER_ADAM(Space)                                                              \
  template class Adam<Space>;                                                            \
  template void impl::adam_reset<Space>(Space const&, impl::AdamLayout const&, double*); \
  MEANDER_ADAM_STEP(Space, float, float)                                                 \
  MEANDER_ADAM_STEP(Space, float, double)                                                \
  MEANDER_ADAM_STEP(Space, double, float)                                                \
  MEANDER_ADAM_STEP(Space, double, double)
MEANDER_FOR_EACH_SPACE(MEANDER_ADAM)

}  // namespace meander
