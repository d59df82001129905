// SPDX-License-Identifier: BSD-3-Clause
#include <meander/impl/check.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "refuse.hpp"

namespace meander::impl {

namespace {

/// A matrix as a comb: teeth of `inner` bytes, `pitch` bytes apart, whose elements are `step`
/// apart. A pitch or step of zero: there is one tooth, or one element in a tooth.
struct Comb {
  std::int64_t pitch, inner, step;
};

Comb comb(Elements const& e) {
  std::int64_t const along0 = e.extent0 > 1 ? e.stride0 * e.size : 0;
  std::int64_t const along1 = e.extent1 > 1 ? e.stride1 * e.size : 0;
  if (along0 >= along1) return {along0, (e.extent1 - 1) * along1 + e.size, along1};
  return {along1, (e.extent0 - 1) * along0 + e.size, along0};
}

std::intptr_t begin(Elements const& e) { return reinterpret_cast<std::intptr_t>(e.data); }

std::intptr_t end(Elements const& e) {
  return begin(e) + ((e.extent0 - 1) * e.stride0 + (e.extent1 - 1) * e.stride1) * e.size + e.size;
}

/// Whether pieces of `a` and `b` bytes, repeated every `period` bytes and `shift` bytes apart, miss
/// each other.
bool fit_side_by_side(std::int64_t a, std::int64_t b, std::int64_t period, std::int64_t shift) {
  std::int64_t const rest = ((shift % period) + period) % period;
  return rest >= b && rest + a <= period;
}

/// Whether no byte is in both; may be wrong only in calling strange but separate patterns shared.
bool are_disjoint(Elements const& a, Elements const& b) {
  if (a.extent0 == 0 || a.extent1 == 0 || b.extent0 == 0 || b.extent1 == 0) return true;
  if (end(a) <= begin(b) || end(b) <= begin(a)) return true;
  Comb const ca = comb(a), cb = comb(b);
  std::int64_t const shift = begin(a) - begin(b);
  if (ca.pitch > 0 && ca.pitch == cb.pitch && fit_side_by_side(ca.inner, cb.inner, ca.pitch, shift))
    return true;
  return ca.step > 0 && ca.step == cb.step && ca.pitch % ca.step == 0 && cb.pitch % cb.step == 0 &&
         fit_side_by_side(a.size, b.size, ca.step, shift);
}

bool are_same(Elements const& a, Elements const& b) {
  // A stride along an extent of one is never used.
  return a.data == b.data && a.extent0 == b.extent0 && a.extent1 == b.extent1 &&
         (a.extent0 == 1 || a.stride0 == b.stride0) && (a.extent1 == 1 || a.stride1 == b.stride1);
}

}  // namespace

void check_extent(char const* function, char const* argument, char const* extent, std::int64_t came,
                  std::int64_t expected, char const* because) {
  if (came != expected)
    refuse(function, extent, " of argument ", argument, " is ", came, ", expected ", expected, " (",
           because, ")");
}

void check_stack_extents(std::int64_t layers, std::int64_t dim, std::int64_t max_dim) {
  if (dim < 1 || dim > max_dim)
    refuse("meander::PlanarStack", "extent 1 of argument w (the dimension) is ", dim,
           ", expected 1 to ", max_dim);
  if (layers > std::numeric_limits<std::int32_t>::max() / 2)
    refuse("meander::PlanarStack", "extent 0 of argument w (the number of layers) is ", layers,
           ", expected at most ", std::numeric_limits<std::int32_t>::max() / 2);
}

void check_invertible(char const* function, PlanarOptions const& options) {
  if (options.constraint == Constraint::none && !options.invertible)
    refuse(function,
           "the stack has the constraint none, under which a layer need not have an inverse; "
           "prepare it with PlanarOptions::invertible = true, which has its layers checked");
}

void refuse_layer(std::int64_t layer, double w_dot_u, PlanarOptions const& options) {
  if (options.activation == Activation::leaky_relu)
    refuse("meander::PlanarStack", "layer ", layer, " has no inverse: its w.u is ", w_dot_u,
           ", and a leaky_relu layer needs w.u > -1 and negative_slope * w.u > -1");
  refuse("meander::PlanarStack", "layer ", layer, " has no inverse: its w.u is ", w_dot_u,
         ", and a tanh layer needs w.u > -1");
}

void check_options(PlanarOptions const& options) {
  if (!(options.log_det_epsilon >= 0) || !std::isfinite(options.log_det_epsilon))
    refuse("meander::PlanarStack", "log_det_epsilon is ", options.log_det_epsilon,
           ", expected a finite number >= 0");
  bool const leaky = options.activation == Activation::leaky_relu;
  if (!leaky && options.activation != Activation::tanh)
    refuse("meander::PlanarStack", "activation is ", static_cast<int>(options.activation),
           ", expected one of the enumeration");
  if (options.constraint != Constraint::softplus &&
      options.constraint != Constraint::log_softplus && options.constraint != Constraint::none)
    refuse("meander::PlanarStack", "constraint is ", static_cast<int>(options.constraint),
           ", expected one of the enumeration");
  if (leaky && !(options.negative_slope >= 0 && options.negative_slope <= 1))
    refuse("meander::PlanarStack", "negative_slope is ", options.negative_slope,
           ", expected 0 to 1");
}

void check_distinct(char const* function, char const* argument, Elements const& output) {
  if (output.extent0 == 0 || output.extent1 == 0) return;
  Comb const c        = comb(output);
  bool const in_tooth = c.step == 0 ? c.inner == output.size : c.step >= output.size;
  bool const teeth    = c.pitch == 0 || c.pitch >= c.inner;
  bool const repeated =
      (output.extent0 > 1 && output.stride0 == 0) || (output.extent1 > 1 && output.stride1 == 0);
  if (repeated || !in_tooth || !teeth)
    refuse(function, "argument ", argument, " has strides ", output.stride0, " and ",
           output.stride1, " for extents ", output.extent0, " and ", output.extent1,
           "; expected every element at an address of its own");
}

void check_same_or_disjoint(char const* function, char const* argument, char const* other,
                            Elements const& a, Elements const& b) {
  if (!are_same(a, b) && !are_disjoint(a, b))
    refuse(function, "argument ", argument, " shares memory with argument ", other,
           " without being the same View; expected the very same elements, or none in common");
}

void check_disjoint(char const* function, char const* argument, char const* other,
                    Elements const& a, Elements const& b) {
  if (!are_disjoint(a, b))
    refuse(function, "argument ", argument, " shares memory with argument ", other,
           "; expected no element in common");
}

}  // namespace meander::impl
