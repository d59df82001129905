// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <Kokkos_Core.hpp>

#include <meander/impl/philox.hpp>

#include "../box_muller.hpp"

/// Standard normals for the threads of a device.
namespace meander::impl::device {

template <class T>
struct ScalarOps;

template <>
struct ScalarOps<float> {
  using scalar = float;
  using real   = float;
  using bits   = std::uint32_t;

  KOKKOS_INLINE_FUNCTION static float splat(float x) { return x; }
  KOKKOS_INLINE_FUNCTION static float fma(float a, float b, float c) {
    return Kokkos::fma(a, b, c);
  }

  /// Of a normal number, to 2 ulp.
  KOKKOS_INLINE_FUNCTION static float sqrt(float x) {
#if defined(__CUDA_ARCH__)
    float root;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(x));
    return root;
#else
    return Kokkos::sqrt(x);
#endif
  }

  /// Flips the sign where bit 1 of `two` is set.
  KOKKOS_INLINE_FUNCTION static float negate_if(bits two, float x) {
    return Kokkos::bit_cast<float>(Kokkos::bit_cast<bits>(x) ^ (two << 30));
  }

  KOKKOS_INLINE_FUNCTION static float to_unit(bits upper, bits) {
    return (float(std::int32_t(upper)) + 0.5f) * 0x1p-32f;
  }

  KOKKOS_INLINE_FUNCTION static float turn_to_angle(bits turn, bits) {
    return float(std::int32_t(turn) - (1 << 29)) * 1.4629180792671597e-9f;  // pi/2 / 2^30
  }

  /// log(distance) or, where `from_one`, log(1 - distance), to 2 ulp. With s = f/(2 + f) and the
  /// argument 2^e (1 + f): log(1 + f) = 2 atanh(s), as in host/math.hpp.
  KOKKOS_INLINE_FUNCTION static float log_of(float distance, bool from_one) {
    float const rounded              = 1 - distance;
    float const x                    = from_one ? rounded : distance;
    float const correction           = from_one ? (1 - rounded) - distance : 0.0f;
    constexpr std::int32_t sqrt_half = 0x3f3504f3;
    auto const pattern               = Kokkos::bit_cast<std::int32_t>(x);
    std::int32_t const exponent      = (pattern - sqrt_half) >> 23;
    float const f                    = Kokkos::bit_cast<float>(pattern - exponent * (1 << 23)) - 1;
    float const s                    = f * reciprocal(f + 2);
    float const z                    = s * s;
    float const half_square          = f * f * 0.5f;
    float p                          = Kokkos::fma(0.23596331394f, z, 0.28536602987f);
    p                                = Kokkos::fma(p, z, 0.40000345571f);
    p                                = Kokkos::fma(p, z, 0.66666665603f);
    float const tail                 = s * Kokkos::fma(z, p, half_square);
    auto const e                     = float(exponent);
    float const small                = Kokkos::fma(e, -2.12194440e-4f, correction * (2 - x));
    return Kokkos::fma(e, 0.693359375f, f - (half_square - (tail + small)));
  }

 private:
  KOKKOS_INLINE_FUNCTION static float reciprocal(float x) {
#if defined(__CUDA_ARCH__)
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
#else
    return 1 / x;
#endif
  }
};

template <>
struct ScalarOps<double> {
  using scalar = double;
  using real   = double;
  using bits   = std::uint64_t;

  KOKKOS_INLINE_FUNCTION static double splat(double x) { return x; }
  KOKKOS_INLINE_FUNCTION static double fma(double a, double b, double c) {
    return Kokkos::fma(a, b, c);
  }
  KOKKOS_INLINE_FUNCTION static double sqrt(double x) { return Kokkos::sqrt(x); }
  KOKKOS_INLINE_FUNCTION static double negate_if(bits two, double x) {
    return Kokkos::bit_cast<double>(Kokkos::bit_cast<bits>(x) ^ (two << 62));
  }
  KOKKOS_INLINE_FUNCTION static double to_unit(bits upper, bits lower) {
    return Kokkos::fma(double(upper), 0x1p-32, (double(lower) + 0.5) * 0x1p-64);
  }
  KOKKOS_INLINE_FUNCTION static double turn_to_angle(bits turn, bits lower) {
    return Kokkos::fma(double(lower), 0x1p-32, double(std::int64_t(turn) - (1 << 29))) *
           (1.5707963267948966 * 0x1p-30);
  }
  KOKKOS_INLINE_FUNCTION static double log_of(double distance, bool from_one) {
    return from_one ? Kokkos::log1p(-distance) : Kokkos::log(distance);
  }
};

template <class T, int N>
struct Normals {
  T v[N];
};

/// Coordinates d to d + N - 1 of a row of standard normals: a block of four of them, or one half of
/// it.
template <int N, class T>
KOKKOS_INLINE_FUNCTION Normals<T, N> draw_pack(std::uint64_t seed, std::uint64_t row, int d) {
  static_assert(N == 2 || N == normals_per_block, "a block of normals, or half of one");
  using Bits                = UniformBits<typename ScalarOps<T>::bits>;
  std::uint32_t const block = std::uint32_t(d) / normals_per_block;
  bool const second         = N == 2 && d % normals_per_block != 0;
  Words const upper         = philox_words(seed, row, block, normal_words);
  Words lower{};
  if constexpr (sizeof(T) == 8) lower = philox_words(seed, row, block, normal_lower_word);
  auto const bits = [&](int k) {
    return second ? Bits{upper.v[2 + k % 2], lower.v[2 + k % 2]} : Bits{upper.v[k], lower.v[k]};
  };
  Normals<T, N> normals;
#pragma unroll
  for (int k = 0; k < N; k += 2)
    BoxMuller<ScalarOps<T>>::pair(bits(k), bits(k + 1), normals.v[k], normals.v[k + 1]);
  return normals;
}

/// Standard normals to a matrix of any layout: four coordinates of a row per index, neighbouring
/// indices along the unit stride.
template <class Storage, class Compute>
struct FillNormal {
  StridedMatrix<Storage> x;
  std::uint64_t seed, first_row;
  NormalBase<Compute> base;
  std::int64_t blocks = (x.extent1 + normals_per_block - 1) / normals_per_block;
  bool by_columns     = x.stride0 < x.stride1;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    std::int64_t const row   = by_columns ? i % x.extent0 : i / blocks;
    std::int64_t const block = by_columns ? i / x.extent0 : i % blocks;
    auto const normals = draw_pack<normals_per_block, Compute>(seed, first_row + std::uint64_t(row),
                                                               int(block) * normals_per_block);
    Storage* const to  = x.data + row * x.stride0;
#pragma unroll
    for (int k = 0; k < normals_per_block; ++k) {
      std::int64_t const d = block * normals_per_block + k;
      if (d >= x.extent1) break;
      to[d * x.stride1] =
          Storage(base.loc == nullptr ? normals.v[k]
                                      : Kokkos::fma(base.scale[d], normals.v[k], base.loc[d]));
    }
  }
};

template <class Compute, class ExecutionSpace, class Storage>
void fill_normal(ExecutionSpace const& exec, char const* label, std::uint64_t seed,
                 std::uint64_t first_row, StridedMatrix<Storage> const& x,
                 NormalBase<Compute> const& base = {}) {
  FillNormal<Storage, Compute> const fill{x, seed, first_row, base};
  Kokkos::parallel_for(label,
                       Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(
                           exec, 0, x.extent0 * fill.blocks),
                       fill);
}

}  // namespace meander::impl::device
