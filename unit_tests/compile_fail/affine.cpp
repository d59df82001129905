// SPDX-License-Identifier: BSD-3-Clause
// As planar.cpp: one misuse of an affine layer per macro.
#include <vector>

#include <Kokkos_Core.hpp>

#include <meander/affine.hpp>

using space = Kokkos::DefaultExecutionSpace;

template <class T>
using Matrix = Kokkos::View<T**, space>;
template <class T>
using Vector = Kokkos::View<T*, space>;

void prepare(Vector<float> const& shift, Matrix<float> const& matrix) {
#if defined(SHIFT_OF_RANK_2)
  meander::AffineMap(space(), meander::AffineParameters{matrix, shift});
#elif defined(SHIFT_OF_INTEGERS)
  Vector<int> const integers("shift", 1);
  meander::AffineMap(space(), meander::AffineParameters{integers, integers});
#elif defined(SHIFT_OF_ANOTHER_TYPE)
  meander::AffineMap(space(), meander::AffineParameters{shift, Vector<double>("log_scale", 1)});
#else
  meander::AffineMap layer(space(), meander::AffineParameters{shift, shift});
  layer.refresh(space(),
                meander::AffineParameters{Vector<double>("shift", 1), Vector<double>("s", 1)});
  meander::forward(space(), layer, matrix, matrix);
#endif
}

void push(meander::AffineMap<> const& layer, Matrix<float> const& rows) {
#if defined(AFFINE_Z_OF_RANK_1)
  meander::forward(space(), layer, Vector<float>("z", 1), rows);
#elif defined(AFFINE_TYPES_DIFFER)
  meander::inverse(space(), layer, Matrix<double>("y", 1, 1), rows);
#else
  meander::inverse(space(), layer, rows, rows, Vector<float>("log_det", 1));
#endif
}
