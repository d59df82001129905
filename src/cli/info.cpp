// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include <meander/model_file.hpp>

#include "checks.hpp"
#include "commands.hpp"
#include "model_arguments.hpp"

namespace meander::cli {

namespace {

/// What is worth knowing about one layer.
struct LayerFacts {
  double s      = 1;  ///< 1 + w.u_hat: the determinant where h' = 1
  double norm_w = 0, norm_u = 0, b = 0;
  std::string note;  ///< empty for a healthy layer
};

double norm(std::span<double const> v) {
  return std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
}

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

LayerFacts facts_of(PlanarLayers const& layers, std::size_t l) {
  constexpr double nearly_singular = 1e-6;
  auto const dim                   = static_cast<std::size_t>(layers.dim);
  std::span const w(&layers.w[l * dim], dim);
  std::span const u(&layers.u[l * dim], dim);
  LayerFacts facts;
  facts.norm_w      = norm(w);
  facts.norm_u      = norm(u);
  facts.b           = layers.b[l];
  auto const finite = [](double x) { return std::isfinite(x); };
  if (!std::ranges::all_of(w, finite) || !std::ranges::all_of(u, finite) || !finite(facts.b)) {
    facts.s    = std::nan("");
    facts.note = "not finite: rows come out NaN or infinite, or untouched by it";
    return facts;
  }
  if (std::ranges::all_of(w, [](double x) { return x == 0; })) {
    facts.note = "w = 0: a shift, log-det 0";
    return facts;
  }
  double const x = std::inner_product(w.begin(), w.end(), u.begin(), 0.0);
  switch (layers.options.constraint) {
    case Constraint::softplus: facts.s = softplus(x); break;
    case Constraint::log_softplus: facts.s = std::log1p(softplus(x)); break;
    case Constraint::none: facts.s = 1 + x; break;
  }
  if (facts.s < nearly_singular) {
    facts.note = facts.s <= -nearly_singular ? "not invertible: s < 0" : "nearly singular";
  }
  return facts;
}

/// What is wrong with an affine layer; empty if nothing is.
std::string note_of(AffineLayer const& layer) {
  auto const finite = [](double x) { return std::isfinite(x); };
  if (!std::ranges::all_of(layer.shift, finite) || !std::ranges::all_of(layer.log_scale, finite)) {
    return "not finite: rows come out NaN or infinite";
  }
  // Both exp(x) and exp(-x) are computed.
  constexpr double most = 708;
  if (std::ranges::any_of(layer.log_scale, [](double x) { return std::abs(x) > most; })) {
    return "a scale or its inverse is beyond the range of numbers";
  }
  return {};
}

/// A run of planar layers, or an affine one.
struct Entry {
  PlanarLayers const* planar = nullptr;
  std::vector<LayerFacts> facts;
  AffineLayer const* affine = nullptr;
  std::string note;  ///< of the affine layer
};

Entry entry_of(PlanarLayers const& planar) {
  Entry entry{&planar, {}, nullptr, {}};
  for (std::size_t l = 0; l < static_cast<std::size_t>(planar.count); ++l) {
    entry.facts.push_back(facts_of(planar, l));
  }
  return entry;
}

Entry entry_of(AffineLayer const& affine) { return {nullptr, {}, &affine, note_of(affine)}; }

std::vector<Entry> entries_of(Model const& model) {
  std::vector<Entry> entries;
  for (auto const& layer : model.layers) {
    std::visit([&](auto const& alternative) { entries.push_back(entry_of(alternative)); }, layer);
  }
  return entries;
}

char const* base_name(Model const& model) {
  return std::holds_alternative<DiagonalNormal>(model.base) ? "diagonal_normal" : "standard_normal";
}

std::size_t flagged(std::vector<Entry> const& entries) {
  std::size_t count = 0;
  for (auto const& entry : entries) {
    count += static_cast<std::size_t>(std::ranges::count_if(
        entry.facts, [](LayerFacts const& facts) { return !facts.note.empty(); }));
    if (!entry.note.empty()) ++count;
  }
  return count;
}

bool base_is_finite(Model const& model) {
  auto const* normal = std::get_if<DiagonalNormal>(&model.base);
  auto const finite  = [](double x) { return std::isfinite(x); };
  return normal == nullptr || (std::ranges::all_of(normal->loc, finite) &&
                               std::ranges::all_of(normal->log_scale, finite));
}

__attribute__((format(printf, 1, 2))) std::string formatted(char const* format, ...) {
  constexpr std::size_t longest = 256;
  char buffer[longest];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer, sizeof(buffer), format, arguments);
  va_end(arguments);
  return buffer;
}

std::string as_text(std::size_t i, AffineLayer const& layer, std::string const& note) {
  auto const [least, greatest]  = std::ranges::minmax(layer.shift);
  auto const [finest, coarsest] = std::ranges::minmax(layer.log_scale);
  return formatted("layers.%-4zu affine: shift %g to %g, scale %g to %g", i, least, greatest,
                   std::exp(finest), std::exp(coarsest)) +
         (note.empty() ? "\n" : "  <- " + note + "\n");
}

std::string as_text(std::size_t i, PlanarLayers const& layers, std::vector<LayerFacts> const& facts,
                    bool assumed) {
  auto const& options = layers.options;
  std::string text    = formatted("layers.%-4zu %lld planar, %s", i,
                                  static_cast<long long>(layers.count), to_string(options.activation));
  if (options.activation == Activation::leaky_relu) {
    text += formatted(" (slope %g)", options.negative_slope);
  }
  if (assumed) text += " (assumed)";
  text += formatted(", constraint %s, log_det_epsilon %g\n", to_string(options.constraint),
                    options.log_det_epsilon);
  if (facts.empty()) return text;
  text += "\n  layer   s = 1 + w.u_hat         |w|         |u|           b\n";
  for (std::size_t l = 0; l < facts.size(); ++l) {
    auto const& layer = facts[l];
    text += formatted("%7zu %19.6g %11.4g %11.4g %11.4g", l, layer.s, layer.norm_w, layer.norm_u,
                      layer.b);
    text += layer.note.empty() ? "\n" : "  <- " + layer.note + "\n";
  }
  text += "\n";
  return text;
}

std::string as_text(Model const& model, std::vector<Entry> const& entries, bool assumed) {
  std::string text =
      "layout      " + model.layout + "\nstored      " + to_string(model.stored) +
      formatted("\ndimension   %lld", static_cast<long long>(model.dim())) + "\ndirection   " +
      to_string(model.direction) +
      (model.direction == Direction::generative ? ": the stack maps latent to data"
                                                : ": the stack maps data to latent") +
      "\nbase        " + base_name(model) + "\n";
  for (std::size_t i = 0; i < entries.size(); ++i) {
    auto const& entry = entries[i];
    text += entry.affine != nullptr ? as_text(i, *entry.affine, entry.note)
                                    : as_text(i, *entry.planar, entry.facts, assumed);
  }
  if (!base_is_finite(model)) text += "The base holds values that are not finite.\n";
  auto const count = flagged(entries);
  text += count == 0   ? "No layer is singular or nearly so.\n"
          : count == 1 ? "1 layer is flagged.\n"
                       : std::to_string(count) + " layers are flagged.\n";
  return text;
}

nlohmann::ordered_json as_json(AffineLayer const& layer, std::string const& note) {
  return {
      {"type", "affine"}, {"shift", layer.shift}, {"log_scale", layer.log_scale}, {"note", note}};
}

nlohmann::ordered_json as_json(PlanarLayers const& layers, std::vector<LayerFacts> const& facts,
                               bool assumed) {
  auto const& options          = layers.options;
  nlohmann::ordered_json entry = {{"type", "planar"},
                                  {"count", layers.count},
                                  {"activation", to_string(options.activation)},
                                  {"activation_assumed", assumed}};
  if (options.activation == Activation::leaky_relu) {
    entry["negative_slope"] = options.negative_slope;
  }
  entry["constraint"]      = to_string(options.constraint);
  entry["log_det_epsilon"] = options.log_det_epsilon;
  entry["each"]            = nlohmann::ordered_json::array();
  for (auto const& layer : facts) {
    entry["each"].push_back({{"s", layer.s},
                             {"norm_w", layer.norm_w},
                             {"norm_u", layer.norm_u},
                             {"b", layer.b},
                             {"note", layer.note}});
  }
  return entry;
}

std::string as_json(Model const& model, std::vector<Entry> const& entries, bool assumed) {
  nlohmann::ordered_json root = {
      {"layout", model.layout},      {"stored", to_string(model.stored)},
      {"dimension", model.dim()},    {"direction", to_string(model.direction)},
      {"base", base_name(model)},    {"base_is_finite", base_is_finite(model)},
      {"flagged", flagged(entries)}, {"layers", nlohmann::ordered_json::array()}};
  for (auto const& entry : entries)
    root["layers"].push_back(entry.affine != nullptr
                                 ? as_json(*entry.affine, entry.note)
                                 : as_json(*entry.planar, entry.facts, assumed));
  constexpr int indent = 2;
  return root.dump(indent) + "\n";
}

struct InfoArguments {
  std::string model;
  ModelArguments options;
  bool json = false;
};

}  // namespace

Command add_info(CLI::App& tool) {
  auto const arguments = std::make_shared<InfoArguments>();
  auto* const command  = tool.add_subcommand("info", "Print what a model file holds");
  command->add_option("model", arguments->model, "Model file (.safetensors)")
      ->required()
      ->check(file_name())
      ->type_name("FILE");
  command->add_flag("--json", arguments->json, "Print JSON; NaN and infinity become null");
  arguments->options.add_to(*command);
  command->footer(R"(
s = 1 + w.u_hat is a layer's determinant where the activation's slope is 1. Layers with s below
1e-6 are flagged as nearly singular, those with w = 0 as mere shifts, those with parameters that
are not finite, and, without a constraint, those with s < 0 as not invertible.

Examples:
  meander info model.safetensors
  meander info leaky.safetensors --activation leaky_relu --slope 0.2
  meander info model.safetensors --json)");
  return {command, [arguments] {
            auto const model   = read_model(arguments->model, arguments->options.read_options());
            auto const entries = entries_of(model);
            auto const assumed = arguments->options.assume_activation(model);
            print(arguments->json ? as_json(model, entries, assumed)
                                  : as_text(model, entries, assumed));
          }};
}

}  // namespace meander::cli
