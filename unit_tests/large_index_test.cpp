// SPDX-License-Identifier: BSD-3-Clause
// Element offsets and row numbers past 2^31 and 2^32, in address space that is reserved but
// (nearly) not backed by memory. The rows must come out bit for bit as in a small dense batch. For
// host execution spaces: address space on a device is memory.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <Kokkos_Core.hpp>

#include <meander/affine.hpp>
#include <meander/planar.hpp>

namespace {

using space = Kokkos::DefaultHostExecutionSpace;

/// Four steps of it are past 2^32.
constexpr std::size_t stride = (std::size_t(1) << 30) + 17;

/// Floats that read as zero and take memory only where they are written.
class SparseMemory {
 public:
  explicit SparseMemory(std::size_t size) : bytes_(size * sizeof(float)) {
    void* const data = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data != MAP_FAILED) data_ = static_cast<float*>(data);
  }
  ~SparseMemory() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
  }
  SparseMemory(SparseMemory const&)            = delete;
  SparseMemory& operator=(SparseMemory const&) = delete;

  float* data() const { return data_; }

  /// Lets all of it but the last `tail` floats share the memory of one small file.
  bool fold(std::size_t tail) {
    constexpr std::size_t piece = std::size_t(1) << 22;
    int const file              = ::memfd_create("meander", 0);
    if (file < 0) return false;
    bool good             = ::ftruncate(file, piece) == 0;
    std::size_t const end = bytes_ - tail * sizeof(float);
    auto* const bytes     = reinterpret_cast<char*>(data_);
    for (std::size_t at = 0; good && at + piece <= end; at += piece)
      good = ::mmap(bytes + at, piece, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_FIXED | MAP_POPULATE, file, 0) != MAP_FAILED;
    ::close(file);
    return good;
  }

 private:
  std::size_t bytes_;
  float* data_ = nullptr;
};

template <class Layout>
using Matrix = Kokkos::View<float**, Layout, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
using Vector =
    Kokkos::View<float*, Kokkos::LayoutStride, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;

using Stack = meander::PlanarStack<float, space>;

Stack random_stack(int layers, int dim) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0.0F, 0.5F);
  Kokkos::View<float**, Kokkos::HostSpace> const w("test::w", layers, dim),
      u("test::u", layers, dim);
  Kokkos::View<float*, Kokkos::HostSpace> const b("test::b", layers);
  for (int l = 0; l < layers; ++l) {
    b(l) = normal(generator);
    for (int d = 0; d < dim; ++d) {
      w(l, d) = normal(generator);
      u(l, d) = normal(generator);
    }
  }
  Stack const stack(space(), meander::PlanarParameters{w, u, b});
  Kokkos::fence();
  return stack;
}

/// z is filled, mapped to y, and compared with what a dense copy gives.
template <class Layers, class ZView, class YView>
void expect_as_dense(Layers const& stack, ZView const& z, YView const& y, Vector const& log_det) {
  // Kokkos multiplies an index by a stride in the type of the index: an int would overflow.
  std::size_t const rows = z.extent(0), dim = z.extent(1);
  Kokkos::View<float**, Kokkos::LayoutRight, Kokkos::HostSpace> const dense_z("test::z", rows, dim),
      dense_y("test::y", rows, dim);
  Kokkos::View<float*, Kokkos::HostSpace> const dense_log_det("test::log_det", rows);
  std::mt19937 generator(2);
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t d = 0; d < dim; ++d) dense_z(i, d) = z(i, d) = normal(generator);

  meander::forward(space(), stack, z, y, log_det);
  meander::forward(space(), stack, dense_z, dense_y, dense_log_det);
  Kokkos::fence();

  auto const same = [](float const& a, float const& b) {
    return std::memcmp(&a, &b, sizeof a) == 0;
  };
  for (std::size_t i = 0; i < rows; ++i) {
    EXPECT_TRUE(same(log_det(i), dense_log_det(i))) << "row " << i;
    for (std::size_t d = 0; d < dim; ++d)
      EXPECT_TRUE(same(y(i, d), dense_y(i, d))) << "row " << i << ", " << d;
  }
}

meander::AffineMap<space> some_affine(int dim) {
  Kokkos::View<float*, Kokkos::HostSpace> const shift("test::shift", dim),
      log_scale("test::log_scale", dim);
  for (int d = 0; d < dim; ++d) shift(d) = log_scale(d) = 0.25F * float(d);
  return {space(), meander::AffineParameters{shift, log_scale}};
}

#define SKIP_WITHOUT(memory)    \
  if (memory.data() == nullptr) \
  GTEST_SKIP() << "this machine does not hand out that much address space"

