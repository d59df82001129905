// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include <meander/impl/function.hpp>

/// From random words to standard normals, by the method of Box & Muller (1958): of two uniform
/// numbers u and v, sqrt(-2 log u) times the cosine and the sine of 2 pi v. Both are used.
///
/// Written once for a scalar (a GPU's thread) and a vector of rows (the host): `Ops` names the
/// types and the few operations that differ. In float a uniform number has 32 bits, in double 64,
/// whose upper 32 are the same: a sample in float is the sample in double, rounded on the way.
///
/// u is (w + 1/2) / 2^32 (2^64), never zero; the logarithm is taken of u or, above one half, as
/// log1p(u - 1), where 1 - u is known exactly, so that a radius has full relative accuracy at both
/// ends. No normal is beyond 6.77 in float (9.42 in double), which N(0, 1) is with a probability of
/// 1.3e-11 (4e-21).
namespace meander::impl {

template <class T>
struct SinCosSeries;

/// Chebyshev fits on [-pi/4, pi/4]: (sin(x)/x - 1)/x^2 and (cos(x) - 1 + x^2/2)/x^4 in x^2.
template <>
struct SinCosSeries<float> {
  static constexpr int terms = 3;  ///< relative errors below 2^-26.2 and 2^-29.7
  MEANDER_FUNCTION static constexpr float sine(int i) {
    constexpr float c[] = {-0.16666664662f, 0.0083327482706f, -0.0001958789088f};
    return c[i];
  }
  MEANDER_FUNCTION static constexpr float cosine(int i) {
    constexpr float c[] = {0.04166666466f, -0.0013888303036f, 2.4547942085e-5f};
    return c[i];
  }
};

template <>
struct SinCosSeries<double> {
  static constexpr int terms = 6;  ///< relative errors below 2^-56.1 and 2^-60.3
  MEANDER_FUNCTION static constexpr double sine(int i) {
    constexpr double c[] = {-0.16666666666666665, 0.0083333333333309485,  -0.00019841269836758574,
                            2.755731610255244e-6, -2.5051131845003624e-8, 1.5918129294866609e-10};
    return c[i];
  }
  MEANDER_FUNCTION static constexpr double cosine(int i) {
    constexpr double c[] = {0.041666666666666665,  -0.0013888888888887397,
                            2.4801587298765688e-5, -2.7557317271729793e-7,
                            2.0876146268403198e-9, -1.1382632425521718e-11};
    return c[i];
  }
};

/// What one uniform number is made of: a word and, in double, the word below it.
template <class Bits>
struct UniformBits {
  Bits upper, lower;
};

template <class Ops>
struct BoxMuller {
  using T    = typename Ops::scalar;
  using Real = typename Ops::real;
  using Bits = typename Ops::bits;  ///< unsigned lanes as wide as Real, each with a 32-bit word

  MEANDER_FUNCTION static void pair(UniformBits<Bits> const& u, UniformBits<Bits> const& v,
                                    Real& first, Real& second) {
    Real const r = radius(u);
    // v is an angle of so many quarter turns (to the nearest) and a rest of an eighth at most.
    Bits const shifted = v.upper + eighth;
    Bits const quarter = shifted >> 30;
    Real const x       = Ops::turn_to_angle(shifted & quarter_mask, v.lower);
    Real const square  = x * x;
    Real sine = Ops::splat(Series::sine(last)), cosine = Ops::splat(Series::cosine(last));
#if defined(__CUDACC__)
#pragma unroll
#else
#pragma GCC unroll 8
#endif
    for (int i = last - 1; i >= 0; --i) {
      sine   = Ops::fma(sine, square, Ops::splat(Series::sine(i)));
      cosine = Ops::fma(cosine, square, Ops::splat(Series::cosine(i)));
    }
    sine = Ops::fma(sine, x * square, x);
    cosine =
        Ops::fma(cosine, square * square, Ops::fma(square, Ops::splat(T(-0.5)), Ops::splat(T(1))));
    auto const swap = (quarter & 1) != 0;
    first           = r * Ops::negate_if((quarter + 1) & 2, swap ? sine : cosine);
    second          = r * Ops::negate_if(quarter & 2, swap ? cosine : sine);
  }

 private:
  using Series                                = SinCosSeries<T>;
  static constexpr int last                   = Series::terms - 1;
  static constexpr std::uint32_t eighth       = std::uint32_t{1} << 29;
  static constexpr std::uint32_t quarter_mask = (std::uint32_t{1} << 30) - 1;

  MEANDER_FUNCTION static Real radius(UniformBits<Bits> const& u) {
    auto const upper_half = (u.upper >> 31) != 0;
    Bits const flip       = upper_half ? Bits{} + 0xffffffffu : Bits{};
    Real const distance   = Ops::to_unit(u.upper ^ flip, u.lower ^ flip);  // from zero or one
    return Ops::sqrt(T(-2) * Ops::log_of(distance, upper_half));
  }
};

}  // namespace meander::impl
