// SPDX-License-Identifier: BSD-3-Clause
#include <meander/impl/flow_check.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>

#include "refuse.hpp"

namespace meander::impl {

void check_direction(Direction direction) {
  if (direction != Direction::generative && direction != Direction::normalizing)
    refuse("meander::Flow", "direction is ", static_cast<int>(direction),
           ", expected one of the enumeration");
}

void check_has_layers(std::size_t layers) {
  if (layers == 0)
    refuse("meander::Flow",
           "argument layers is empty, expected at least one layer, which says the dimension of a "
           "flow with a standard normal base");
}

void check_layer_dim(std::size_t layer, std::int64_t dim, std::int64_t expected) {
  if (dim != expected)
    refuse("meander::Flow", "the dimension of element ", layer, " of argument layers is ", dim,
           ", expected ", expected, " (that of element 0)");
}

std::int32_t checked_dim(std::int64_t dim, std::int64_t max_dim) {
  if (dim < 1 || dim > max_dim)
    refuse("meander::Flow", "extent 0 of argument loc (the dimension) is ", dim, ", expected 1 to ",
           max_dim);
  return static_cast<std::int32_t>(dim);
}

void check_has_gradient(char const* function, bool is_planar) {
  if (!is_planar)
    refuse(function,
           "the layer of argument flow is affine, expected a stack of planar layers (all that has "
           "gradients so far)");
}

void check_first_row(char const* function, std::uint64_t first_row, std::int64_t rows) {
  if (rows > 0 && first_row > std::numeric_limits<std::uint64_t>::max() - std::uint64_t(rows - 1))
    refuse(function, "argument first_row is ", first_row, ", expected no more than 2^64 - ", rows,
           " (for ", rows, " rows)");
}

}  // namespace meander::impl
