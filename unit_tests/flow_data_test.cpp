// SPDX-License-Identifier: BSD-3-Clause
// Flows that were fitted elsewhere, from their files: log-densities and samples against what
// PyTorch made of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include <meander/flow.hpp>
#include <meander/model_file.hpp>

#include "planar_fixture.hpp"

namespace {

using fixture::space;

std::filesystem::path const data = MEANDER_TEST_DATA;

/// The numbers of a little-endian .npy file in C order, as the data folder holds them.
std::vector<double> npy(std::string const& name) {
  std::ifstream file(data / name, std::ios::binary);
  std::string const bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.size() < 10) throw std::runtime_error("cannot read " + name);
  auto const byte = [&](std::size_t i) {
    return std::size_t(static_cast<unsigned char>(bytes[i]));
  };
  std::size_t const begin  = 10 + byte(8) + 256 * byte(9);
  std::string const header = bytes.substr(10, begin - 10);
  bool const single        = header.find("'<f4'") != std::string::npos;
  std::size_t const size   = single ? 4 : 8;
  std::vector<double> values((bytes.size() - begin) / size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    float f = 0;
    if (single)
      std::memcpy(&f, &bytes[begin + 4 * i], 4), values[i] = f;
    else
      std::memcpy(&values[i], &bytes[begin + 8 * i], 8);
  }
  return values;
}

/// log q of rows of storage type T, with the arithmetic in double.
template <class T>
std::vector<T> log_probs(meander::Flow<double, space> const& flow,
                         std::vector<double> const& rows) {
  int const count = int(rows.size()) / flow.dim();
  auto const x    = fixture::matrix<T>(rows, count, flow.dim());
  Kokkos::View<T*, space::memory_space> const log_prob("test::log_prob", count);
  space const exec;
  meander::log_prob(exec, flow, x, log_prob);
  exec.fence();
  return fixture::vector_values(log_prob);
}

template <class T>
void expect_log_probs(meander::Flow<double, space> const& flow, std::string const& rows,
                      std::string const& expected) {
  auto const came = log_probs<T>(flow, npy(rows));
  auto const want = npy(expected);
  ASSERT_EQ(came.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(came[i], want[i], 1e-6 * std::max(1.0, std::abs(want[i]))) << rows << ", row " << i;
}

auto flow_of(std::string const& name, meander::ModelReadOptions const& options) {
  return meander::make_flow<double>(space(), meander::read_model(data / name, options));
}

TEST(FlowData, TwoModesFittedByNormflows) {
  meander::ModelReadOptions tanh;
  tanh.activation = meander::Activation::tanh;
  auto const flow = flow_of("normflows_twomodes_k16.safetensors", tanh);
  // The file holds rows in float64; rounding them to float32 moves log q by less than is allowed.
  expect_log_probs<double>(flow, "normflows_twomodes_k16.y64.npy",
                           "normflows_twomodes_k16.logq64.npy");
  expect_log_probs<float>(flow, "normflows_twomodes_k16.y64.npy",
                          "normflows_twomodes_k16.logq64.npy");
}

TEST(FlowData, LeakyLayersFittedByNormflows) {
  meander::ModelReadOptions leaky;
  leaky.activation     = meander::Activation::leaky_relu;
  leaky.negative_slope = 0.2;
  expect_log_probs<double>(flow_of("normflows_leaky_k8.safetensors", leaky),
                           "normflows_leaky_k8.y64.npy", "normflows_leaky_k8.logq64.npy");
}

/// Rows in float32 as the data set stores them, arithmetic in double.
TEST(FlowData, TabularData) {
  meander::ModelReadOptions normalizing;
  normalizing.direction = meander::Direction::normalizing;
  for (std::string const name : {"breast_cancer", "digits"})
    expect_log_probs<float>(flow_of(name + "_planar_l16.safetensors", normalizing),
                            name + ".test.npy", name + "_planar_l16.test_logprob64.npy");
}

/// The energy U1 of Rezende & Mohamed (2015), table 1: two modes on the first axis.
double two_modes(double x, double y) {
  double const ring = (std::hypot(x, y) - 2) / 0.4;
  auto const hump   = [](double t) { return std::exp(-0.5 * t * t); };
  return 0.5 * ring * ring - std::log(hump((x - 2) / 0.6) + hump((x + 2) / 0.6));
}

struct Mean {
  double value, error;
};

Mean mean(std::vector<double> const& x) {
  double sum = 0, squares = 0;
  for (double const v : x) sum += v, squares += v * v;
  auto const n   = double(x.size());
  double const m = sum / n;
  return {m, std::sqrt((squares / n - m * m) / n)};
}

/// Within 4 standard errors of the difference: the seed is fixed.
void expect_agree(Mean const& a, Mean const& b) {
  EXPECT_NEAR(a.value, b.value, 4 * std::hypot(a.error, b.error));
}

TEST(FlowData, SamplesOfTwoModes) {
  meander::ModelReadOptions tanh;
  tanh.activation    = meander::Activation::tanh;
  auto const flow    = flow_of("normflows_twomodes_k16.safetensors", tanh);
  constexpr int rows = 1 << 18;
  fixture::DenseMatrix<float> const x("test::x", rows, 2);
  Kokkos::View<float*, space::memory_space> const log_prob("test::log_prob", rows);
  space const exec;
  meander::sample(exec, flow, 2015, 0, x, log_prob);
  exec.fence();
  auto const xs   = fixture::matrix_values(x);
  auto const logs = fixture::vector_values(log_prob);
  std::vector<double> right, energy, divergence;
  for (int i = 0; i < rows; ++i) {
    right.push_back(xs[2 * std::size_t(i)] > 0 ? 1 : 0);
    energy.push_back(two_modes(xs[2 * std::size_t(i)], xs[2 * std::size_t(i) + 1]));
    divergence.push_back(logs[i] + energy.back());
  }
  auto const ys = npy("normflows_twomodes_k16.y64.npy"),
             qs = npy("normflows_twomodes_k16.logq64.npy");
  std::vector<double> their_right, their_energy, their_divergence;
  for (std::size_t i = 0; i < qs.size(); ++i) {
    their_right.push_back(ys[2 * i] > 0 ? 1 : 0);
    their_energy.push_back(two_modes(ys[2 * i], ys[2 * i + 1]));
    their_divergence.push_back(qs[i] + their_energy.back());
  }
  // The fit itself is not quite even: 0.477 of it is on the right.
  EXPECT_NEAR(mean(right).value, 0.5, 0.03);
  expect_agree(mean(right), mean(their_right));
  expect_agree(mean(energy), mean(their_energy));
  // E[log q + U] = KL(q || p) - log Z, what was minimised: above -log Z, and not far.
  expect_agree(mean(divergence), mean(their_divergence));
  EXPECT_GT(mean(divergence).value, -1.8775016);
  EXPECT_LT(mean(divergence).value, -1.8775016 + 0.06);
}

}  // namespace
