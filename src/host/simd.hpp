// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#endif

/// Short vectors of rows, on the vector extension that GCC and Clang share. Only what the extension
/// lacks is written out: the fused multiply-add (a*b + c would be contracted at the compiler's
/// discretion, and results must not depend on which copy of a loop a row passes through).
namespace meander::impl::host {

#if defined(__AVX512F__) && defined(__AVX512DQ__)
inline constexpr int vector_bytes     = 64;
inline constexpr int vector_registers = 32;
#elif defined(__AVX2__)
inline constexpr int vector_bytes     = 32;
inline constexpr int vector_registers = 16;
#else
inline constexpr int vector_bytes     = 16;
inline constexpr int vector_registers = 16;
#endif

template <class T>
struct Simd;

template <>
struct Simd<float> {
  typedef float vec __attribute__((vector_size(vector_bytes)));
  typedef std::int32_t ivec __attribute__((vector_size(vector_bytes)));
  static constexpr int width = vector_bytes / 4;
};

template <>
struct Simd<double> {
  typedef double vec __attribute__((vector_size(vector_bytes)));
  typedef std::int64_t ivec __attribute__((vector_size(vector_bytes)));
  static constexpr int width = vector_bytes / 8;
};

template <class T>
using vec = typename Simd<T>::vec;
template <class T>
using ivec = typename Simd<T>::ivec;
template <class T>
inline constexpr int width = Simd<T>::width;

#define MEANDER_INLINE inline __attribute__((always_inline))

template <class T>
MEANDER_INLINE vec<T> splat(T x) {
  return x - vec<T>{};  // the compiler drops a subtraction of zero, but not an addition
}

MEANDER_INLINE vec<float> fma(vec<float> a, vec<float> b, vec<float> c) {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
  return (vec<float>)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__) && defined(__FMA__)
  return (vec<float>)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__ARM_NEON) && defined(__aarch64__)
  return (vec<float>)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return a * b + c;
#endif
}

MEANDER_INLINE vec<double> fma(vec<double> a, vec<double> b, vec<double> c) {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
  return (vec<double>)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__AVX2__) && defined(__FMA__)
  return (vec<double>)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#elif defined(__ARM_NEON) && defined(__aarch64__)
  return (vec<double>)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#else
  return a * b + c;
#endif
}

template <class T>
MEANDER_INLINE vec<T> abs(vec<T> x) {
  constexpr auto sign = std::is_same_v<T, float> ? std::int64_t(0x80000000) : INT64_MIN;
  using lane          = std::remove_reference_t<decltype(ivec<T>{}[0])>;
  return (vec<T>)((ivec<T>)x & ~(ivec<T>{} + lane(sign)));
}

/// (std::sqrt on the lanes would also look for negative ones, to set errno. GCC 12 warns of what
/// the plain AVX-512 forms expand to; the masked ones, with nothing masked out, are the same.)
MEANDER_INLINE vec<float> sqrt(vec<float> x) {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
  return (vec<float>)_mm512_maskz_sqrt_ps(0xffff, (__m512)x);
#elif defined(__AVX2__) && defined(__FMA__)
  return (vec<float>)_mm256_sqrt_ps((__m256)x);
#elif defined(__SSE2__)
  return (vec<float>)_mm_sqrt_ps((__m128)x);
#elif defined(__ARM_NEON) && defined(__aarch64__)
  return (vec<float>)vsqrtq_f32((float32x4_t)x);
#else
  for (int i = 0; i < width<float>; ++i) x[i] = std::sqrt(x[i]);
  return x;
#endif
}

MEANDER_INLINE vec<double> sqrt(vec<double> x) {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
  return (vec<double>)_mm512_maskz_sqrt_pd(0xff, (__m512d)x);
#elif defined(__AVX2__) && defined(__FMA__)
  return (vec<double>)_mm256_sqrt_pd((__m256d)x);
#elif defined(__SSE2__)
  return (vec<double>)_mm_sqrt_pd((__m128d)x);
#elif defined(__ARM_NEON) && defined(__aarch64__)
  return (vec<double>)vsqrtq_f64((float64x2_t)x);
#else
  for (int i = 0; i < width<double>; ++i) x[i] = std::sqrt(x[i]);
  return x;
#endif
}

