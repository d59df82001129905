// SPDX-License-Identifier: BSD-3-Clause
#include "loss_curve.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "axes.hpp"
#include "interrupts.hpp"
#include "picture.hpp"

namespace meander::cli {

namespace {

constexpr int width = 720, height = 400;  // of the panel, in pixels
constexpr int top_margin = 48, bottom_margin = 72, right_margin = 40, border = 14;

constexpr int dash_period = 12, dash = 7;

constexpr Colour grid_colour       = {228, 228, 232};
constexpr Colour train_colour      = {38, 98, 176};
constexpr Colour validation_colour = {214, 96, 30};
constexpr Colour floor_colour      = {110, 110, 118};

using Points = std::vector<LossCurve::Point>;

Points finite(Points points) {
  std::erase_if(points, [](LossCurve::Point const& p) { return !std::isfinite(p.loss); });
  return points;
}

/// \brief The losses from a step on; all where there are none.
std::vector<double> losses_from(Points const& points, double step) {
  std::vector<double> losses;
  for (auto const& point : points) {
    if (point.step >= step) losses.push_back(point.loss);
  }
  return losses.empty() && step > 0 ? losses_from(points, 0) : losses;
}

/// \brief From the least loss to where all but the first steps are.
Range range_of(LossCurve const& curve) {
  constexpr double shown = 0.97;
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (auto const* points : {&curve.train, &curve.validation}) {
    if (points->empty()) continue;
    auto losses = losses_from(*points, curve.settled);
    std::ranges::sort(losses);
    low  = std::min(low, losses.front());
    high = std::max(
        high, losses[static_cast<std::size_t>(shown * static_cast<double>(losses.size() - 1))]);
  }
  if (low > high) low = high = 0;
  if (curve.floor) low = std::min(low, *curve.floor);
  double const least_width = std::max(1e-6, 1e-6 * std::abs(high));
  double const extra       = std::max(high - low, least_width) * 0.06;
  return {low - extra, high + extra};
}

/// \brief The panel: where values lie in the picture.
class Panel {
 public:
  Panel(Picture& picture, int left, Range steps, Range losses)
      : picture_(picture), left_(left), steps_(steps), losses_(losses) {}

  double x(double step) const { return left_ + pixel_of(step, steps_, width); }
  double y(double loss) const { return top_margin + height - pixel_of(loss, losses_, height); }

  /// \brief A line two pixels wide, within the panel.
  void line(double x0, double y0, double x1, double y1, Colour colour) const {
    // A loss far above the panel must not take a million dots to be drawn.
    constexpr double above = top_margin - 2.0 * height, below = top_margin + 3.0 * height;
    y0             = std::clamp(y0, above, below);
    y1             = std::clamp(y1, above, below);
    int const dots = 1 + static_cast<int>(2 * std::max(std::abs(x1 - x0), std::abs(y1 - y0)));
    for (int i = 0; i <= dots; ++i) {
      double const t = static_cast<double>(i) / dots;
      dot(x0 + t * (x1 - x0), y0 + t * (y1 - y0), colour);
    }
  }

  void curve(Points const& points, Colour colour) const {
    for (std::size_t i = 1; i < points.size(); ++i) {
      line(x(points[i - 1].step), y(points[i - 1].loss), x(points[i].step), y(points[i].loss),
           colour);
    }
    if (points.size() == 1) disc(points[0], 3, colour);
  }

  void dashes(double loss, Colour colour) const {
    for (int i = 0; i < width; ++i) {
      if (i % dash_period < dash) dot(left_ + i, y(loss), colour);
    }
  }

  void disc(LossCurve::Point const& point, int radius, Colour colour) const {
    for (int dy = -radius; dy <= radius; ++dy) {
      for (int dx = -radius; dx <= radius; ++dx) {
        if (dx * dx + dy * dy <= radius * radius)
          dot(x(point.step) + dx, y(point.loss) + dy, colour);
      }
    }
  }

 private:
  void dot(double x, double y, Colour colour) const {
    auto const column = static_cast<int>(std::lround(x)), row = static_cast<int>(std::lround(y));
    if (column < left_ || column + 1 >= left_ + width || row < top_margin ||
        row + 1 >= top_margin + height) {
      return;
    }
    picture_.fill(column, row, 2, 2, colour);
  }

