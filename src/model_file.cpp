// SPDX-License-Identifier: BSD-3-Clause
#include <meander/model_file.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "json_reason.hpp"
#include "safetensors.hpp"

namespace meander {

namespace {

using impl::in_quotes;
using impl::SafetensorsFile;
using impl::shape_text;
using json  = nlohmann::json;
using Shape = std::vector<std::uint64_t>;

constexpr int format_version            = 1;
constexpr std::string_view metadata_key = "meander";
/// PlanarStack counts rows' elements and layers in int.
constexpr std::uint64_t largest_extent = std::numeric_limits<std::int32_t>::max();

/// \brief What is common to the three layouts: a file, and which of its tensors have been used.
class TensorReader {
 public:
  explicit TensorReader(SafetensorsFile const& file) : file_(file) {}

  Shape const& shape(std::string const& name) {
    auto const found = file_.tensors().find(name);
    if (found == file_.tensors().end()) file_.fail("tensor " + in_quotes(name) + " is missing");
    used_.insert(name);
    return found->second.shape;
  }

  /// \brief The values of a tensor that must have this shape.
  std::vector<double> values(std::string const& name, Shape const& expected) {
    if (shape(name) != expected) {
      file_.fail("tensor " + in_quotes(name) + " has shape " + shape_text(shape(name)) +
                 ", expected " + shape_text(expected));
    }
    auto const& dtype = file_.tensors().find(name)->second.dtype;
    auto values       = file_.values(name);
    if (dtype_.empty()) {
      dtype_ = dtype;
      first_ = name;
    }
    if (dtype != dtype_) {
      file_.fail("tensor " + in_quotes(name) + " has dtype " + dtype + " but " + in_quotes(first_) +
                 " has " + dtype_ + "; one dtype is expected throughout");
    }
    return values;
  }

  ScalarType stored() const { return dtype_ == "F64" ? ScalarType::float64 : ScalarType::float32; }

  /// \brief Fails if there is a tensor that nothing asked for.
  void expect_all_used(std::string const& layout) const {
    for (auto const& [name, entry] : file_.tensors()) {
      if (!used_.contains(name)) {
        file_.fail("tensor " + in_quotes(name) + " has no place in the " + layout + " layout");
      }
    }
  }

 private:
  SafetensorsFile const& file_;
  std::set<std::string, std::less<>> used_;
  std::string dtype_, first_;
};

/// \brief The three tensors of a run of planar layers, once `w` has said how large they are.
PlanarLayers read_planar_tensors(SafetensorsFile const& file, TensorReader& reader,
                                 std::string const& prefix) {
  auto const shape = reader.shape(prefix + "w");
  if (shape.size() != 2 || shape[1] == 0 || shape[0] > largest_extent ||
      shape[1] > largest_extent) {
    file.fail("tensor " + in_quotes(prefix + "w") + " has shape " + shape_text(shape) +
              ", expected (layers, dimension) with a dimension of 1 or more, both below 2^31");
  }
  PlanarLayers layers;
  layers.count = static_cast<std::int64_t>(shape[0]);
  layers.dim   = static_cast<std::int64_t>(shape[1]);
  layers.w     = reader.values(prefix + "w", shape);
  layers.u     = reader.values(prefix + "u", shape);
  layers.b     = reader.values(prefix + "b", {shape[0]});
  return layers;
}

// The `meander` layout ------------------------------------------------------------------------

/// \brief Parses without recursion on what an untrusted text nests, and without duplicate keys.
json parse_description(SafetensorsFile const& file, std::string const& text) {
  constexpr std::size_t longest = std::size_t{1} << 22;
  constexpr int deepest         = 8;
  auto const where              = "__metadata__['meander']";
  if (text.size() > longest) {
    file.fail(std::string(where) + " has " + std::to_string(text.size()) + " bytes, at most " +
              std::to_string(longest) + " are allowed");
  }
  std::vector<std::set<std::string>> keys;
  auto const check = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > deepest) {
      file.fail(std::string(where) + " nests deeper than " + std::to_string(deepest) + " levels");
    }
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key) {
      auto const& key = parsed.get_ref<std::string const&>();
      if (!keys.back().insert(key).second) {
        file.fail(std::string(where) + " has the key " + in_quotes(key) + " twice in one object");
      }
    }
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (json::parse_error const& error) {
    file.fail(std::string(where) + " is not valid JSON, at its byte " + std::to_string(error.byte) +
              ": " + impl::parse_error_reason(error.what()));
  }
}

