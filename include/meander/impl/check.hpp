// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <meander/planar_options.hpp>

namespace meander::impl {

/// The checks behind every public call: O(1), on the host, always on. Each throws
/// std::invalid_argument naming the function, the argument, what came and what was expected.

void check_extent(char const* function, char const* argument, char const* extent,
                  std::int64_t came, std::int64_t expected, char const* because);

/// L and D must be numbers the kernels can count: D in [1, max_dim], L in [0, 2^31 - 1].
void check_stack_extents(std::int64_t layers, std::int64_t dim, std::int64_t max_dim);

void check_options(PlanarOptions const& options);

/// Two matrices of equal extents may be the very same elements or share none. Strides count
/// elements of `size` bytes.
void check_same_or_disjoint(char const* function, char const* argument, char const* other,
                            void const* a, std::int64_t a_stride0, std::int64_t a_stride1,
                            void const* b, std::int64_t b_stride0, std::int64_t b_stride1,
                            std::int64_t extent0, std::int64_t extent1, std::int64_t size);

}  // namespace meander::impl