  Picture& picture_;
  int left_;
  Range steps_, losses_;
};

void draw_axes(Picture& picture, int left, std::vector<Tick> const& along,
               std::vector<Tick> const& up) {
  int const bottom = top_margin + height;
  for (auto const& tick : along) {
    picture.fill(left + tick.at, top_margin, 1, height, grid_colour);
    picture.fill(left + tick.at, bottom, 1, tick_length, ink);
    picture.text(left + tick.at - left_of_tick(tick.text), bottom + tick_length + tick_space,
                 tick.text, ink);
  }
  for (auto const& tick : up) {
    picture.fill(left, bottom - 1 - tick.at, width, 1, grid_colour);
    picture.fill(left - tick_length, bottom - 1 - tick.at, tick_length, 1, ink);
    picture.text(left - tick_length - tick_space - text_width(tick.text),
                 bottom - 1 - tick.at - Picture::glyph_height / 2, tick.text, ink);
  }
  picture.fill(left - 1, top_margin - 1, width + 2, 1, ink);
  picture.fill(left - 1, bottom, width + 2, 1, ink);
  picture.fill(left - 1, top_margin, 1, height, ink);
  picture.fill(left + width, top_margin, 1, height, ink);
  picture.text(left, (top_margin - Picture::glyph_height) / 2, "loss (nats per row)", ink);
  std::string const step = "step";
  picture.text(left + (width - text_width(step)) / 2,
               bottom + bottom_margin - border - Picture::glyph_height, step, ink);
}

/// \brief Above the panel, from the right: a piece of each curve and its name.
void draw_legend(Picture& picture, int left, LossCurve const& curve) {
  constexpr int sample = 28, gap = 8, between = 26, dashed_sample = dash_period + dash;
  std::vector<std::pair<std::string, Colour>> entries;
  if (curve.floor) entries.emplace_back(curve.floor_name, floor_colour);
  if (curve.best) entries.emplace_back("kept", validation_colour);
  if (!curve.validation.empty()) entries.emplace_back("validation", validation_colour);
  entries.emplace_back("train", train_colour);
  int x            = left + width;
  int const middle = top_margin / 2;
  for (auto const& [name, colour] : entries) {
    x -= text_width(name);
    picture.text(x, middle - Picture::glyph_height / 2, name, ink);
    x -= gap + sample;
    if (name == "kept") {
      constexpr int radius = 5;
      for (int dy = -radius; dy <= radius; ++dy) {
        for (int dx = -radius; dx <= radius; ++dx) {
          if (dx * dx + dy * dy <= radius * radius)
            picture.set(x + sample - radius + dx, middle + dy, colour);
        }
      }
    } else {
      bool const dashed = name == curve.floor_name;
      for (int i = 0; i < (dashed ? dashed_sample : sample); ++i) {
        if (!dashed || i % dash_period < dash) picture.fill(x + i, middle - 1, 1, 3, colour);
      }
    }
    x -= between;
  }
}

}  // namespace

void draw_loss_curve(LossCurve curve, std::filesystem::path const& path) {
  curve.train      = finite(std::move(curve.train));
  curve.validation = finite(std::move(curve.validation));
  if (curve.best && !std::isfinite(curve.best->loss)) curve.best.reset();
  double last = 1;
  for (auto const* points : {&curve.train, &curve.validation}) {
    if (!points->empty()) last = std::max(last, points->back().step);
  }
  Range const steps = {0, last}, losses = range_of(curve);
  auto const along = ticks_of({0, last * (1 + 1.0 / width)}, width + 1),
             up    = ticks_of(losses, height);
  int widest       = 0;
  for (auto const& tick : up) widest = std::max(widest, text_width(tick.text));
  int const left = border + widest + tick_space + tick_length;
  Picture picture(left + width + right_margin, top_margin + height + bottom_margin, paper);
  draw_axes(picture, left, along, up);
  Panel const panel(picture, left, steps, losses);
  if (curve.floor) panel.dashes(*curve.floor, floor_colour);
  panel.curve(curve.train, train_colour);
  panel.curve(curve.validation, validation_colour);
  if (curve.best) panel.disc(*curve.best, 5, validation_colour);
  draw_legend(picture, left, curve);
  DeferSignals const defer;
  picture.write_png(path);
}

}  // namespace meander::cli
