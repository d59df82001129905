// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "axes.hpp"
#include "checks.hpp"
#include "commands.hpp"
#include "flow_job.hpp"
#include "model_arguments.hpp"
#include "npy.hpp"
#include "paths.hpp"
#include "picture.hpp"

namespace meander::cli {

namespace {

constexpr int side       = 400;  // pixels of a panel
constexpr int top_margin = 48, bottom_margin = 48;

struct DensityArguments {
  std::string before, after, model, out;
  std::optional<std::string> title_before, title_after;
  std::vector<std::uint64_t> columns = {0, 1};
  std::vector<double> range;
  std::optional<int> bins;
  ModelArguments options;
};

/// \brief Calls visit(x, y) for every row whose two coordinates are finite.
template <class Visit>
void for_each_point(NpyReader const& file, std::vector<std::uint64_t> const& columns,
                    std::uint64_t every, Visit const& visit) {
  constexpr std::uint64_t values_per_chunk = std::uint64_t{1} << 20;
  auto const cols                          = file.cols();
  auto const chunk                         = std::max<std::uint64_t>(1, values_per_chunk / cols);
  std::vector<double> values(std::min(chunk, file.rows()) * cols);
  for (std::uint64_t first = 0; first < file.rows(); first += chunk) {
    auto const count = std::min(chunk, file.rows() - first);
    file.read(first, count, values.data());
    for (std::uint64_t i = 0; i < count; ++i) {
      if ((first + i) % every != 0) continue;
      auto const at = [&](std::uint64_t j) {
        return values[file.column_major() ? j * count + i : i * cols + j];
      };
      double const x = at(columns[0]);
      double const y = at(columns[1]);
      if (std::isfinite(x) && std::isfinite(y)) visit(x, y);
    }
  }
}

/// \brief A sample of one file's coordinates, for quantiles.
std::array<std::vector<double>, 2> sample(NpyReader const& file,
                                          std::vector<std::uint64_t> const& columns) {
  constexpr std::uint64_t most = std::uint64_t{1} << 17;
  std::array<std::vector<double>, 2> coordinates;
  for_each_point(file, columns, 1 + file.rows() / most, [&](double x, double y) {
    coordinates[0].push_back(x);
    coordinates[1].push_back(y);
  });
  if (coordinates[0].empty()) {
    throw std::runtime_error(impl::path_in_quotes(file.path()) + " has no row that is finite");
  }
  std::ranges::sort(coordinates[0]);
  std::ranges::sort(coordinates[1]);
  return coordinates;
}

double quantile(std::vector<double> const& sorted, double part) {
  return sorted[static_cast<std::size_t>(
      std::lround(part * static_cast<double>(sorted.size() - 1)))];
}

Range widen(double low, double high) {
  constexpr double border = 0.08;
  double const width      = high > low ? high - low : 1;
  return {low - border * width, high + border * width};
}

using Field = std::vector<double>;  // side * side, row by row from the top

std::size_t cell(int x, int y) {
  return static_cast<std::size_t>(y) * side + static_cast<std::size_t>(x);
}

/// \brief One pass of a Gaussian filter along the rows; the result is transposed.
Field smooth_and_transpose(Field const& field, double sigma) {
  int const reach = std::min(side, static_cast<int>(std::ceil(4 * sigma)));
  std::vector<double> weights;
  double sum = 0;
  for (int k = -reach; k <= reach; ++k) {
    weights.push_back(std::exp(-0.5 * k * k / (sigma * sigma)));
    sum += weights.back();
  }
  Field result(field.size());
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      double value = 0;
      for (int k = std::max(-reach, -x); k <= std::min(reach, side - 1 - x); ++k) {
        int const tap = k + reach;
        value += weights[static_cast<std::size_t>(tap)] * field[cell(x + k, y)];
      }
      result[cell(y, x)] = value / sum;
    }
  }
  return result;
}

