// SPDX-License-Identifier: BSD-3-Clause
// One misuse per macro, each to be refused by the compiler with the sentence in CMakeLists.txt;
// without a macro everything here is right.
#include <vector>

#include <Kokkos_Core.hpp>

#include <meander/planar.hpp>

using space = Kokkos::DefaultExecutionSpace;

template <class T>
using Matrix = Kokkos::View<T**, space>;
template <class T>
using Vector = Kokkos::View<T*, space>;

void prepare(Matrix<float> const& w, Vector<float> const& b) {
#if defined(PARAMETERS_NOT_VIEWS)
  std::vector<float> const rows(3);
  meander::PlanarStack<float>(space(), meander::PlanarParameters{rows, rows, rows});
#elif defined(PARAMETERS_OF_WRONG_RANK)
  meander::PlanarStack<float>(space(), meander::PlanarParameters{w, w, w});
#elif defined(PARAMETERS_OF_INTEGERS)
  Vector<int> const integers("b", 1);
  Matrix<int> const matrix("w", 1, 1);
  meander::PlanarStack<float>(space(), meander::PlanarParameters{matrix, matrix, integers});
#elif defined(PARAMETERS_OF_MIXED_TYPES)
  Vector<double> const doubles("b", 1);
  meander::PlanarStack<float>(space(), meander::PlanarParameters{w, w, doubles});
#elif defined(REFRESH_OF_WRONG_RANK)
  meander::PlanarStack stack(space(), meander::PlanarParameters{w, w, b});
  stack.refresh(space(), meander::PlanarParameters{b, b, b});
#elif defined(COMPUTE_NOT_REAL)
  meander::PlanarStack<long double>(space(), meander::PlanarParameters{w, w, b});
#elif defined(NOT_AN_EXECUTION_SPACE)
  meander::PlanarStack<float, Kokkos::HostSpace> const* stack = nullptr;
  stack->dim();
#else
  Matrix<double> const wide("w", 1, 1);
  Matrix<double const> const u = wide;
  Vector<double> const doubles("b", 1);
  meander::PlanarStack<float> stack(space(), meander::PlanarParameters{w, w, b});
  stack.refresh(space(), meander::PlanarParameters{wide, u, doubles});
#endif
}

void push(meander::PlanarStack<float> const& stack, Matrix<float> const& y,
          Vector<float> const& log_det) {
#if defined(Z_NOT_A_VIEW)
  std::vector<float> const z(3);
  meander::forward(space(), stack, z, y, log_det);
#elif defined(Z_OF_RANK_1)
  meander::forward(space(), stack, log_det, y, log_det);
#elif defined(Y_OF_RANK_1)
  meander::forward(space(), stack, y, log_det);
#elif defined(Y_CONST)
  meander::forward(space(), stack, y, Matrix<float const>(y), log_det);
#elif defined(TYPES_DIFFER)
  meander::forward(space(), stack, Matrix<double>("z", 1, 1), y, log_det);
#elif defined(WIDER_THAN_COMPUTE)
  Matrix<double> const z("z", 1, 1);
  meander::forward(space(), stack, z, z);
#elif defined(ROWS_OF_INTEGERS)
  Matrix<int> const z("z", 1, 1);
  meander::forward(space(), stack, z, z);
#elif defined(EXEC_OF_ANOTHER_SPACE)
  struct Elsewhere {};
  meander::forward(Elsewhere{}, stack, y, y);
#elif defined(LOG_DET_OF_RANK_2)
  meander::forward(space(), stack, y, y, y);
#elif defined(LOG_DET_CONST)
  meander::forward(space(), stack, y, y, Vector<float const>(log_det));
#elif defined(LOG_DET_OF_ANOTHER_TYPE)
  meander::forward(space(), stack, y, y, Vector<double>("log_det", 1));
#elif defined(INVERSE_INTO_CONST)
  meander::inverse(space(), stack, y, Matrix<float const>(y), log_det);
#elif defined(INVERSE_LOG_DET_OF_RANK_2)
  meander::inverse(space(), stack, y, y, y);
#else
  Kokkos::View<float[4][3], Kokkos::LayoutLeft, space> const fixed("fixed");
  meander::forward(space(), stack, Matrix<float const>(y), y, log_det);
  meander::forward(space(), stack, fixed, fixed);
  meander::inverse(space(), stack, Matrix<float const>(y), y, log_det);
  meander::inverse(space(), stack, fixed, fixed);
#endif
}
