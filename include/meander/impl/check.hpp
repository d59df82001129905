// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <meander/impl/strided.hpp>
#include <meander/planar_options.hpp>

namespace meander::impl {

/// The checks behind every public call: O(1), on the host, always on. Each throws
/// std::invalid_argument naming the function, the argument, what came and what was expected.

void check_extent(char const* function, char const* argument, char const* extent, std::int64_t came,
                  std::int64_t expected, char const* because);

/// L and D must be numbers the kernels can count: D in [1, max_dim], L in [0, 2^31 - 1].
void check_stack_extents(std::int64_t layers, std::int64_t dim, std::int64_t max_dim);

void check_options(PlanarOptions const& options);

/// A stack whose options do not say that it has an inverse is not inverted.
void check_invertible(char const* function, PlanarOptions const& options);

/// \throws std::invalid_argument that says that the layer, of this w.u, has no inverse
[[noreturn]] void refuse_layer(std::int64_t layer, double w_dot_u, PlanarOptions const& options);

/// Where the elements of a View lie, whatever their type; a vector is a matrix of one column.
struct Elements {
  void const* data;
  std::int64_t extent0, extent1, stride0, stride1;
  std::int64_t size;  ///< bytes of an element
};

template <class T>
Elements elements(StridedMatrix<T> const& m) {
  return {m.data, m.extent0, m.extent1, m.stride0, m.stride1, sizeof(T)};
}

template <class T>
Elements elements(StridedVector<T> const& v) {
  return {v.data, v.extent0, 1, v.stride0, 0, sizeof(T)};
}

/// An output must not hold an element twice, as a stride of zero would make it.
void check_distinct(char const* function, char const* argument, Elements const& output);

/// The two are the very same elements, or have none in common.
void check_same_or_disjoint(char const* function, char const* argument, char const* other,
                            Elements const& a, Elements const& b);

/// The two have no element in common.
void check_disjoint(char const* function, char const* argument, char const* other,
                    Elements const& a, Elements const& b);

}  // namespace meander::impl
