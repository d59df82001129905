// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <meander/impl/function.hpp>

namespace meander {

/// \brief One row of a batch, of whatever layout: what a function of a point is given. Light, to be
/// passed by value.
///
/// \tparam T float or double; const where the row is only read
template <class T>
class Row {
 public:
  using value_type = T;

  MEANDER_FUNCTION Row(T* data, int size, std::int64_t stride)
      : data_(data), size_(size), stride_(stride) {}

  /// \brief D, the number of coordinates.
  MEANDER_FUNCTION int size() const { return size_; }
  /// \brief Coordinate d, of 0 to D - 1.
  MEANDER_FUNCTION T& operator()(int d) const { return data_[d * stride_]; }
  MEANDER_FUNCTION T& operator[](int d) const { return data_[d * stride_]; }

 private:
  T* data_;
  int size_;
  std::int64_t stride_;
};

}  // namespace meander
