// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#include <meander/impl/adam.hpp>
#include <meander/model_file.hpp>
#include <meander/training_error.hpp>

#include "file.hpp"
#include "safetensors.hpp"

namespace meander::impl {

namespace {

constexpr std::string_view version_key     = "meander_checkpoint";
constexpr std::string_view format_version  = "1";
constexpr std::string_view settings_prefix = "settings.";
constexpr double largest_count             = 9007199254740992.0;  // 2^53

using Shape = std::vector<std::uint64_t>;

template <class T>
std::string number_text(T value) {
  std::array<char, 40> text{};
  auto const end = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end.ptr};
}

/// Reads what write_checkpoint wrote.
class Reader {
 public:
  explicit Reader(std::filesystem::path const& path) : file_(path), path_(path) {
    auto const version = file_.metadata().find(version_key);
    if (version == file_.metadata().end())
      file_.fail("not a checkpoint of Meander: __metadata__ has no 'meander_checkpoint'");
    if (version->second != format_version)
      file_.fail("a checkpoint of version " + in_quotes(version->second) +
                 ", this version of Meander reads version 1");
  }

  SafetensorsFile const& file() const { return file_; }
  std::filesystem::path const& path() const { return path_; }

  Shape const& shape(std::string const& name) const {
    auto const found = file_.tensors().find(name);
    if (found == file_.tensors().end()) file_.fail("tensor " + in_quotes(name) + " is missing");
    return found->second.shape;
  }

  std::vector<double> values(std::string const& name, Shape const& expected) const {
    if (shape(name) != expected)
      file_.fail("tensor " + in_quotes(name) + " has shape " + shape_text(shape(name)) +
                 ", expected " + shape_text(expected));
    auto const& dtype = file_.tensors().find(name)->second.dtype;
    if (dtype != "F64")
      file_.fail("tensor " + in_quotes(name) + " has dtype " + dtype + ", expected F64");
    return file_.values(name);
  }

  /// A tensor of rank 1 of at most that many values.
  std::vector<double> values(std::string const& name, std::uint64_t most) const {
    auto const& came = shape(name);
    if (came.size() != 1 || came[0] > most)
      file_.fail("tensor " + in_quotes(name) + " has shape " + shape_text(came) +
                 ", expected (n,) with n at most " + std::to_string(most));
    return values(name, came);
  }

  /// w, u and b, side by side.
  std::vector<double> parameters(std::string const& prefix, std::uint64_t layers,
                                 std::uint64_t dim) const {
    auto result = values(prefix + ".w", Shape{layers, dim});
    for (auto const& next :
         {values(prefix + ".u", Shape{layers, dim}), values(prefix + ".b", Shape{layers})})
      result.insert(result.end(), next.begin(), next.end());
    return result;
  }

  std::int64_t count(std::string const& key) const {
    auto const found = file_.metadata().find(key);
    if (found == file_.metadata().end()) file_.fail("__metadata__ has no " + in_quotes(key));
    auto const& text        = found->second;
    std::int64_t value      = -1;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < 0 ||
        value > std::int64_t(largest_count))
      file_.fail("__metadata__ has " + in_quotes(key) + " " + in_quotes(text) +
                 ", expected a whole number from 0 to 2^53");
    return value;
  }

 private:
  SafetensorsFile file_;
  std::filesystem::path path_;
};

void check_shape(Reader const& reader, std::int64_t layers, std::int64_t dim) {
  Shape const expected{std::uint64_t(layers), std::uint64_t(dim)};
  auto const& came = reader.shape("parameters.w");
  if (came == expected) return;
  throw TrainingError(path_in_quotes(reader.path()) +
                      ": a checkpoint of a flow whose w has shape " + shape_text(came) +
                      ", this one's has " + shape_text(expected));
}

/// They are turned into whole numbers later on.
void check_adam(Reader const& reader, std::vector<double> const& adam) {
  constexpr std::array whole{adam_taken,      adam_refused, adam_undone,
                             adam_most_taken, adam_stalled, adam_can_undo};
  for (int const i : whole) {
    double const n = adam[std::size_t(i)];
    if (!(n >= 0 && n <= largest_count && n == std::floor(n)))
      reader.file().fail("value " + std::to_string(i) + " of tensor 'adam' is " + number_text(n) +
                         ", expected a whole number from 0 to 2^53");
  }
  double const factor = adam[adam_rate_factor];
  if (!(factor >= 0 && factor <= 1))
    reader.file().fail("value " + std::to_string(int(adam_rate_factor)) + " of tensor 'adam' is " +
                       number_text(factor) + ", expected a number from 0 to 1");
}

}  // namespace

TrainingProgress::TrainingProgress()
    : best_validation_loss(std::numeric_limits<double>::quiet_NaN()),
      validation_loss(best_validation_loss),
      point_validation_loss(best_validation_loss) {}

std::string setting(double value) { return number_text(value); }
std::string setting(std::int64_t value) { return number_text(value); }
std::string setting(std::uint64_t value) { return number_text(value); }