/// \brief One JSON object of the description, read with errors that say where.
class Description {
 public:
  Description(SafetensorsFile const& file, json const& object, std::string where)
      : file_(file), object_(object), where_(std::move(where)) {
    if (!object.is_object()) file.fail(where_ + " is not an object");
  }

  json const& at(char const* key) const {
    auto const found = object_.find(key);
    if (found == object_.end()) fail("has no key '" + std::string(key) + "'");
    return *found;
  }

  bool contains(char const* key) const { return object_.contains(key); }

  /// \brief One of a few words, turned into the value it stands for.
  template <class Value>
  Value word(char const* key,
             std::initializer_list<std::pair<std::string_view, Value>> known) const {
    auto const& value = at(key);
    std::string expected;
    for (auto const& [text, result] : known) {
      if (value.is_string() && value.get_ref<std::string const&>() == text) return result;
      expected += (expected.empty() ? "'" : ", '") + std::string(text) + "'";
    }
    fail("has " + std::string(key) + " " + shown(value) + ", expected " +
         (known.size() == 1 ? "" : "one of ") + expected);
  }

  double number(char const* key, double least, double greatest) const {
    auto const& value   = at(key);
    double const number = value.is_number() ? value.get<double>() : std::nan("");
    // Also refuses NaN and, for an open range, infinity.
    if (!(number >= least && number <= greatest)) {
      fail("has " + std::string(key) + " " + shown(value) + ", expected " +
           (greatest <= 1 ? "a number in [0, 1]" : "a finite number >= 0"));
    }
    return number;
  }

  std::int64_t count(char const* key) const {
    auto const& value = at(key);
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > largest_extent) {
      fail("has " + std::string(key) + " " + shown(value) +
           ", expected a whole number from 0 to 2^31 - 1");
    }
    return value.get<std::int64_t>();
  }

  void expect_keys(std::initializer_list<std::string_view> known) const {
    for (auto const& [key, value] : object_.items()) {
      if (std::ranges::find(known, key) == known.end())
        fail("has the unknown key " + in_quotes(key));
    }
  }

  [[noreturn]] void fail(std::string const& what) const { file_.fail(where_ + " " + what); }

  static std::string shown(json const& value) {
    if (value.is_string()) return in_quotes(value.get_ref<std::string const&>());
    if (value.is_structured()) return value.is_array() ? "[...]" : "{...}";
    auto const quotes = in_quotes(value.dump());
    return quotes.substr(1, quotes.size() - 2);
  }

 private:
  SafetensorsFile const& file_;
  json const& object_;
  std::string where_;
};

constexpr double greatest_double = std::numeric_limits<double>::max();

PlanarLayers read_planar(SafetensorsFile const& file, TensorReader& reader,
                         Description const& description, std::string const& prefix) {
  PlanarOptions options;
  options.activation = description.word<Activation>(
      "activation", {{"tanh", Activation::tanh}, {"leaky_relu", Activation::leaky_relu}});
  options.constraint =
      description.word<Constraint>("constraint", {{"softplus", Constraint::softplus},
                                                  {"log_softplus", Constraint::log_softplus},
                                                  {"none", Constraint::none}});
  if (description.contains("log_det_epsilon")) {
    options.log_det_epsilon = description.number("log_det_epsilon", 0, greatest_double);
  }
  if (options.activation == Activation::leaky_relu) {
    options.negative_slope = description.number("negative_slope", 0, 1);
    description.expect_keys(
        {"type", "count", "activation", "constraint", "log_det_epsilon", "negative_slope"});
  } else {
    description.expect_keys({"type", "count", "activation", "constraint", "log_det_epsilon"});
  }
  auto const count = description.count("count");
  auto layers      = read_planar_tensors(file, reader, prefix);
  if (layers.count != count) {
    description.fail("has count " + std::to_string(count) + ", but tensor " +
                     in_quotes(prefix + "w") + " has shape (" + std::to_string(layers.count) +
                     ", " + std::to_string(layers.dim) + ")");
  }
  layers.options = options;
  return layers;
}

