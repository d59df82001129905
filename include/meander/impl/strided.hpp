// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace meander::impl {

/// A rank-2 View reduced to what a compiled kernel needs: element (i, j) is
/// data[i * stride0 + j * stride1]. Plain, so that host code can use it without Kokkos.
template <class T>
struct StridedMatrix {
  T* data              = nullptr;
  std::int64_t extent0 = 0;
  std::int64_t extent1 = 0;
  std::int64_t stride0 = 0;
  std::int64_t stride1 = 0;
};

/// A rank-1 View: element i is data[i * stride0]. A null data pointer means "not wanted".
template <class T>
struct StridedVector {
  T* data              = nullptr;
  std::int64_t extent0 = 0;
  std::int64_t stride0 = 0;
};

template <class View>
auto strided_matrix(View const& view) {
  return StridedMatrix<typename View::value_type>{
      view.data(), static_cast<std::int64_t>(view.extent(0)),
      static_cast<std::int64_t>(view.extent(1)), static_cast<std::int64_t>(view.stride(0)),
      static_cast<std::int64_t>(view.stride(1))};
}

template <class View>
auto strided_vector(View const& view) {
  return StridedVector<typename View::value_type>{view.data(),
                                                  static_cast<std::int64_t>(view.extent(0)),
                                                  static_cast<std::int64_t>(view.stride(0))};
}

template <class T>
StridedMatrix<T const> as_const(StridedMatrix<T> const& m) {
  return {m.data, m.extent0, m.extent1, m.stride0, m.stride1};
}

template <class T>
StridedVector<T const> as_const(StridedVector<T> const& v) {
  return {v.data, v.extent0, v.stride0};
}

}  // namespace meander::impl