TEST(LargeIndex, RowsFarApart) {
  constexpr int rows = 5, dim = 7;
  SparseMemory const z(stride * (rows - 1) + dim), y(stride * (rows - 1) + dim),
      log_det(stride * rows);
  SKIP_WITHOUT(z);
  SKIP_WITHOUT(y);
  SKIP_WITHOUT(log_det);
  Kokkos::LayoutStride const far_rows(rows, stride, dim, 1);
  Matrix<Kokkos::LayoutStride> const y_view(y.data(), far_rows);
  Stack const stack = random_stack(9, dim);
  expect_as_dense(stack, Matrix<Kokkos::LayoutStride>(z.data(), far_rows), y_view,
                  Vector(log_det.data(), Kokkos::LayoutStride(rows, stride)));
  // In place.
  expect_as_dense(stack, y_view, y_view,
                  Vector(log_det.data(), Kokkos::LayoutStride(rows, stride)));
  expect_as_dense(some_affine(dim), Matrix<Kokkos::LayoutStride>(z.data(), far_rows), y_view,
                  Vector(log_det.data(), Kokkos::LayoutStride(rows, stride)));
}

TEST(LargeIndex, RowsFarApartInARowMajorView) {
  constexpr int rows = 5, dim = 6;
  SparseMemory const z(stride * rows), y(stride * rows), log_det(stride * rows);
  SKIP_WITHOUT(z);
  SKIP_WITHOUT(y);
  SKIP_WITHOUT(log_det);

  auto const last_columns = [](SparseMemory const& memory) {
    return Kokkos::subview(Matrix<Kokkos::LayoutRight>(memory.data(), rows, stride), Kokkos::ALL,
                           std::pair(stride - dim, stride));
  };
  expect_as_dense(random_stack(4, dim), last_columns(z), last_columns(y),
                  Vector(log_det.data(), Kokkos::LayoutStride(rows, stride)));
}

TEST(LargeIndex, ColumnsFarApart) {
  constexpr int rows = 300, dim = 5;
  SparseMemory const z(stride * dim), y(stride * dim), log_det(rows);
  SKIP_WITHOUT(z);
  SKIP_WITHOUT(y);
  Vector const log_det_view(log_det.data(), Kokkos::LayoutStride(rows, 1));
  Stack const stack = random_stack(6, dim);
  // Rows side by side, and neither rows nor columns side by side.
  for (std::size_t const row_stride : {1, 3}) {
    Kokkos::LayoutStride const far_columns(rows, row_stride, dim, stride);
    expect_as_dense(stack, Matrix<Kokkos::LayoutStride>(z.data(), far_columns),
                    Matrix<Kokkos::LayoutStride>(y.data(), far_columns), log_det_view);
    expect_as_dense(some_affine(dim), Matrix<Kokkos::LayoutStride>(z.data(), far_columns),
                    Matrix<Kokkos::LayoutStride>(y.data(), far_columns), log_det_view);
  }
}

TEST(LargeIndex, ColumnsFarApartInAColumnMajorView) {
  constexpr std::size_t rows = 100;
  constexpr int dim          = 5;
  SparseMemory const z(stride * dim), y(stride * dim), log_det(rows);
  SKIP_WITHOUT(z);
  SKIP_WITHOUT(y);

  auto const last_rows = [](SparseMemory const& memory) {
    return Kokkos::subview(Matrix<Kokkos::LayoutLeft>(memory.data(), stride, dim),
                           std::pair(stride - rows, stride), Kokkos::ALL);
  };
  expect_as_dense(random_stack(6, dim), last_rows(z), last_rows(y),
                  Vector(log_det.data(), Kokkos::LayoutStride(rows, 1)));
}

// More rows than an int can count. All rows of z are the same one (stride 0), so all rows of y are
// equal too, and those before the last million may share memory.
TEST(LargeIndex, MoreRowsThan32BitsCount) {
  constexpr std::size_t rows = (std::size_t(1) << 31) + 1234, own = 1 << 20;
  SparseMemory y(rows);
  SKIP_WITHOUT(y);
  if (!y.fold(own)) GTEST_SKIP() << "this machine cannot map a file that often";
  Stack const stack = random_stack(1, 1);
  Kokkos::View<float[1][1], Kokkos::HostSpace> const z("test::z"), expected("test::expected");
  z(0, 0) = 0.25F;
  meander::forward(space(), stack, z, expected);
  meander::forward(space(), stack,
                   Matrix<Kokkos::LayoutStride>(z.data(), Kokkos::LayoutStride(rows, 0, 1, 1)),
                   Matrix<Kokkos::LayoutStride>(y.data(), Kokkos::LayoutStride(rows, 1, 1, 1)));
  Kokkos::fence();
  ASSERT_NE(expected(0, 0), 0.0F);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < own; ++i) wrong += y.data()[i] != expected(0, 0);
  for (std::size_t i = rows - own; i < rows; ++i) wrong += y.data()[i] != expected(0, 0);
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