AffineLayer read_affine(SafetensorsFile const& file, TensorReader& reader,
                        Description const& description, std::string const& prefix) {
  description.expect_keys({"type"});
  auto const shape = reader.shape(prefix + "shift");
  if (shape.size() != 1 || shape[0] == 0 || shape[0] > largest_extent) {
    file.fail("tensor " + in_quotes(prefix + "shift") + " has shape " + shape_text(shape) +
              ", expected (dimension,) with a dimension from 1 to 2^31 - 1");
  }
  AffineLayer layer;
  layer.dim       = static_cast<std::int64_t>(shape[0]);
  layer.shift     = reader.values(prefix + "shift", shape);
  layer.log_scale = reader.values(prefix + "log_scale", shape);
  return layer;
}

std::int64_t dim_of(std::variant<PlanarLayers, AffineLayer> const& layer) {
  return std::visit([](auto const& alternative) { return alternative.dim; }, layer);
}

Model read_meander(SafetensorsFile const& file, std::string const& text) {
  auto const root = parse_description(file, text);
  Description const description(file, root, "__metadata__['meander']");
  // First of all: a later version may change everything below.
  auto const& version = description.at("version");
  if (version != format_version) {
    description.fail("has version " + Description::shown(version) +
                     ", this version of Meander reads version " + std::to_string(format_version));
  }
  description.expect_keys({"version", "direction", "base", "layers"});

  Model model;
  model.layout    = "meander";
  model.direction = description.word<Direction>(
      "direction",
      {{"generative", Direction::generative}, {"normalizing", Direction::normalizing}});
  bool const diagonal =
      description.word<bool>("base", {{"standard_normal", false}, {"diagonal_normal", true}});
  auto const& list = description.at("layers");
  if (!list.is_array())
    description.fail("has layers " + Description::shown(list) + ", expected a list");

  TensorReader reader(file);
  for (std::size_t i = 0; i < list.size(); ++i) {
    auto const name = "layers." + std::to_string(i);
    Description const entry(file, list[i], name + " of __metadata__['meander']");
    if (entry.word<bool>("type", {{"planar", true}, {"affine", false}}))
      model.layers.emplace_back(read_planar(file, reader, entry, name + "."));
    else
      model.layers.emplace_back(read_affine(file, reader, entry, name + "."));
    if (auto const dim = dim_of(model.layers.back()); dim != model.dim()) {
      entry.fail("has dimension " + std::to_string(dim) + ", the layers before it have " +
                 std::to_string(model.dim()));
    }
  }
  if (diagonal) {
    auto dim = static_cast<std::uint64_t>(model.dim());
    if (list.empty()) {
      auto const& shape = reader.shape("base.loc");
      if (shape.size() != 1 || shape[0] == 0 || shape[0] > largest_extent) {
        file.fail("tensor 'base.loc' has shape " + shape_text(shape) + ", expected (dimension,)");
      }
      dim = shape[0];
    }
    model.base =
        DiagonalNormal{reader.values("base.loc", {dim}), reader.values("base.log_scale", {dim})};
  }
  if (model.dim() == 0) {
    description.fail("lists no layers and a base without parameters: nothing says the dimension");
  }
  reader.expect_all_used("meander");
  model.stored = reader.stored();
  return model;
}

// Layouts of other codes ----------------------------------------------------------------------