void write_checkpoint(std::filesystem::path const& path, Checkpoint const& checkpoint) {
  auto const layers = static_cast<std::uint64_t>(checkpoint.layers);
  auto const dim    = static_cast<std::uint64_t>(checkpoint.dim);
  std::vector<std::pair<std::string, std::string>> metadata{
      {std::string(version_key), std::string(format_version)},
      {"step", setting(checkpoint.progress.step)},
      {"best_step", setting(checkpoint.progress.best_step)},
      {"validations_since_best", setting(checkpoint.progress.validations_since_best)}};
  for (auto const& [name, value] : checkpoint.settings)
    metadata.emplace_back(std::string(settings_prefix) + name, value);

  std::vector<std::vector<double>> parts;
  parts.reserve(6);  // pointers to them are kept
  std::vector<TensorValues> tensors;
  auto const add_parameters = [&](std::string const& name, std::vector<double> const& values) {
    auto const matrix = static_cast<std::ptrdiff_t>(layers * dim);
    auto const begin  = values.begin();
    parts.emplace_back(begin, begin + matrix);
    tensors.push_back({name + ".w", {layers, dim}, &parts.back()});
    parts.emplace_back(begin + matrix, begin + 2 * matrix);
    tensors.push_back({name + ".u", {layers, dim}, &parts.back()});
    parts.emplace_back(begin + 2 * matrix, values.end());
    tensors.push_back({name + ".b", {layers}, &parts.back()});
  };
  auto const add = [&](char const* name, std::vector<double> const& values) {
    tensors.push_back({name, {values.size()}, &values});
  };
  add_parameters("parameters", checkpoint.parameters);
  if (!checkpoint.best.empty()) add_parameters("best", checkpoint.best);
  if (!checkpoint.base.empty()) add("base", checkpoint.base);
  add("adam", checkpoint.adam);
  add("losses", checkpoint.losses);
  tensors.push_back({"history",
                     {checkpoint.history.size() / history_columns, history_columns},
                     &checkpoint.history});
  std::vector<double> const validation{checkpoint.progress.best_validation_loss,
                                       checkpoint.progress.validation_loss,
                                       checkpoint.progress.point_validation_loss};
  add("validation_losses", validation);
  write_safetensors(path, tensors, ScalarType::float64, metadata);
}

Checkpoint read_checkpoint(std::filesystem::path const& path, std::int64_t layers, std::int64_t dim,
                           std::int64_t adam_size) {
  Reader const reader(path);
  check_shape(reader, layers, dim);
  auto const l = static_cast<std::uint64_t>(layers), d = static_cast<std::uint64_t>(dim);
  Checkpoint result;
  result.layers     = layers;
  result.dim        = dim;
  result.parameters = reader.parameters("parameters", l, d);
  if (reader.file().tensors().contains("best.w")) result.best = reader.parameters("best", l, d);
  if (reader.file().tensors().contains("base")) result.base = reader.values("base", Shape{2 * d});
  result.adam = reader.values("adam", Shape{std::uint64_t(adam_size)});
  check_adam(reader, result.adam);
  result.losses      = reader.values("losses", std::uint64_t(largest_count));
  auto const& points = reader.shape("history");
  result.history     = reader.values(
          "history", Shape{points.empty() ? 0 : points[0], std::uint64_t(history_columns)});
  for (std::size_t i = 0; i < result.history.size(); i += history_columns) {
    double const n = result.history[i];
    if (!(n >= 0 && n <= largest_count && n == std::floor(n)))
      reader.file().fail("tensor 'history' has step " + number_text(n) +
                         ", expected a whole number from 0 to 2^53");
  }
  auto const validation                  = reader.values("validation_losses", Shape{3});
  result.progress.best_validation_loss   = validation[0];
  result.progress.validation_loss        = validation[1];
  result.progress.point_validation_loss  = validation[2];
  result.progress.step                   = reader.count("step");
  result.progress.best_step              = reader.count("best_step");
  result.progress.validations_since_best = reader.count("validations_since_best");
  for (auto const& [key, value] : reader.file().metadata())
    if (key.starts_with(settings_prefix))
      result.settings.emplace(key.substr(settings_prefix.size()), value);
  return result;
}

void compare_settings(std::string const& where, std::map<std::string, std::string> const& file,
                      std::map<std::string, std::string> const& own, std::string const& prefix) {
  auto const fail = [&](std::string const& name, std::string const& came,
                        std::string const& expected) {
    throw TrainingError(where + ": the checkpoint was written with " + in_quotes(name) + " " +
                        came + ", this run has " + expected + "; only the same run can be resumed");
  };
  for (auto const& [name, value] : own) {
    if (!name.starts_with(prefix)) continue;
    auto const found = file.find(name);
    if (found == file.end()) fail(name, "unsaid", in_quotes(value));
    if (found->second != value) fail(name, in_quotes(found->second), in_quotes(value));
  }
  for (auto const& [name, value] : file)
    if (name.starts_with(prefix) && !own.contains(name)) fail(name, in_quotes(value), "no such");
}

}  // namespace meander::impl