/// Whether any lane of a comparison is true.
template <class T>
MEANDER_INLINE bool any(ivec<T> lanes) {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
  return _mm512_test_epi64_mask((__m512i)lanes, (__m512i)lanes) != 0;
#elif defined(__AVX2__) && defined(__FMA__)
  return !_mm256_testz_si256((__m256i)lanes, (__m256i)lanes);
#else
  std::int64_t words[vector_bytes / 8];
  __builtin_memcpy(words, &lanes, sizeof lanes);
  return (words[0] | words[1]) != 0;
#endif
}

/// Makes the compiler hold x in a register. Else it loads x again for each multiply-add, since an
/// instruction can do both, and the loads become what limits the loop.
template <class V>
MEANDER_INLINE void hold_in_register(V& x) {
#if defined(__AVX512F__)
  asm("" : "+v"(x));
#elif defined(__SSE2__)
  asm("" : "+x"(x));
#elif defined(__ARM_NEON) && defined(__aarch64__)
  asm("" : "+w"(x));
#endif
}

/// Unaligned load and store of a whole vector.
template <class T>
MEANDER_INLINE vec<T> load(T const* p) {
  vec<T> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

template <class T>
MEANDER_INLINE void store(T* p, vec<T> v) {
  __builtin_memcpy(p, &v, sizeof v);
}

/// width<Compute> values of another type, converted.
MEANDER_INLINE vec<double> load_as_double(float const* p) {
  typedef float half __attribute__((vector_size(vector_bytes / 2)));
  half v;
  __builtin_memcpy(&v, p, sizeof v);
  return __builtin_convertvector(v, vec<double>);
}

MEANDER_INLINE void store_as_float(float* p, vec<double> x) {
  typedef float half __attribute__((vector_size(vector_bytes / 2)));
  half const v = __builtin_convertvector(x, half);
  __builtin_memcpy(p, &v, sizeof v);
}

template <class Compute, class Storage>
MEANDER_INLINE vec<Compute> load_as(Storage const* p) {
  if constexpr (std::is_same_v<Compute, Storage>)
    return load<Compute>(p);
  else
    return load_as_double(p);
}

template <class Compute, class Storage>
MEANDER_INLINE void store_as(Storage* p, vec<Compute> v) {
  if constexpr (std::is_same_v<Compute, Storage>)
    store<Compute>(p, v);
  else
    store_as_float(p, v);
}

/// The same past the caches, for results larger than they are; p must be aligned to the vector.
template <class T>
MEANDER_INLINE void stream(T* p, vec<T> v) {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
  _mm512_stream_si512((__m512i*)p, (__m512i)v);
#elif defined(__AVX2__) && defined(__FMA__)
  _mm256_stream_si256((__m256i*)p, (__m256i)v);
#else
  store<T>(p, v);
#endif
}

/// Orders streamed stores before whatever the thread does next.
MEANDER_INLINE void stream_fence() {
#if defined(__AVX2__) && defined(__FMA__)
  _mm_sfence();
#endif
}

namespace detail {

/// Lanes of a and b in turn, taken from their lower (Half = 0) or upper (Half = 1) halves.
template <int Half, class V, int... I>
MEANDER_INLINE V interleave(V a, V b, std::integer_sequence<int, I...>) {
  constexpr int n = sizeof...(I);
  return __builtin_shufflevector(a, b, (I % 2 * n + Half * (n / 2) + I / 2)...);
}

}  // namespace detail

/// Transposes width x width values in registers. Number the values by (row, lane): interleaving
/// rows i and i + n/2 into rows 2i and 2i + 1 rotates the bits of that number by one, so log2(n)
/// rounds exchange row and lane.
template <class T>
MEANDER_INLINE void transpose(vec<T> (&m)[width<T>]) {
  constexpr int n = width<T>;
  using lanes     = std::make_integer_sequence<int, n>;
#pragma GCC unroll 8
  for (int round = 1; round < n; round *= 2) {
    vec<T> t[n];
#pragma GCC unroll 16
    for (int i = 0; i < n / 2; ++i) {
      t[2 * i]     = detail::interleave<0>(m[i], m[i + n / 2], lanes{});
      t[2 * i + 1] = detail::interleave<1>(m[i], m[i + n / 2], lanes{});
    }
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) m[i] = t[i];
  }
}

}  // namespace meander::impl::host
