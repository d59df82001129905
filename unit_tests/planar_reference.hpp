// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include <meander/planar_options.hpp>

/// Planar layers the slow and obvious way, one row at a time in long double, without Kokkos.
namespace reference {

using real = long double;

/// Unconstrained parameters of L layers on R^D, row-major.
struct Stack {
  int layers = 0;
  int dim    = 0;
  meander::PlanarOptions options;
  std::vector<double> w, u, b;
};

struct Row {
  std::vector<real> y;
  real log_det = 0;
};

inline real softplus(real x) { return std::max<real>(x, 0) + std::log1p(std::exp(-std::abs(x))); }

/// w.u_hat as the constraint makes it of w.u.
inline real constrained(meander::Constraint constraint, real w_dot_u) {
  switch (constraint) {
    case meander::Constraint::softplus: return softplus(w_dot_u) - 1;
    case meander::Constraint::log_softplus: return std::log1p(softplus(w_dot_u)) - 1;
    case meander::Constraint::none: break;
  }
  return w_dot_u;
}

/// s = 1 + w.u_hat, to full relative accuracy where it is tiny.
inline real determinant_at_slope_one(meander::Constraint constraint, real w_dot_u) {
  switch (constraint) {
    case meander::Constraint::softplus: return softplus(w_dot_u);
    case meander::Constraint::log_softplus: return std::log1p(softplus(w_dot_u));
    case meander::Constraint::none: break;
  }
  return 1 + w_dot_u;
}

struct Activated {
  real h, slope, one_minus_slope;
};

inline Activated activate(meander::PlanarOptions const& options, real a) {
  if (options.activation == meander::Activation::leaky_relu) {
    real const alpha = options.negative_slope;
    return a < 0 ? Activated{alpha * a, alpha, 1 - alpha} : Activated{a, 1, 0};
  }
  real const e = std::exp(-2 * std::abs(a));
  real const h = std::tanh(a);
  return {h, 4 * e / ((1 + e) * (1 + e)), h * h};
}

inline real log_of_determinant(meander::PlanarOptions const& options, Activated const& v, real s,
                               real s_minus_1) {
  real const excess  = v.slope * s_minus_1;
  real const epsilon = options.log_det_epsilon;
  if (excess > -0.5L) return std::log1p(excess + epsilon);
  return std::log(std::abs(v.one_minus_slope + v.slope * s) + epsilon);
}

/// The row z through the stack. With `noise` > 0 every sum is off by a random part of noise times
/// the size of its terms, as in an arithmetic with that rounding error: the yardstick of the tests.
template <class T>
Row forward(Stack const& stack, std::vector<T> const& z, real noise = 0, unsigned seed = 0) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  auto const off = [&] { return noise == 0 ? real(0) : noise * real(uniform(generator)); };

  Row row{std::vector<real>(z.begin(), z.end()), 0};
  for (int l = 0; l < stack.layers; ++l) {
    double const* w = &stack.w[std::size_t(l) * stack.dim];
    double const* u = &stack.u[std::size_t(l) * stack.dim];
    real w_dot_u = 0, w_dot_w = 0, a = stack.b[l], size = std::abs(stack.b[l]);
    for (int d = 0; d < stack.dim; ++d) {
      w_dot_u += real(w[d]) * u[d];
      w_dot_w += real(w[d]) * w[d];
      a += w[d] * row.y[d];
      size += std::abs(w[d] * row.y[d]);
    }
    a += off() * size;
    bool const shift     = w_dot_w == 0;
    real const s_minus_1 = shift ? 0 : constrained(stack.options.constraint, w_dot_u);
    real const s         = shift ? 1 : determinant_at_slope_one(stack.options.constraint, w_dot_u);
    real const along_w   = shift ? 0 : (s_minus_1 - w_dot_u) / w_dot_w;
    Activated const v    = activate(stack.options, a);
    for (int d = 0; d < stack.dim; ++d) {
      real const step = (u[d] + along_w * w[d]) * v.h;
      row.y[d] += step + off() * (std::abs(row.y[d]) + std::abs(step));
    }
    row.log_det += log_of_determinant(stack.options, v, s, s_minus_1);
    row.log_det += off() * (1 + std::abs(row.log_det));
  }
  return row;
}

/// x - tanh(x) for x >= 0 without cancellation: tanh(x) (x coth(x) - 1), by the continued fraction
/// of the latter.
inline real minus_tanh(real x) {
  if (x > 1) return x - std::tanh(x);
  real fraction = 0;
  for (int k = 41; k >= 3; k -= 2) fraction = x * x / (k + fraction);
  return std::tanh(x) * fraction;
}

