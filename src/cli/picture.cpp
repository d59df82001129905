// SPDX-License-Identifier: BSD-3-Clause
#include "picture.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <stdexcept>
#include <string>

#include <png.h>

#include "../file.hpp"

namespace meander::cli {

namespace {

constexpr int glyph_scale           = 2;
constexpr std::size_t glyph_columns = 5;
constexpr std::size_t glyph_rows    = 9;  // seven above the base line, two below

struct Glyph {
  char character;
  std::string_view rows;  // separated by '|'
};

constexpr auto glyphs                    = std::to_array<Glyph>({
                       {'0', " ### |#   #|#  ##|# # #|##  #|#   #| ### |     |     "},
                       {'1', "  #  | ##  |  #  |  #  |  #  |  #  | ### |     |     "},
                       {'2', " ### |#   #|    #|   # |  #  | #   |#####|     |     "},
                       {'3', "#####|   # |  #  |   # |    #|#   #| ### |     |     "},
                       {'4', "   # |  ## | # # |#  # |#####|   # |   # |     |     "},
                       {'5', "#####|#    |#### |    #|    #|#   #| ### |     |     "},
                       {'6', "  ## | #   |#    |#### |#   #|#   #| ### |     |     "},
                       {'7', "#####|    #|   # |  #  | #   | #   | #   |     |     "},
                       {'8', " ### |#   #|#   #| ### |#   #|#   #| ### |     |     "},
                       {'9', " ### |#   #|#   #| ####|    #|   # | ##  |     |     "},
                       {'a', "     |     | ### |    #| ####|#   #| ####|     |     "},
                       {'b', "#    |#    |#### |#   #|#   #|#   #|#### |     |     "},
                       {'c', "     |     | ### |#   #|#    |#   #| ### |     |     "},
                       {'d', "    #|    #| ####|#   #|#   #|#   #| ####|     |     "},
                       {'e', "     |     | ### |#   #|#####|#    | ### |     |     "},
                       {'f', "  ## | #   |#### | #   | #   | #   | #   |     |     "},
                       {'g', "     |     | ####|#   #|#   #|#   #| ####|    #| ### "},
                       {'h', "#    |#    |# ## |##  #|#   #|#   #|#   #|     |     "},
                       {'i', "  #  |     | ##  |  #  |  #  |  #  | ### |     |     "},
                       {'j', "   # |     |  ## |   # |   # |   # |   # |#  # | ##  "},
                       {'k', "#    |#    |#  # |# #  |##   |# #  |#  # |     |     "},
                       {'l', " ##  |  #  |  #  |  #  |  #  |  #  | ### |     |     "},
                       {'m', "     |     |## # |# # #|# # #|# # #|# # #|     |     "},
                       {'n', "     |     |# ## |##  #|#   #|#   #|#   #|     |     "},
                       {'o', "     |     | ### |#   #|#   #|#   #| ### |     |     "},
                       {'p', "     |     |#### |#   #|#   #|#   #|#### |#    |#    "},
                       {'q', "     |     | ####|#   #|#   #|#   #| ####|    #|    #"},
                       {'r', "     |     |# ## |##  #|#    |#    |#    |     |     "},
                       {'s', "     |     | ####|#    | ### |    #|#### |     |     "},
                       {'t', " #   | #   |#### | #   | #   | #   |  ## |     |     "},
                       {'u', "     |     |#   #|#   #|#   #|#  ##| ## #|     |     "},
                       {'v', "     |     |#   #|#   #|#   #| # # |  #  |     |     "},
                       {'w', "     |     |#   #|# # #|# # #|# # #| # # |     |     "},
                       {'x', "     |     |#   #| # # |  #  | # # |#   #|     |     "},
                       {'y', "     |     |#   #|#   #|#   #|#   #| ####|    #| ### "},
                       {'z', "     |     |#####|   # |  #  | #   |#####|     |     "},
                       {' ', "     |     |     |     |     |     |     |     |     "},
                       {'-', "     |     |     |#### |     |     |     |     |     "},
                       {'+', "     |     |  #  |  #  |#####|  #  |  #  |     |     "},
                       {'=', "     |     |     |#####|     |#####|     |     |     "},
                       {'.', "     |     |     |     |     | ##  | ##  |     |     "},
                       {',', "     |     |     |     |     | ##  |  #  | #   |     "},
                       {':', "     |     | ##  | ##  |     | ##  | ##  |     |     "},
                       {'(', "   # |  #  | #   | #   | #   |  #  |   # |     |     "},
                       {')', " #   |  #  |   # |   # |   # |  #  | #   |     |     "},
                       {'/', "    #|    #|   # |  #  | #   |#    |#    |     |     "},
                       {'_', "     |     |     |     |     |     |#####|     |     "},
});
constexpr std::string_view unknown_glyph = "#####|#   #|#   #|#   #|#   #|#   #|#####|     |     ";

std::string_view rows_of(char character) {
  auto const small        = static_cast<char>(std::tolower(static_cast<unsigned char>(character)));
  auto const* const found = std::ranges::find(glyphs, small, &Glyph::character);
  return found == glyphs.end() ? unknown_glyph : found->rows;
}

std::uint8_t mix(std::uint8_t from, std::uint8_t to, double part) {
  return static_cast<std::uint8_t>(std::lround(from + part * (to - from)));
}

}  // namespace

Colour colour_of(double value) {
  struct Stop {
    double at;
    Colour colour;
  };
  constexpr auto stops = std::to_array<Stop>({{0.0, {252, 252, 250}},
                                              {0.15, {250, 230, 186}},
                                              {0.35, {243, 172, 116}},
                                              {0.55, {219, 94, 98}},
                                              {0.75, {140, 44, 112}},
                                              {1.0, {38, 14, 66}}});
  value                = value > 0 ? std::min(value, 1.0) : 0.0;  // NaN counts as 0
  std::size_t i        = 1;
  while (i + 1 < stops.size() && value > stops[i].at) ++i;
  auto const& low   = stops[i - 1];
  auto const& high  = stops[i];
  double const part = (value - low.at) / (high.at - low.at);
  return {mix(low.colour.red, high.colour.red, part),
          mix(low.colour.green, high.colour.green, part),
          mix(low.colour.blue, high.colour.blue, part)};
}

Picture::Picture(int width, int height, Colour background) : width_(width), height_(height) {
  rgb_.resize(3 * static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
  fill(0, 0, width, height, background);
}

std::size_t Picture::offset(int x, int y) const {
  return 3 * (static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) +
              static_cast<std::size_t>(x));
}

Colour Picture::at(int x, int y) const {
  if (!contains(x, y)) return {};
  auto const i = offset(x, y);
  return {rgb_[i], rgb_[i + 1], rgb_[i + 2]};
}

void Picture::set(int x, int y, Colour colour) {
  if (!contains(x, y)) return;
  auto const i = offset(x, y);
  rgb_[i]      = colour.red;
  rgb_[i + 1]  = colour.green;
  rgb_[i + 2]  = colour.blue;
}

void Picture::fill(int x, int y, int width, int height, Colour colour) {
  for (int j = y; j < y + height; ++j) {
    for (int i = x; i < x + width; ++i) set(i, j, colour);
  }
}

void Picture::blend(int x, int y, Colour colour, double part) {
  auto const below = at(x, y);
  set(x, y,
      {mix(below.red, colour.red, part), mix(below.green, colour.green, part),
       mix(below.blue, colour.blue, part)});
}

void Picture::text(int x, int y, std::string_view text, Colour colour) {
  for (char const character : text) {
    auto const rows = rows_of(character);
    for (std::size_t row = 0; row < glyph_rows; ++row) {
      for (std::size_t column = 0; column < glyph_columns; ++column) {
        if (rows[row * (glyph_columns + 1) + column] == ' ') continue;
        fill(x + glyph_scale * static_cast<int>(column), y + glyph_scale * static_cast<int>(row),
             glyph_scale, glyph_scale, colour);
      }
    }
    x += glyph_width;
  }
}

void Picture::write_png(std::filesystem::path const& path) const {
  png_image image   = {};
  image.version     = PNG_IMAGE_VERSION;
  image.width       = static_cast<png_uint_32>(width_);
  image.height      = static_cast<png_uint_32>(height_);
  image.format      = PNG_FORMAT_RGB;
  auto const encode = [&](void* memory, png_alloc_size_t& size) {
    if (png_image_write_to_memory(&image, memory, &size, 0, rgb_.data(), 0, nullptr) == 0) {
      throw std::runtime_error("cannot write " + impl::path_in_quotes(path) + ": " + image.message);
    }
  };
  png_alloc_size_t size = 0;
  encode(nullptr, size);  // measures
  std::vector<std::uint8_t> bytes(size);
  encode(bytes.data(), size);
  impl::AtomicFile file(path);
  file.write(bytes.data(), size);
  file.commit();
}

}  // namespace meander::cli