Model read_bare(SafetensorsFile const& file) {
  TensorReader reader(file);
  Model model;
  model.layout = "bare";
  model.layers.emplace_back(read_planar_tensors(file, reader, ""));
  reader.expect_all_used("bare w, u, b");
  model.stored = reader.stored();
  return model;
}

/// \brief The i of `flows.{i}.rest`, or nothing if the name has another form.
std::optional<std::uint64_t> flow_index(std::string_view name, std::string_view& rest) {
  constexpr std::string_view prefix = "flows.";
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  auto const dot                    = name.find('.');
  auto const digits                 = name.substr(0, dot);
  constexpr std::size_t most_digits = 9;
  if (dot == std::string_view::npos || digits.empty() || digits.size() > most_digits ||
      (digits.size() > 1 && digits.front() == '0') ||
      !std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; })) {
    return std::nullopt;
  }
  rest = name.substr(dot + 1);
  return std::stoull(std::string(digits));
}

/// \brief The numbers of the flows, checked to be 0, 1, ... and each to be a planar layer.
std::uint64_t count_flows(SafetensorsFile const& file) {
  std::set<std::uint64_t> found;
  for (auto const& [name, entry] : file.tensors()) {
    if (!name.starts_with("flows.")) continue;
    std::string_view rest;
    auto const index = flow_index(name, rest);
    if (!index) file.fail("tensor " + in_quotes(name) + " is not named flows.{i}.{w,u,b}");
    if (rest != "w" && rest != "u" && rest != "b") {
      file.fail("tensor " + in_quotes(name) +
                " does not belong to a planar layer (flows.{i}.w, .u, " +
                ".b); this version reads planar layers only");
    }
    found.insert(*index);
  }
  std::uint64_t expected = 0;
  for (auto const index : found) {
    if (index != expected) {
      file.fail("the flows are not numbered without a gap: flows." + std::to_string(expected) +
                " is missing, flows." + std::to_string(index) + " exists");
    }
    ++expected;
  }
  return expected;
}