/// The root of beta + m tanh(beta) = a, m = s - 1 > -1, by bisection.
inline real tanh_root(real s, real m, real a) {
  real const target = std::abs(a);
  real low = 0, high = target + std::max<real>(-m, 0);
  for (int i = 0; i < 20000 && high > low; ++i) {
    real const middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    real const t = std::tanh(middle);
    // s is what is accurate for a small determinant, m for s near one.
    real const excess =
        s < 0.5L ? (minus_tanh(middle) + s * t) - target : (middle - target) + m * t;
    (excess < 0 ? low : high) = middle;
  }
  return std::copysign(low + (high - low) / 2, a);
}

struct InverseRow {
  std::vector<real> z;
  real log_det = 0;
  /// Product of bounds of the layers' inverse Jacobians, |I - u_hat h' w^T / det|: by how much the
  /// inverse magnifies a change of y at most.
  real condition = 1;
  /// The least |a| of a layer, relative to its terms: where leaky_relu has its kink, and its
  /// log-det a jump.
  real nearest_kink = std::numeric_limits<real>::infinity();
};

/// The row y back through the stack. `noise` as in forward.
template <class T>
InverseRow inverse(Stack const& stack, std::vector<T> const& y, real noise = 0, unsigned seed = 0) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  auto const off = [&] { return noise == 0 ? real(0) : noise * real(uniform(generator)); };

  InverseRow row;
  row.z.assign(y.begin(), y.end());
  for (int l = stack.layers; l-- > 0;) {
    double const* w = &stack.w[std::size_t(l) * stack.dim];
    double const* u = &stack.u[std::size_t(l) * stack.dim];
    real w_dot_u = 0, w_dot_w = 0, a = stack.b[l], size = std::abs(stack.b[l]);
    for (int d = 0; d < stack.dim; ++d) {
      w_dot_u += real(w[d]) * u[d];
      w_dot_w += real(w[d]) * w[d];
      a += w[d] * row.z[d];
      size += std::abs(w[d] * row.z[d]);
    }
    bool const shift     = w_dot_w == 0;
    real const s_minus_1 = shift ? 0 : constrained(stack.options.constraint, w_dot_u);
    real const s         = shift ? 1 : determinant_at_slope_one(stack.options.constraint, w_dot_u);
    real const along_w   = shift ? 0 : (s_minus_1 - w_dot_u) / w_dot_w;
    a += off() * size;  // for m > 0, m h is less than a; for m < 0 it is s that counts
    row.nearest_kink = std::min(row.nearest_kink, std::abs(a) / size);
    real before      = 0;
    if (stack.options.activation == meander::Activation::tanh) {
      before = tanh_root(s, s_minus_1, a);
    } else {
      real const alpha = stack.options.negative_slope;
      before           = a / (a < 0 ? (1 - alpha) + alpha * s : s);
    }
    Activated const v  = activate(stack.options, before);
    real const det     = v.one_minus_slope + v.slope * s;
    real u_hat_squared = 0;
    for (int d = 0; d < stack.dim; ++d) {
      real const u_hat = u[d] + along_w * w[d];
      real const step  = u_hat * v.h;
      u_hat_squared += u_hat * u_hat;
      row.z[d] += -step + off() * (std::abs(row.z[d]) + std::abs(step));
    }
    row.condition *= 1 + v.slope * std::sqrt(w_dot_w * u_hat_squared) / det;
    row.log_det -= log_of_determinant(stack.options, v, s, s_minus_1);
    row.log_det += off() * (1 + std::abs(row.log_det));
  }
  return row;
}

/// A stack whose layers bend rows by an order-one amount but can be followed for hundreds of
/// layers.
inline Stack random_stack(int layers, int dim, meander::PlanarOptions const& options, unsigned seed,
                          double size = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  Stack stack{layers, dim, options, {}, {}, {}};
  double const scale = size * std::sqrt(3.0 / dim);
  // float values, so that every type pair sees the same numbers.
  auto const draw = [&](double by) { return double(float(by * uniform(generator))); };
  for (int i = 0; i < layers * dim; ++i) stack.w.push_back(draw(scale));
  for (int i = 0; i < layers * dim; ++i) stack.u.push_back(draw(scale));
  for (int l = 0; l < layers; ++l) stack.b.push_back(draw(1));
  return stack;
}

}  // namespace reference
