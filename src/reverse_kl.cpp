// SPDX-License-Identifier: BSD-3-Clause
#include <meander/impl/reverse_kl.hpp>

#include <cmath>
#include <cstdint>

#include <Kokkos_Core.hpp>

#include <meander/impl/planar_prepare.hpp>

#include "instantiate.hpp"
#include "refuse.hpp"
#include "sum_order.hpp"

namespace meander::impl {

namespace {

/// Element i of the rows, taken in the order in which they lie in memory.
template <class Compute>
struct AddRows {
  StridedMatrix<Compute const> score;
  StridedMatrix<Compute> grad;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    bool const by_rows     = grad.stride1 == 1;
    std::int64_t const run = by_rows ? grad.extent1 : grad.extent0;
    std::int64_t const row = by_rows ? i / run : i % run, d = by_rows ? i % run : i / run;
    grad.data[row * grad.stride0 + d * grad.stride1] +=
        score.data[row * score.stride0 + d * score.stride1];
  }
};

struct SumParts {
  double const* values;
  SumOrder order;
  double* parts;

  KOKKOS_FUNCTION void operator()(std::int64_t part) const {
    double sum = 0;
    for (std::int64_t k = 0; k < order.count(part); ++k) sum += values[order.at(part, k)];
    parts[part] = sum;
  }
};

/// The last few, on one thread or the lanes of one team.
struct Mean {
  double const* values;
  std::int64_t count;
  double* mean;
  double divisor;

  void operator()(std::int64_t) const {
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += values[i];
    *mean = sum / divisor;
  }

  template <class Team>
  KOKKOS_FUNCTION void operator()(Team const& team) const {
    double sum = 0;
    Kokkos::parallel_reduce(
        Kokkos::ThreadVectorRange(team, count),
        [&](std::int64_t i, double& part) { part += values[i]; }, sum);
    Kokkos::single(Kokkos::PerThread(team), [&]() { *mean = sum / divisor; });
  }
};

}  // namespace

void check_reverse_kl(std::int64_t batch, std::int64_t max_batch, double beta) {
  if (batch < 1 || batch > max_batch)
    refuse("meander::reverse_kl", "argument batch is ", batch, ", expected 1 to ", max_batch,
           " (the rows the workspace is for)");
  if (!std::isfinite(beta))
    refuse("meander::reverse_kl", "options.beta is ", beta, ", expected a finite number");
}

template <class ExecutionSpace, class Compute>
void add_rows(ExecutionSpace const& exec, StridedMatrix<Compute const> const& score,
              StridedMatrix<Compute> const& grad) {
  Kokkos::parallel_for("meander::reverse_kl[add score]",
                       Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(
                           exec, 0, grad.extent0 * grad.extent1),
                       AddRows<Compute>{score, grad});
}

template <class ExecutionSpace>
void mean_of_rows(ExecutionSpace const& exec, double const* values, std::int64_t rows,
                  double* parts,
                  double* mean) {  // NOLINT(readability-non-const-parameter): a kernel writes it
  using Range        = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>;
  char const* label  = "meander::reverse_kl[mean]";
  auto const divisor = double(rows);
  if (rows > mean_parts) {
    SumOrder const order(rows, mean_parts, is_host_space<ExecutionSpace>);
    Kokkos::parallel_for("meander::reverse_kl[sums]", Range(exec, 0, order.parts),
                         SumParts{values, order, parts});
    values = parts;
    rows   = order.parts;
  }
  Mean const work{values, rows, mean, divisor};
  if constexpr (is_host_space<ExecutionSpace>)
    Kokkos::parallel_for(label, Range(exec, 0, 1), work);
  else
    Kokkos::parallel_for(label, Kokkos::TeamPolicy<ExecutionSpace>(exec, 1, 1, 32), work);
}

#define MEANDER_ADD_ROWS(Space, Compute)                                                    \
  template void add_rows<Space, Compute>(Space const&, StridedMatrix<Compute const> const&, \
                                         StridedMatrix<Compute> const&);
#define MEANDER_REVERSE_KL(Space) \
  MEANDER_ADD_ROWS(Space, float)  \
  MEANDER_ADD_ROWS(Space, double) \
  template void mean_of_rows<Space>(Space const&, double const*, std::int64_t, double*, double*);
MEANDER_FOR_EACH_SPACE(MEANDER_REVERSE_KL)

}  // namespace meander::impl
