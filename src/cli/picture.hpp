// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace meander::cli {

struct Colour {
  std::uint8_t red = 0, green = 0, blue = 0;
};

/// \brief A colour for a value from 0 (nearly white) to 1 (nearly black), ever darker, so that it
/// reads the same without colour vision and on paper.
Colour colour_of(double value);

/// \brief An RGB picture in memory. Drawing outside it does nothing.
class Picture {
 public:
  static constexpr int glyph_width  = 12;  ///< of text, spacing included
  static constexpr int glyph_height = 14;  ///< of a capital letter or digit

  Picture(int width, int height, Colour background);

  int width() const { return width_; }
  int height() const { return height_; }
  Colour at(int x, int y) const;
  void set(int x, int y, Colour colour);
  void fill(int x, int y, int width, int height, Colour colour);
  /// \brief Mixes a colour in, `part` of it from 0 to 1.
  void blend(int x, int y, Colour colour, double part);
  /// \brief Letters (shown small), digits and simple signs; x, y is the upper left corner.
  void text(int x, int y, std::string_view text, Colour colour);

  /// \brief Writes a PNG, under its name only when it is complete.
  /// \throws std::runtime_error
  void write_png(std::filesystem::path const& path) const;

 private:
  std::size_t offset(int x, int y) const;
  bool contains(int x, int y) const { return x >= 0 && y >= 0 && x < width_ && y < height_; }

  int width_, height_;
  std::vector<std::uint8_t> rgb_;
};

}  // namespace meander::cli