Model read_normflows(SafetensorsFile const& file) {
  auto const count = count_flows(file);
  TensorReader reader(file);
  auto const first = reader.shape("flows.0.w");
  if (first.size() != 2 || first[0] != 1 || first[1] == 0 || first[1] > largest_extent) {
    file.fail("tensor 'flows.0.w' has shape " + shape_text(first) + ", expected (1, dimension)");
  }
  PlanarLayers layers;
  layers.count      = static_cast<std::int64_t>(count);
  layers.dim        = static_cast<std::int64_t>(first[1]);
  auto const append = [](std::vector<double>& to, std::vector<double> const& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (std::uint64_t i = 0; i < count; ++i) {
    auto const prefix = "flows." + std::to_string(i) + ".";
    append(layers.w, reader.values(prefix + "w", first));
    append(layers.u, reader.values(prefix + "u", first));
    append(layers.b, reader.values(prefix + "b", {1}));
  }
  Model model;
  model.layout  = "normflows";
  bool has_base = false;
  for (auto const& [name, entry] : file.tensors()) {
    if (!name.starts_with("q0.")) continue;
    has_base = true;
    if (name != "q0.loc" && name != "q0.log_scale") {
      file.fail("tensor " + in_quotes(name) + " belongs to a base distribution that this version " +
                "does not read; expected a diagonal Gaussian: q0.loc, q0.log_scale");
    }
  }
  if (has_base) {
    model.base =
        DiagonalNormal{reader.values("q0.loc", first), reader.values("q0.log_scale", first)};
  }
  model.layers.emplace_back(std::move(layers));
  model.stored = reader.stored();
  return model;
}

// Options -------------------------------------------------------------------------------------

void apply(SafetensorsFile const& file, ModelReadOptions const& given, Model& model) {
  if (given.direction) model.direction = *given.direction;
  if (given.log_det_epsilon &&
      !(*given.log_det_epsilon >= 0 && *given.log_det_epsilon <= greatest_double)) {
    file.fail("log_det_epsilon was given as " + std::to_string(*given.log_det_epsilon) +
              ", expected a finite number >= 0");
  }
  if (given.negative_slope && !(*given.negative_slope >= 0 && *given.negative_slope <= 1)) {
    file.fail("negative_slope was given as " + std::to_string(*given.negative_slope) +
              ", expected a number in [0, 1]");
  }
  for (auto& layer : model.layers) {
    auto* const planar = std::get_if<PlanarLayers>(&layer);
    if (planar == nullptr) continue;
    auto& options = planar->options;
    if (given.activation) options.activation = *given.activation;
    if (given.constraint) options.constraint = *given.constraint;
    if (given.log_det_epsilon) options.log_det_epsilon = *given.log_det_epsilon;
    if (!given.negative_slope) continue;
    if (options.activation != Activation::leaky_relu) {
      file.fail("negative_slope was given, but the activation is " +
                std::string(to_string(options.activation)));
    }
    options.negative_slope = *given.negative_slope;
  }
}

// Writing -------------------------------------------------------------------------------------

/// \brief A model that is about to be written.
struct Checker {
  std::filesystem::path const& path;
  std::int64_t dim;

  void check(Model const& model) const;

 private:
  [[noreturn]] void fail(std::string const& what) const {
    throw ModelFileError("cannot write " + impl::path_in_quotes(path) + ": " + what);
  }
  void expect(std::string const& name, std::size_t size, std::int64_t expected) const;
  void check(std::string const& name, PlanarLayers const& layers) const;
  void check(std::string const& name, AffineLayer const& layer) const;
};

void Checker::expect(std::string const& name, std::size_t size, std::int64_t expected) const {
  if (size != static_cast<std::size_t>(expected)) {
    fail(name + " has " + std::to_string(size) + " values, expected " + std::to_string(expected));
  }
}

void Checker::check(std::string const& name, AffineLayer const& layer) const {
  if (layer.dim != dim) {
    fail(name + " has dimension " + std::to_string(layer.dim) + ", expected " +
         std::to_string(dim));
  }
  expect(name + ".shift", layer.shift.size(), dim);
  expect(name + ".log_scale", layer.log_scale.size(), dim);
}

void Checker::check(std::string const& name, PlanarLayers const& layers) const {
  if (layers.count < 0 || layers.dim != dim) {
    fail(name + " has count " + std::to_string(layers.count) + " and dimension " +
         std::to_string(layers.dim) + ", expected a count >= 0 and dimension " +
         std::to_string(dim));
  }
  expect(name + ".w", layers.w.size(), layers.count * dim);
  expect(name + ".u", layers.u.size(), layers.count * dim);
  expect(name + ".b", layers.b.size(), layers.count);
  auto const& options = layers.options;
  if (options.activation != Activation::tanh && options.activation != Activation::leaky_relu) {
    fail(name + " has an activation that is none of the enumeration");
  }
  if (options.constraint != Constraint::softplus &&
      options.constraint != Constraint::log_softplus && options.constraint != Constraint::none) {
    fail(name + " has a constraint that is none of the enumeration");
  }
  if (!(options.log_det_epsilon >= 0 && options.log_det_epsilon <= greatest_double)) {
    fail(name + " has a log_det_epsilon that is not a finite number >= 0");
  }
  if (options.activation == Activation::leaky_relu &&
      !(options.negative_slope >= 0 && options.negative_slope <= 1)) {
    fail(name + " has a negative_slope outside [0, 1]");
  }
}

void Checker::check(Model const& model) const {
  if (dim <= 0) fail("the model has no dimension");
  if (model.direction != Direction::generative && model.direction != Direction::normalizing) {
    fail("its direction is none of the enumeration");
  }
  if (model.stored != ScalarType::float32 && model.stored != ScalarType::float64) {
    fail("its stored type is none of the enumeration");
  }
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    auto const name = "layers." + std::to_string(i);
    std::visit([&](auto const& layer) { check(name, layer); }, model.layers[i]);
  }
  if (auto const* normal = std::get_if<DiagonalNormal>(&model.base)) {
    expect("base.loc", normal->loc.size(), dim);
    expect("base.log_scale", normal->log_scale.size(), dim);
  }
}

