// SPDX-License-Identifier: BSD-3-Clause
// As planar.cpp: one misuse of a flow per macro.
#include <vector>

#include <Kokkos_Core.hpp>

#include <meander/flow.hpp>
#include <meander/random.hpp>

using space = Kokkos::DefaultExecutionSpace;

template <class T>
using Matrix = Kokkos::View<T**, space>;
template <class T>
using Vector = Kokkos::View<T*, space>;

void make(meander::PlanarStack<float> const& stack, Vector<float> const& loc) {
#if defined(BASE_OF_RANK_2)
  Matrix<float> const matrix("loc", 1, 1);
  meander::Flow(space(), meander::DiagonalNormalParameters{matrix, loc}, stack,
                meander::Direction::generative);
#elif defined(BASE_OF_MIXED_TYPES)
  meander::Flow(space(), meander::DiagonalNormalParameters{loc, Vector<double>("log_scale", 1)},
                stack, meander::Direction::generative);
#elif defined(FLOW_COMPUTE_NOT_REAL)
  meander::Flow<int> const* flow = nullptr;
  flow->dim();
#else
  meander::Flow(space(), meander::DiagonalNormalParameters{loc, Vector<float const>(loc)}, stack,
                meander::Direction::generative);
#endif
}

void use(meander::Flow<float> const& flow, Matrix<float> const& x, Vector<float> const& log_prob) {
#if defined(FLOW_ROWS_NOT_VIEWS)
  std::vector<float> const rows(3);
  meander::log_prob(space(), flow, rows, log_prob);
#elif defined(FLOW_ROWS_OF_RANK_1)
  meander::sample(space(), flow, 1, 2, log_prob);
#elif defined(FLOW_ROWS_CONST)
  meander::sample(space(), flow, 1, 2, Matrix<float const>(x));
#elif defined(FLOW_ROWS_WIDER_THAN_COMPUTE)
  meander::sample(space(), flow, 1, 2, Matrix<double>("x", 1, 1));
#elif defined(FLOW_ROWS_OF_TWO_TYPES)
  meander::Flow<double> const* wide = nullptr;
  meander::forward(space(), *wide, x, Matrix<double>("x", 1, 1));
#elif defined(FLOW_LOG_PROB_CONST)
  meander::log_prob(space(), flow, x, Vector<float const>(log_prob));
#elif defined(FLOW_LOG_DET_OF_RANK_2)
  meander::inverse(space(), flow, x, x, x);
#elif defined(FLOW_EXEC_OF_ANOTHER_SPACE)
  struct Elsewhere {};
  meander::log_prob(Elsewhere{}, flow, x, log_prob);
#elif defined(NORMALS_OF_INTEGERS)
  meander::fill_normal(space(), 1, 2, Matrix<int>("x", 1, 1));
#elif defined(NORMALS_CONST)
  meander::fill_normal(space(), 1, 2, Matrix<float const>(x));
#else
  meander::log_prob(space(), flow, Matrix<float const>(x), log_prob);
  meander::sample(space(), flow, 1, 2, x, log_prob, Kokkos::View<float[4][3], space>("z"));
  meander::fill_normal<double>(space(), 1, 2, x);
#endif
}
