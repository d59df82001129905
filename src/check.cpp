// SPDX-License-Identifier: BSD-3-Clause
#include <meander/impl/check.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>

namespace meander::impl {

namespace {

template <class... Parts>
[[noreturn]] void refuse(char const* function, Parts const&... parts) {
  std::ostringstream message;
  message << function << ": ";
  (message << ... << parts);
  throw std::invalid_argument(message.str());
}

/// The rows of a matrix as a comb: teeth of `inner` bytes, `pitch` bytes apart.
struct Comb {
  std::int64_t pitch, inner, step;
};

Comb comb(std::int64_t stride0, std::int64_t stride1, std::int64_t extent0, std::int64_t extent1,
          std::int64_t size) {
  if (stride0 >= stride1) return {stride0 * size, ((extent1 - 1) * stride1 + 1) * size, stride1 * size};
  return {stride1 * size, ((extent0 - 1) * stride0 + 1) * size, stride0 * size};
}

/// Two combs of equal shape, `shift` bytes apart, share no byte.
bool interleave(Comb const& c, std::int64_t shift, std::int64_t size) {
  if (c.pitch <= 0) return false;
  std::int64_t const rest = ((shift % c.pitch) + c.pitch) % c.pitch;
  if (rest >= c.inner && rest + c.inner <= c.pitch) return true;
  if (c.step <= 0 || c.pitch % c.step != 0) return false;
  std::int64_t const offset = rest % c.step;
  return offset >= size && offset + size <= c.step;
}

}  // namespace

void check_extent(char const* function, char const* argument, char const* extent,
                  std::int64_t came, std::int64_t expected, char const* because) {
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

void check_options(PlanarOptions const& options) {
  if (!(options.log_det_epsilon >= 0) || !std::isfinite(options.log_det_epsilon))
    refuse("meander::PlanarStack", "log_det_epsilon is ", options.log_det_epsilon,
           ", expected a finite number >= 0");
  if (!(options.negative_slope >= 0 && options.negative_slope <= 1))
    refuse("meander::PlanarStack", "negative_slope is ", options.negative_slope,
           ", expected 0 to 1");
}

void check_same_or_disjoint(char const* function, char const* argument, char const* other,
                            void const* a, std::int64_t a_stride0, std::int64_t a_stride1,
                            void const* b, std::int64_t b_stride0, std::int64_t b_stride1,
                            std::int64_t extent0, std::int64_t extent1, std::int64_t size) {
  if (extent0 == 0 || extent1 == 0) return;
  // A stride along an extent of one is never used.
  bool const same_strides = (extent0 == 1 || a_stride0 == b_stride0) &&
                            (extent1 == 1 || a_stride1 == b_stride1);
  if (a == b && same_strides) return;
  auto const begin = [](void const* p) { return reinterpret_cast<std::intptr_t>(p); };
  auto const span  = [&](std::int64_t s0, std::int64_t s1) {
    return ((extent0 - 1) * s0 + (extent1 - 1) * s1 + 1) * size;
  };
  bool const apart = begin(a) + span(a_stride0, a_stride1) <= begin(b) ||
                     begin(b) + span(b_stride0, b_stride1) <= begin(a);
  if (apart) return;
  if (same_strides &&
      interleave(comb(a_stride0, a_stride1, extent0, extent1, size), begin(a) - begin(b), size))
    return;
  refuse(function, "argument ", argument, " shares memory with argument ", other,
         " without being the same View; expected the very same elements, or none in common");
}

}  // namespace meander::impl
