// SPDX-License-Identifier: BSD-3-Clause
// A user's first program: three points pushed through two planar layers, checked by hand.
#include <cmath>
#include <cstdio>

#include <Kokkos_Core.hpp>

#include <meander/planar.hpp>
#include <meander/version.hpp>

namespace {

constexpr int layers = 2, dim = 3, batch = 3;
constexpr double w[layers][dim] = {{0.5, -1.0, 0.25}, {1.5, 0.0, -0.75}};
constexpr double u[layers][dim] = {{1.0, 0.5, -0.5}, {-2.0, 0.25, 1.0}};
constexpr double b[layers]      = {0.125, -0.5};

double z_value(int i, int d) { return 0.3 * i - 0.2 * d + 0.1; }

double dot(double const* x, double const* y) {
  double sum = 0;
  for (int d = 0; d < dim; ++d) sum += x[d] * y[d];
  return sum;
}

/// z becomes y; returns log|det dy/dz|.
double by_hand(double* z) {
  double log_det = 0;
  for (int l = 0; l < layers; ++l) {
    double const w_dot_u     = dot(w[l], u[l]);
    double const w_dot_u_hat = std::log1p(std::exp(w_dot_u)) - 1;
    double const h           = std::tanh(dot(w[l], z) + b[l]);
    for (int d = 0; d < dim; ++d)
      z[d] += (u[l][d] + (w_dot_u_hat - w_dot_u) * w[l][d] / dot(w[l], w[l])) * h;
    log_det += std::log(std::abs(1 + (1 - h * h) * w_dot_u_hat));
  }
  return log_det;
}

bool forward_is_right() {
  Kokkos::DefaultHostExecutionSpace const exec;
  using memory = Kokkos::HostSpace;
  Kokkos::View<double**, memory> const w_view("w", layers, dim), u_view("u", layers, dim),
      z("z", batch, dim), y("y", batch, dim);
  Kokkos::View<double*, memory> const b_view("b", layers), log_det("log_det", batch);
  for (int l = 0; l < layers; ++l) {
    b_view(l) = b[l];
    for (int d = 0; d < dim; ++d) {
      w_view(l, d) = w[l][d];
      u_view(l, d) = u[l][d];
    }
  }
  for (int i = 0; i < batch; ++i)
    for (int d = 0; d < dim; ++d) z(i, d) = z_value(i, d);

  meander::PlanarStack const stack(exec, meander::PlanarParameters{w_view, u_view, b_view});
  meander::forward(exec, stack, z, y, log_det);
  exec.fence();

  double worst = 0;
  for (int i = 0; i < batch; ++i) {
    double row[dim];
    for (int d = 0; d < dim; ++d) row[d] = z_value(i, d);
    worst = std::fmax(worst, std::abs(by_hand(row) - log_det(i)));
    for (int d = 0; d < dim; ++d) worst = std::fmax(worst, std::abs(row[d] - y(i, d)));
  }
  std::printf("meander %s: largest difference from the computation by hand %g\n", meander::version,
              worst);
  return worst < 1e-14;
}

}  // namespace

int main(int argc, char** argv) {
  Kokkos::ScopeGuard const guard(argc, argv);
  return forward_is_right() ? 0 : 1;
}