/// \brief The share of the rows in each pixel.
Field shares(NpyReader const& file, std::vector<std::uint64_t> const& columns, Range range) {
  Field field(std::size_t{side} * side, 0.0);
  for_each_point(file, columns, 1, [&](double x, double y) {
    double const column = pixel_of(x, range, side);
    double const row    = side - pixel_of(y, range, side);
    if (column < 0 || column >= side || row < 0 || row >= side) return;
    field[cell(static_cast<int>(column), static_cast<int>(row))] += 1;
  });
  for (auto& value : field) value /= static_cast<double>(file.rows());
  return field;
}

Field smooth(Field const& field, double sigma) {
  return smooth_and_transpose(smooth_and_transpose(field, sigma), sigma);
}

/// \brief The rows' density, from a kernel estimate whose bandwidth grows where rows are sparse:
/// with the inverse square root of a first estimate (Abramson 1982), in a few steps.
Field density(Field const& counts, std::uint64_t rows) {
  // A share of the picture's side that shrinks with the number of rows as it should in the plane.
  double const sigma = std::max(1.0, 0.095 * side * std::pow(static_cast<double>(rows), -1.0 / 6));
  auto pilot         = smooth(counts, sigma);
  double log_mean    = 0;
  double total       = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    log_mean += counts[i] * std::log(pilot[i]);
    total += counts[i];
  }
  if (total == 0) return pilot;
  double const usual          = std::exp(log_mean / total);
  constexpr std::array widths = {0.9, 1.05, 1.25, 1.5, 1.8, 2.2};
  std::array<Field, widths.size()> parts;
  parts.fill(Field(counts.size(), 0.0));
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    double const width     = std::sqrt(usual / pilot[i]);
    auto const* const step = std::ranges::upper_bound(widths, width);
    parts[static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, step - widths.begin() - 1))][i] =
        counts[i];
  }
  Field sum(counts.size(), 0.0);
  for (std::size_t k = 0; k < widths.size(); ++k) {
    auto const part = smooth(parts[k], sigma * widths[k]);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  return sum;
}

/// \brief The same for square bins, each painted in its mean.
Field binned(Field const& pixels, int bins) {
  auto const bin_of = [&](int pixel) { return pixel * bins / side; };
  std::vector<double> sum(static_cast<std::size_t>(bins) * static_cast<std::size_t>(bins), 0.0);
  std::vector<double> size(sum.size(), 0.0);
  auto const bin = [&](int x, int y) {
    return static_cast<std::size_t>(bin_of(y)) * static_cast<std::size_t>(bins) +
           static_cast<std::size_t>(bin_of(x));
  };
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      sum[bin(x, y)] += pixels[cell(x, y)];
      size[bin(x, y)] += 1;
    }
  }
  Field result(pixels.size());
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) result[cell(x, y)] = sum[bin(x, y)] / size[bin(x, y)];
  }
  return result;
}

/// \brief What a flow on the plane gives each pixel: its density at the middle times the area.
Field density_of(Model const& model, std::string const& name, Range range) {
  double const pixel = (range.high - range.low) / side;
  std::vector<double> middles;
  middles.reserve(2 * std::size_t{side} * side);
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      middles.push_back(range.low + (x + 0.5) * pixel);
      middles.push_back(range.high - (y + 0.5) * pixel);
    }
  }
  auto field = log_prob_of(model, name, middles);
  if (std::ranges::all_of(field, [](double log_prob) { return std::isnan(log_prob); })) {
    throw std::runtime_error(impl::path_in_quotes(name) +
                             ": the density is NaN everywhere within the range of the axes");
  }
  for (auto& value : field) {
    value = std::exp(value) * pixel * pixel;
    if (!std::isfinite(value)) value = 0;
  }
  return field;
}

void draw_field(Picture& picture, int left, Field const& field, double most) {
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      // The square root shows the tails.
      picture.set(left + x, top_margin + y, colour_of(std::sqrt(field[cell(x, y)] / most)));
    }
  }
}

/// \brief Small dots, where there are few enough of them to be seen apart.
void draw_points(Picture& picture, int left, NpyReader const& file,
                 std::vector<std::uint64_t> const& columns, Range range) {
  constexpr std::uint64_t most_points = 5000;
  constexpr double strength           = 0.35;
  if (file.rows() > most_points) return;
  for_each_point(file, columns, 1, [&](double x, double y) {
    double const column = pixel_of(x, range, side);
    double const row    = side - pixel_of(y, range, side);
    if (column < 1 || column >= side - 1 || row < 1 || row >= side - 1) return;
    for (int const dy : {0, 1}) {
      for (int const dx : {0, 1}) {
        picture.blend(left + static_cast<int>(column) + dx, top_margin + static_cast<int>(row) + dy,
                      ink, strength);
      }
    }
  });
}

