// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "picture.hpp"

namespace meander::cli {

inline constexpr Colour ink      = {40, 40, 48};
inline constexpr Colour paper    = {255, 255, 255};
inline constexpr int tick_length = 6, tick_space = 6;  ///< pixels: of a tick, and before its text

/// \brief The interval that an axis shows.
struct Range {
  double low, high;
};

/// \brief Where a value lies on an axis of `length` pixels, from its beginning.
double pixel_of(double value, Range range, int length);

/// \brief How wide a text is drawn, in pixels.
int text_width(std::string const& text);

struct Tick {
  int at;  ///< pixels from the beginning of the axis
  std::string text;
};

/// \brief Round numbers: about five of them.
std::vector<Tick> ticks_of(Range range, int length);

/// \brief Half the width by which a number is drawn to the left of its tick; a minus sign is not
/// seen as part of it.
int left_of_tick(std::string const& text);

}  // namespace meander::cli
