// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <utility>
#include <vector>

#include <meander/direction.hpp>

#include "planar_reference.hpp"

/// Flows the slow and obvious way, one row at a time in long double, without Kokkos.
namespace reference {

/// A base and stacks of planar layers, applied in order. No loc and log_scale: N(0, I).
struct Flow {
  meander::Direction direction = meander::Direction::generative;
  std::vector<Stack> stacks;
  std::vector<double> loc, log_scale;

  int dim() const { return stacks.empty() ? int(loc.size()) : stacks.front().dim; }
};

/// From latent to data rows (to_data) or back, with the log-det of that map.
template <class T>
Row map(Flow const& flow, bool to_data, std::vector<T> const& from, real noise = 0,
        unsigned seed = 0) {
  Row row{std::vector<real>(from.begin(), from.end()), 0};
  bool const as_fitted = to_data == (flow.direction == meander::Direction::generative);
  int const count      = int(flow.stacks.size());
  for (int i = 0; i < count; ++i) {
    Stack const& stack = flow.stacks[std::size_t(as_fitted ? i : count - 1 - i)];
    unsigned const own = seed + unsigned(i);
    Row next;
    if (as_fitted) {
      next = forward(stack, row.y, noise, own);
    } else {
      InverseRow back = inverse(stack, row.y, noise, own);
      next            = {std::move(back.z), back.log_det};
    }
    row.y = std::move(next.y);
    row.log_det += next.log_det;
  }
  return row;
}

/// The log-density of a latent row.
inline real log_base(Flow const& flow, std::vector<real> const& z) {
  static real const log_two_pi = std::log(2 * std::acos(real(-1)));
  real sum                     = 0;
  for (std::size_t d = 0; d < z.size(); ++d) {
    real const log_scale = flow.log_scale.empty() ? 0 : flow.log_scale[d];
    real const n         = flow.loc.empty() ? z[d] : (z[d] - flow.loc[d]) * std::exp(-log_scale);
    sum -= n * n / 2 + log_scale + log_two_pi / 2;
  }
  return sum;
}

template <class T>
real log_prob(Flow const& flow, std::vector<T> const& x, real noise = 0, unsigned seed = 0) {
  Row const row = map(flow, false, x, noise, seed);
  return log_base(flow, row.y) + row.log_det;
}

/// What a correct computation with rounding error `noise` may be off by: `error(seed)` is how far
/// a noisy one is.
template <class Error>
double tolerance_of(Error const& error) {
  constexpr int draws     = 3;
  constexpr double factor = 6;
  double worst            = 0;
  for (int i = 0; i < draws; ++i) worst = std::max(worst, double(std::abs(error(31u + 100u * i))));
  return factor * worst;
}

inline Flow random_flow(meander::Direction direction, std::vector<Stack> stacks, bool diagonal,
                        unsigned seed) {
  Flow flow{direction, std::move(stacks), {}, {}};
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int d = 0; diagonal && d < flow.dim(); ++d) {
    flow.loc.push_back(uniform(generator));
    flow.log_scale.push_back(uniform(generator));
  }
  return flow;
}

}  // namespace reference