/// \brief Where the panels lie: as far apart, and from the picture's borders, as labels need.
struct Places {
  std::array<int, 2> left;
  int width;
};

Places places_of(std::vector<Tick> const& ticks) {
  constexpr int border = 10;
  int widest           = 0;
  for (auto const& tick : ticks) widest = std::max(widest, text_width(tick.text));
  int const before = border + widest + tick_space + tick_length;
  int const after  = border + widest / 2;
  return {{before, before + side + after + before}, 2 * (before + side + after)};
}

void draw_axes(Picture& picture, int left, std::vector<Tick> const& ticks,
               std::string const& title) {
  int const bottom = top_margin + side;
  picture.fill(left - 1, top_margin - 1, side + 2, 1, ink);
  picture.fill(left - 1, bottom, side + 2, 1, ink);
  picture.fill(left - 1, top_margin, 1, side, ink);
  picture.fill(left + side, top_margin, 1, side, ink);
  picture.text(left + (side - text_width(title)) / 2, (top_margin - Picture::glyph_height) / 2,
               title, ink);
  for (auto const& [at, text] : ticks) {
    picture.fill(left + at, bottom, 1, tick_length, ink);
    picture.text(left + at - left_of_tick(text), bottom + tick_length + tick_space, text, ink);
    picture.fill(left - tick_length, bottom - 1 - at, tick_length, 1, ink);
    picture.text(left - tick_length - tick_space - text_width(text),
                 bottom - 1 - at - Picture::glyph_height / 2, text, ink);
  }
}

void check(NpyReader const& file, std::vector<std::uint64_t> const& columns) {
  auto const highest = std::ranges::max(columns);
  if (highest >= file.cols()) {
    throw std::runtime_error(impl::path_in_quotes(file.path()) + " has " +
                             std::to_string(file.cols()) + " columns, column " +
                             std::to_string(highest) + " (counted from 0) was asked for");
  }
}

/// \brief The rows of a file as a panel shows them.
Field rows_field(NpyReader const& file, DensityArguments const& arguments, Range range) {
  auto const pixels = shares(file, arguments.columns, range);
  return arguments.bins ? binned(pixels, *arguments.bins) : density(pixels, file.rows());
}

/// \brief From where to where nearly all rows of the files go.
Range range_of(std::vector<NpyReader const*> const& files,
               std::vector<std::uint64_t> const& columns) {
  constexpr double tail = 0.002;
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (auto const* file : files) {
    for (auto const& sorted : sample(*file, columns)) {
      low  = std::min(low, quantile(sorted, tail));
      high = std::max(high, quantile(sorted, 1 - tail));
    }
  }
  return widen(low, high);
}

void check_arguments(DensityArguments const& arguments) {
  if (arguments.before.empty() && arguments.model.empty()) {
    throw CLI::ValidationError("neither --before nor --model was given");
  }
  if (!arguments.before.empty() && !arguments.model.empty()) {
    throw CLI::ValidationError("--before", "give either --before or --model");
  }
  if (!arguments.model.empty() && arguments.columns != std::vector<std::uint64_t>{0, 1}) {
    throw CLI::ValidationError("--columns", "goes with --before only");
  }
  for (auto const& [option, path] :
       {std::pair{"--before", &arguments.before}, std::pair{"--after", &arguments.after},
        std::pair{"--model", &arguments.model}}) {
    if (!path->empty() && same_file(arguments.out, *path)) {
      throw CLI::ValidationError("--out", std::string("would replace the file of ") + option);
    }
  }
}

Model read_planar_model(DensityArguments const& arguments) {
  auto model = read_model(arguments.model, arguments.options.read_options());
  if (model.dim() != 2) {
    throw std::runtime_error(impl::path_in_quotes(arguments.model) + " has dimension " +
                             std::to_string(model.dim()) +
                             ", only a density in the plane is drawn");
  }
  return model;
}

