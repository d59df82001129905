// SPDX-License-Identifier: BSD-3-Clause
#include "model_arguments.hpp"

#include <cstdio>
#include <variant>

#include "../file.hpp"
#include "checks.hpp"

namespace meander::cli {

void ModelArguments::add_to(CLI::App& command) {
  char const* const group = "Model options, where the file does not say it or says it wrong";
  command.add_option("--epsilon", epsilon, "Per layer log(|det| + E) instead of log |det|")
      ->check(non_negative())
      ->type_name("E")
      ->group(group);
  command.add_option("--activation", activation, "tanh or leaky_relu")
      ->check(CLI::IsMember({"tanh", "leaky_relu"}).description(""))
      ->type_name("NAME")
      ->group(group);
  command.add_option("--slope", slope, "Slope of leaky_relu below zero, 0 to 1")
      ->check(between(0.0, 1.0, "a number from 0 to 1"))
      ->type_name("S")
      ->group(group);
  command.add_option("--constraint", constraint, "softplus, log_softplus or none")
      ->check(CLI::IsMember({"softplus", "log_softplus", "none"}).description(""))
      ->type_name("NAME")
      ->group(group);
  command
      .add_option("--direction", direction,
                  "generative (latent to data) or normalizing (data to latent)")
      ->check(CLI::IsMember({"generative", "normalizing"}).description(""))
      ->type_name("NAME")
      ->group(group);
}

ModelReadOptions ModelArguments::read_options() const {
  ModelReadOptions options;
  options.log_det_epsilon = epsilon;
  options.negative_slope  = slope;
  for (auto const value : {Activation::tanh, Activation::leaky_relu}) {
    if (activation == to_string(value)) options.activation = value;
  }
  for (auto const value : {Constraint::softplus, Constraint::log_softplus, Constraint::none}) {
    if (constraint == to_string(value)) options.constraint = value;
  }
  for (auto const value : {Direction::generative, Direction::normalizing}) {
    if (direction == to_string(value)) options.direction = value;
  }
  return options;
}

bool ModelArguments::assume_activation(Model const& model) const {
  return activation.empty() && model.layout != "meander" && !model.layers.empty();
}

void ModelArguments::note_assumptions(std::string const& path, Model const& model) const {
  if (!assume_activation(model)) return;
  auto const& layers = std::get<PlanarLayers>(model.layers.front());
  std::fprintf(stderr,
               "meander: %s does not name its activation; taken as %s (--activation says "
               "otherwise)\n",
               impl::path_in_quotes(path).c_str(), to_string(layers.options.activation));
}

}  // namespace meander::cli