nlohmann::ordered_json describe(PlanarLayers const& layers) {
  nlohmann::ordered_json entry = {{"type", "planar"},
                                  {"count", layers.count},
                                  {"activation", to_string(layers.options.activation)},
                                  {"constraint", to_string(layers.options.constraint)},
                                  {"log_det_epsilon", layers.options.log_det_epsilon}};
  if (layers.options.activation == Activation::leaky_relu) {
    entry["negative_slope"] = layers.options.negative_slope;
  }
  return entry;
}

void append(std::vector<impl::TensorValues>& tensors, std::string const& prefix,
            PlanarLayers const& layers) {
  auto const count = static_cast<std::uint64_t>(layers.count);
  auto const dim   = static_cast<std::uint64_t>(layers.dim);
  tensors.push_back({prefix + "w", {count, dim}, &layers.w});
  tensors.push_back({prefix + "u", {count, dim}, &layers.u});
  tensors.push_back({prefix + "b", {count}, &layers.b});
}

nlohmann::ordered_json describe(AffineLayer const& /*layer*/) { return {{"type", "affine"}}; }

void append(std::vector<impl::TensorValues>& tensors, std::string const& prefix,
            AffineLayer const& layer) {
  auto const dim = static_cast<std::uint64_t>(layer.dim);
  tensors.push_back({prefix + "shift", {dim}, &layer.shift});
  tensors.push_back({prefix + "log_scale", {dim}, &layer.log_scale});
}

}  // namespace

std::int64_t Model::dim() const {
  if (!layers.empty()) return dim_of(layers.front());
  if (auto const* normal = std::get_if<DiagonalNormal>(&base)) {
    return static_cast<std::int64_t>(normal->loc.size());
  }
  return 0;
}

Model read_model(std::filesystem::path const& path, ModelReadOptions const& options) {
  SafetensorsFile const file(path);
  auto const& tensors  = file.tensors();
  bool const has_flows = std::ranges::any_of(
      tensors, [](auto const& entry) { return entry.first.starts_with("flows."); });
  auto const description = file.metadata().find(metadata_key);
  Model model;
  if (description != file.metadata().end()) {
    model = read_meander(file, description->second);
  } else if (has_flows) {
    model = read_normflows(file);
  } else if (tensors.contains("w") && tensors.contains("u") && tensors.contains("b")) {
    model = read_bare(file);
  } else {
    file.fail("no known layout: expected __metadata__['meander'], or tensors 'w', 'u', 'b', or " +
              std::string("tensors 'flows.0.w', 'flows.0.u', 'flows.0.b', ...; the file has ") +
              (tensors.empty() ? "no tensors" : "a tensor " + in_quotes(tensors.begin()->first)));
  }
  apply(file, options, model);
  return model;
}

void write_model(std::filesystem::path const& path, Model const& model) {
  Checker{path, model.dim()}.check(model);
  nlohmann::ordered_json description;
  description["version"]   = format_version;
  description["direction"] = to_string(model.direction);
  auto const* normal       = std::get_if<DiagonalNormal>(&model.base);
  description["base"]      = normal != nullptr ? "diagonal_normal" : "standard_normal";
  description["layers"]    = nlohmann::ordered_json::array();

  auto const dim = static_cast<std::uint64_t>(model.dim());
  std::vector<impl::TensorValues> tensors;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    std::visit(
        [&](auto const& layer) {
          description["layers"].push_back(describe(layer));
          append(tensors, "layers." + std::to_string(i) + ".", layer);
        },
        model.layers[i]);
  }
  if (normal != nullptr) {
    tensors.push_back({"base.loc", {dim}, &normal->loc});
    tensors.push_back({"base.log_scale", {dim}, &normal->log_scale});
  }
  impl::write_safetensors(path, tensors, model.stored,
                          {{std::string(metadata_key), description.dump()}});
}

}  // namespace meander
