// SPDX-License-Identifier: BSD-3-Clause
#include <meander/importance.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <Kokkos_Core.hpp>

#include <meander/impl/planar_prepare.hpp>

#include "instantiate.hpp"
#include "refuse.hpp"
#include "sum_order.hpp"

namespace meander::impl {

namespace {

/// Some weights, over the largest of them. Squares are kept about the mean: what a nearly constant
/// weight varies by would else be lost against what it is.
struct Weights {
  double largest = -Kokkos::Experimental::infinity_v<double>;  ///< its logarithm
  double count = 0, mean = 0, squares = 0;
};

constexpr std::int64_t most_parts = 4096;

template <class T>
struct WeighPart {
  StridedVector<T const> log_weights;
  SumOrder order;
  Weights* parts;

  KOKKOS_FUNCTION void operator()(std::int64_t part) const {
    std::int64_t const count = order.count(part);
    auto const log_weight    = [&](std::int64_t k) {
      return double(log_weights.data[order.at(part, k) * log_weights.stride0]);
    };
    Weights w;
    w.count  = double(count);
    bool nan = false;
    for (std::int64_t k = 0; k < count; ++k) {
      double const x = log_weight(k);
      nan            = nan || x != x;
      if (x > w.largest) w.largest = x;
    }
    if (nan || w.largest == Kokkos::Experimental::infinity_v<double>)
      w.largest = Kokkos::Experimental::quiet_NaN_v<double>;
    bool const all_zero = w.largest == -Kokkos::Experimental::infinity_v<double>;
    if (!all_zero) {
      double sum = 0;
      for (std::int64_t k = 0; k < count; ++k) sum += Kokkos::exp(log_weight(k) - w.largest);
      w.mean = sum / w.count;
      for (std::int64_t k = 0; k < count; ++k) {
        double const off = Kokkos::exp(log_weight(k) - w.largest) - w.mean;
        w.squares += off * off;
      }
    }
    parts[part] = w;
  }
};

/// Chan, Golub & LeVeque 1983: means and sums of squares about them, of two sets to one.
Weights merged(Weights const& a, Weights const& b) {
  Weights sum;
  sum.largest = std::isnan(a.largest) || std::isnan(b.largest)
                    ? std::numeric_limits<double>::quiet_NaN()
                    : std::max(a.largest, b.largest);
  sum.count   = a.count + b.count;
  if (std::isinf(sum.largest)) return sum;
  double const by_a = std::exp(a.largest - sum.largest), by_b = std::exp(b.largest - sum.largest);
  double const mean_a = a.mean * by_a, off = b.mean * by_b - mean_a;
  sum.mean    = mean_a + off * (b.count / sum.count);
  sum.squares = a.squares * by_a * by_a + b.squares * by_b * by_b +
                off * off * (a.count * b.count / sum.count);
  return sum;
}

ImportanceEstimate estimate_of(Weights const& w, std::int64_t rows) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  ImportanceEstimate result;
  result.rows = rows;
  if (w.largest == -infinity) {
    result.log_z       = -infinity;
    result.log_z_error = infinity;
    return result;
  }
  // The square of the weights' relative standard deviation, of the sample itself.
  double const spread          = w.squares / w.count / (w.mean * w.mean);
  result.effective_fraction    = 1 / (1 + spread);
  result.effective_sample_size = w.count * result.effective_fraction;
  result.log_z                 = w.largest + std::log(w.mean);
  result.log_z_error           = rows > 1 ? std::sqrt(spread / (w.count - 1)) : infinity;
  result.largest_fraction      = 1 / (w.mean * w.count);
  if (std::isnan(w.largest)) result.log_z_error = w.largest;
  return result;
}

}  // namespace

template <class ExecutionSpace, class T>
ImportanceEstimate importance_estimate(ExecutionSpace const& exec,
                                       StridedVector<T const> const& log_weights) {
  std::int64_t const rows = log_weights.extent0;
  if (rows == 0)
    refuse("meander::importance_estimate",
           "argument log_weights has no rows, expected at least one: there is no mean of none");
  SumOrder const order(rows, most_parts, is_host_space<ExecutionSpace>);
  Kokkos::View<Weights*, typename ExecutionSpace::memory_space> const parts(
      Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, "meander::importance_estimate::parts"),
      order.parts);
  Kokkos::parallel_for(
      "meander::importance_estimate[parts]",
      Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(exec, 0, order.parts),
      WeighPart<T>{log_weights, order, parts.data()});
  auto const host = Kokkos::create_mirror_view(
      Kokkos::view_alloc(Kokkos::HostSpace{}, Kokkos::WithoutInitializing), parts);
  Kokkos::deep_copy(exec, host, parts);
  exec.fence("meander::importance_estimate");
  Weights all = host(0);
  for (std::int64_t i = 1; i < order.parts; ++i) all = merged(all, host(i));
  return estimate_of(all, rows);
}

#define MEANDER_IMPORTANCE(Space)                                 \
  template ImportanceEstimate importance_estimate<Space, float>(  \
      Space const&, StridedVector<float const> const&);           \
  template ImportanceEstimate importance_estimate<Space, double>( \
      Space const&, StridedVector<double const> const&);
MEANDER_FOR_EACH_SPACE(MEANDER_IMPORTANCE)

}  // namespace meander::impl