void run(DensityArguments const& arguments) {
  check_arguments(arguments);
  auto const& columns = arguments.columns;
  std::optional<Model> model;
  std::optional<NpyReader> before;
  if (!arguments.model.empty()) model = read_planar_model(arguments);
  if (!arguments.before.empty()) before.emplace(arguments.before);
  NpyReader const after(arguments.after);
  std::vector<NpyReader const*> files;
  if (before) files.push_back(&*before);
  files.push_back(&after);
  for (auto const* file : files) check(*file, columns);
  auto const range = arguments.range.empty() ? range_of(files, columns)
                                             : Range{arguments.range[0], arguments.range[1]};
  if (!(range.high > range.low) || !std::isfinite(range.high - range.low)) {
    throw std::runtime_error("the range of the axes is empty or not finite");
  }

  if (model) arguments.options.note_assumptions(arguments.model, *model);
  std::array const fields = {
      before ? rows_field(*before, arguments, range) : density_of(*model, arguments.model, range),
      rows_field(after, arguments, range)};
  double const most = std::max(std::ranges::max(fields[0]), std::ranges::max(fields[1]));
  if (!(most > 0)) throw std::runtime_error("no row lies within the range of the axes");
  auto const ticks  = ticks_of(range, side);
  auto const places = places_of(ticks);
  Picture picture(places.width, top_margin + side + bottom_margin, paper);
  std::array const titles = {arguments.title_before.value_or(before ? "before: z" : "density q(x)"),
                             arguments.title_after.value_or(before ? "after: y" : "sample")};
  std::array<NpyReader const*, 2> const points = {before ? &*before : nullptr, &after};
  for (std::size_t i = 0; i < fields.size(); ++i) {
    int const left = places.left[i];
    draw_field(picture, left, fields[i], most);
    if (points[i] != nullptr && !arguments.bins) {
      draw_points(picture, left, *points[i], columns, range);
    }
    draw_axes(picture, left, ticks, titles[i]);
  }
  picture.write_png(arguments.out);
}

}  // namespace

Command add_density(CLI::App& tool) {
  auto const arguments = std::make_shared<DensityArguments>();
  auto* const command =
      tool.add_subcommand("density", "Draw samples, or a flow's density beside a sample");
  command->add_option("--before", arguments->before, "Left panel: rows (.npy)")
      ->check(file_name())
      ->type_name("FILE");
  command
      ->add_option("--model", arguments->model,
                   "Left panel: the density of this flow (.safetensors) on the plane")
      ->check(file_name())
      ->type_name("FILE");
  command->add_option("--after", arguments->after, "Right panel: rows (.npy)")
      ->required()
      ->check(file_name())
      ->type_name("FILE");
  command->add_option("--out", arguments->out, "Where the picture goes (.png)")
      ->required()
      ->check(file_name())
      ->type_name("FILE");
  command
      ->add_option("--columns", arguments->columns,
                   "The two columns to show, counted from 0 (default: 0 1)")
      ->expected(2)
      ->transform(whole_number(0, greatest_count))
      ->type_name("I");
  command
      ->add_option("--range", arguments->range,
                   "From where to where both axes go (default: nearly all rows)")
      ->expected(2)
      ->type_name("END");
  command
      ->add_option("--bins", arguments->bins,
                   "Show rows as a histogram of N by N bins, not as a smoothed density")
      ->transform(whole_number(1, side))
      ->type_name("N");
  command->add_option("--title-before", arguments->title_before, "Title of the left panel")
      ->type_name("TEXT");
  command->add_option("--title-after", arguments->title_after, "Title of the right panel")
      ->type_name("TEXT");
  arguments->options.add_to(*command);
  command->footer(R"(
Both panels share their axes and their colours, which show the square root of the density. Up to
5000 rows are also drawn as dots. Rows that are not finite are left out.

Examples:
  meander density --before z.npy --after x.npy --out samples.png
  meander density --before z.npy --after x.npy --out samples.png --range -3 3
  meander density --model model.safetensors --after x.npy --bins 100 --out flow.png)");
  return {command, [arguments] { run(*arguments); }};
}

}  // namespace meander::cli
