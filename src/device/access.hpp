// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <meander/impl/strided.hpp>

namespace meander::impl::device {

/// How a kernel reaches the rows of z and y.
enum class Access {
  rows,     ///< unit stride along a row, 16-byte aligned rows: packs of coordinates
  columns,  ///< unit stride along a column, 16-byte aligned columns: packs of rows
  elements  ///< anything
};

template <class T>
bool is_aligned(T const* p) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
}

/// Packs of 16 bytes need every row (or column) of both matrices to start at a multiple of 16
/// bytes.
template <class Storage>
Access access_to(StridedMatrix<Storage const> const& z, StridedMatrix<Storage> const& y) {
  constexpr std::int64_t pack = 16 / sizeof(Storage);
  if (!is_aligned(z.data) || !is_aligned(y.data)) return Access::elements;
  bool const one_column = z.extent1 == 1;
  bool const one_row    = z.extent0 == 1;
  auto const fits       = [](std::int64_t stride) { return stride % pack == 0; };
  bool const packable   = z.extent1 % pack == 0 || z.extent1 == 2;
  if (z.stride1 == 1 && y.stride1 == 1 && packable &&
      (z.extent1 == 2 ? z.stride0 % 2 == 0 && y.stride0 % 2 == 0
                      : one_row || (fits(z.stride0) && fits(y.stride0))))
    return Access::rows;
  if (z.stride0 == 1 && y.stride0 == 1 && (one_column || (fits(z.stride1) && fits(y.stride1))))
    return Access::columns;
  return Access::elements;
}

}  // namespace meander::impl::device
