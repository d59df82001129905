// SPDX-License-Identifier: BSD-3-Clause
#include "axes.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace meander::cli {

namespace {

double tick_step(Range range) {
  double const rough = (range.high - range.low) / 5;
  double const power = std::pow(10.0, std::floor(std::log10(rough)));
  for (double const factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

std::string tick_text(double value) {
  std::array<char, 32> text = {};
  std::snprintf(text.data(), text.size(), "%g", value);
  return text.data();
}

}  // namespace

double pixel_of(double value, Range range, int length) {
  return (value - range.low) / (range.high - range.low) * length;
}

int left_of_tick(std::string const& text) {
  return text_width(text) / 2 + (text.starts_with('-') ? Picture::glyph_width / 2 : 0);
}

int text_width(std::string const& text) {
  return static_cast<int>(text.size()) * Picture::glyph_width - Picture::glyph_width / 6;
}

std::vector<Tick> ticks_of(Range range, int length) {
  double const step = tick_step(range);
  auto const first  = static_cast<std::int64_t>(std::ceil(range.low / step));
  auto const last   = static_cast<std::int64_t>(std::floor(range.high / step));
  std::vector<Tick> ticks;
  for (auto i = first; i <= last; ++i) {
    double const value = static_cast<double>(i) * step;
    auto const at      = static_cast<int>(std::lround(pixel_of(value, range, length)));
    if (at >= 0 && at < length) ticks.push_back({at, tick_text(value)});
  }
  return ticks;
}

}  // namespace meander::cli
