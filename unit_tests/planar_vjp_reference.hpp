// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include <meander/planar_options.hpp>

#include "planar_reference.hpp"

/// The gradients of planar layers by a slow chain rule in long double, which knows neither Kokkos
/// nor the Gram form.
namespace reference {

/// The gradients of one row, or summed over rows, with the sizes of the terms they were summed
/// from.
struct Gradients {
  std::vector<real> z, w, u, b;
  std::vector<real> size_z, size_w, size_u, size_b;

  explicit Gradients(Stack const& stack)
      : z(stack.dim),
        w(stack.w.size()),
        u(w.size()),
        b(stack.layers),
        size_z(stack.dim),
        size_w(w.size()),
        size_u(w.size()),
        size_b(stack.layers) {}
};

inline real softplus_slope(real x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

/// d log s / dx and ds/dx - 1 of s = 1 + w.u_hat as a function of x = w.u.
struct Slopes {
  real of_log, minus_1, scale;
};

inline Slopes slopes(meander::Constraint constraint, real x) {
  real const s = determinant_at_slope_one(constraint, x);
  switch (constraint) {
    case meander::Constraint::softplus: return {softplus_slope(x) / s, -softplus_slope(-x), s};
    case meander::Constraint::log_softplus: {
      real const slope = softplus_slope(x) / (1 + softplus(x));
      return {slope / s, slope - 1, s};
    }
    case meander::Constraint::none: break;
  }
  return {1, 0, 1};
}

/// The layers' inputs and scalars of one row.
struct Tape {
  struct Layer {
    std::vector<real> z, u_hat;
    Activated v;
    real s, s_minus_1, x, along, norm, det;
    bool shift;
  };
  std::vector<Layer> layers;
};

inline Tape record(Stack const& stack, std::vector<real> z) {
  Tape tape;
  for (int l = 0; l < stack.layers; ++l) {
    double const* w = &stack.w[std::size_t(l) * stack.dim];
    double const* u = &stack.u[std::size_t(l) * stack.dim];
    Tape::Layer t;
    t.z = z;
    t.x = t.norm = 0;
    real a       = stack.b[l];
    for (int d = 0; d < stack.dim; ++d) {
      t.x += real(w[d]) * u[d];
      t.norm += real(w[d]) * w[d];
      a += w[d] * z[d];
    }
    t.shift     = t.norm == 0;
    t.s_minus_1 = t.shift ? 0 : constrained(stack.options.constraint, t.x);
    t.s         = t.shift ? 1 : determinant_at_slope_one(stack.options.constraint, t.x);
    t.along     = t.shift ? 0 : (t.s_minus_1 - t.x) / t.norm;
    t.v         = activate(stack.options, a);
    t.det       = t.v.one_minus_slope + t.v.slope * t.s;
    for (int d = 0; d < stack.dim; ++d) {
      t.u_hat.push_back(u[d] + t.along * w[d]);
      z[d] += t.u_hat[d] * t.v.h;
    }
    tape.layers.push_back(t);
  }
  return tape;
}

/// One layer's share: g behind the layer, and da, to the gradients.
inline void add_layer(Stack const& stack, Tape::Layer const& t, int l, std::vector<real> const& g,
                      real da, real by_det, Gradients& sum) {
  std::size_t const at = std::size_t(l) * stack.dim;
  double const* w      = &stack.w[at];
  double const* u      = &stack.u[at];
  bool const free      = stack.options.constraint == meander::Constraint::none;
  Slopes const slope   = slopes(stack.options.constraint, t.x);
  real const by_log_s  = by_det * t.v.slope * (t.shift ? 1 : slope.scale);
  real along = 0, size_along = 0;
  for (int d = 0; d < stack.dim; ++d) {
    along += t.v.h * g[d] * w[d];
    size_along += std::abs(t.v.h * g[d] * w[d]);
  }
  bool const bent = !free && !t.shift;
  real const k    = bent ? along / t.norm : 0;
  real const kk   = bent ? size_along / t.norm : 0;
  real const dx   = t.shift && !free ? 0 : by_log_s * slope.of_log + k * slope.minus_1;
  real const sdx =
      t.shift && !free ? 0 : std::abs(by_log_s * slope.of_log) + kk * std::abs(slope.minus_1);
  for (int d = 0; d < stack.dim; ++d) {
    real const direct_u = t.v.h * g[d];
    sum.u[at + d] += direct_u + dx * w[d];
    sum.size_u[at + d] += std::abs(direct_u) + std::abs(sdx * w[d]);
    if (t.shift && !free) continue;
    real const bend = bent ? t.along * (direct_u - 2 * k * w[d]) : 0;
    sum.w[at + d] += da * t.z[d] + dx * u[d] + bend;
    sum.size_w[at + d] +=
        std::abs(da * t.z[d]) + std::abs(sdx * u[d]) +
        (bent ? std::abs(t.along) * (std::abs(direct_u) + 2 * kk * std::abs(w[d])) : 0);
  }
  sum.b[l] += da;
  sum.size_b[l] += std::abs(da);
}

inline real by_determinant(Stack const& stack, Tape::Layer const& t, real grad_log_det) {
  real const epsilon = stack.options.log_det_epsilon;
  return grad_log_det == 0 ? 0 : grad_log_det / (t.det + (t.det < 0 ? -epsilon : epsilon));
}

/// da without the part that passes through the row: s'' of tanh is -2 tanh tanh'.
inline real from_slope(Stack const& stack, Tape::Layer const& t, real by_det) {
  return stack.options.activation == meander::Activation::tanh
             ? -2 * t.v.h * t.v.slope * t.s_minus_1 * by_det
             : 0;
}

/// Backpropagation through forward.
inline void add_vjp(Stack const& stack, std::vector<real> const& z, std::vector<real> g,
                    real grad_log_det, Gradients& sum) {
  Tape const tape = record(stack, z);
  std::vector<real> size(stack.dim);
  for (int d = 0; d < stack.dim; ++d) size[d] = std::abs(g[d]);
  for (int l = stack.layers; l-- > 0;) {
    auto const& t     = tape.layers[l];
    real const by_det = by_determinant(stack, t, grad_log_det);
    real along        = 0;
    for (int d = 0; d < stack.dim; ++d) along += g[d] * t.u_hat[d];
    real const da = t.v.slope * along + from_slope(stack, t, by_det);
    add_layer(stack, t, l, g, da, by_det, sum);
    for (int d = 0; d < stack.dim; ++d) {
      g[d] += da * stack.w[std::size_t(l) * stack.dim + d];
      size[d] += std::abs(da * stack.w[std::size_t(l) * stack.dim + d]);
    }
  }
  sum.z      = g;
  sum.size_z = size;
}

/// Implicit differentiation of inverse: the transposed Jacobian of each layer of forward, solved
/// for the gradient behind it by the formula of Sherman and Morrison.
inline void add_inverse_vjp(Stack const& stack, std::vector<real> const& y, std::vector<real> g,
                            real grad_log_det, Gradients& sum) {
  Tape const tape = record(stack, inverse(stack, y).z);
  std::vector<real> size(stack.dim);
  for (int d = 0; d < stack.dim; ++d) size[d] = std::abs(g[d]);
  Gradients minus(stack);
  for (int l = 0; l < stack.layers; ++l) {
    auto const& t     = tape.layers[l];
    double const* w   = &stack.w[std::size_t(l) * stack.dim];
    real const by_det = by_determinant(stack, t, grad_log_det);
    real const p      = from_slope(stack, t, by_det);
    real along        = 0;
    for (int d = 0; d < stack.dim; ++d) along += (g[d] - p * w[d]) * t.u_hat[d];
    real const da = t.v.slope * along / t.det + p;
    for (int d = 0; d < stack.dim; ++d) {
      g[d] -= da * w[d];
      size[d] += std::abs(da * w[d]);
    }
    add_layer(stack, t, l, g, da, by_det, minus);
  }
  sum.z      = g;
  sum.size_z = size;
  for (std::size_t i = 0; i < sum.w.size(); ++i) {
    sum.w[i] -= minus.w[i];
    sum.u[i] -= minus.u[i];
    sum.size_w[i] += minus.size_w[i];
    sum.size_u[i] += minus.size_u[i];
  }
  for (int l = 0; l < stack.layers; ++l) {
    sum.b[l] -= minus.b[l];
    sum.size_b[l] += minus.size_b[l];
  }
}

inline std::vector<real> as_real(auto const& values) { return {values.begin(), values.end()}; }

/// Fourth order central difference in the number that `set` sets to `at`.
template <class Set, class F>
real difference(double at, double step, Set const& set, F const& f) {
  auto const value = [&](int i) {
    set(at + i * step);
    return f();
  };
  real const result = ((value(-2) - value(2)) + 8 * (value(1) - value(-1))) / (12 * real(step));
  set(at);
  return result;
}

inline std::vector<meander::PlanarOptions> all_options() {
  std::vector<meander::PlanarOptions> all;
  for (meander::Activation const activation :
       {meander::Activation::tanh, meander::Activation::leaky_relu})
    for (meander::Constraint const constraint :
         {meander::Constraint::softplus, meander::Constraint::log_softplus,
          meander::Constraint::none})
      for (double const epsilon : {0.0, 1e-3}) {
        meander::PlanarOptions options;
        options.activation      = activation;
        options.constraint      = constraint;
        options.negative_slope  = 0.3;
        options.log_det_epsilon = epsilon;
        options.invertible      = true;
        all.push_back(options);
      }
  return all;
}

inline Stack stack_with(int layers, int dim, meander::PlanarOptions const& options, unsigned seed) {
  // Without a constraint small weights keep determinants from zero.
  return random_stack(layers, dim, options, seed,
                      options.constraint == meander::Constraint::none ? 0.3 : 1.0);
}

/// One layer with w of the given size and w.u as given.
inline Stack one_layer(int dim, meander::PlanarOptions const& options, double w_size,
                       double w_dot_u) {
  auto stack  = random_stack(1, dim, options, 21);
  real norm   = 0;
  real before = 0;
  for (double& w : stack.w) w *= w_size;
  for (int d = 0; d < dim; ++d) {
    norm += real(stack.w[d]) * stack.w[d];
    before += real(stack.w[d]) * stack.u[d];
  }
  for (int d = 0; d < dim; ++d) stack.u[d] += double((w_dot_u - before) / norm * stack.w[d]);
  return stack;
}

}  // namespace reference
