// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checks.hpp"
#include "commands.hpp"
#include "paths.hpp"
#include "runtime.hpp"
#include "train_arguments.hpp"

namespace meander::cli {

namespace {

/// \brief The options as they are written.
struct TrainOptions {
  TrainArguments arguments;
  std::string flow, target, direction, activation = "tanh", constraint = "softplus";
  std::string schedule = "constant", type = "float32", checkpoint;
  std::optional<double> slope, validation_fraction, final_rate, clip_norm;
  std::optional<std::int64_t> batch, anneal, patience, validation_interval, checkpoint_interval,
      warmup, validation_rows, estimate_rows, report_interval;
};

constexpr double greatest = std::numeric_limits<double>::max();

CLI::Validator positive() {
  return between(std::numeric_limits<double>::denorm_min(), greatest, "a finite number > 0");
}

CLI::Validator count(std::uint64_t least = 1) { return whole_number(least, greatest_count); }

/// \brief The L of planar:L.
std::int64_t layers_of(std::string const& flow) {
  constexpr std::uint64_t most_layers = 1000000;
  std::string const family            = "planar:";
  if (!flow.starts_with(family)) {
    throw CLI::ValidationError("--flow",
                               "expected planar:L, L layers, got " + impl::in_quotes(flow));
  }
  auto number        = flow.substr(family.size());
  auto const problem = read_whole_number(number, 1, most_layers);
  if (!problem.empty()) throw CLI::ValidationError("--flow", "planar:L: " + problem);
  return std::stoll(number);
}

[[noreturn]] void refuse(std::string const& option, std::string const& why) {
  throw CLI::ValidationError(option, why);
}

/// \brief Options that go with the other kind of training only.
void check_kind(CLI::App const& command, bool on_data) {
  for (char const* const option : {"--validation", "--validation-fraction", "--standardize"}) {
    if (!on_data && command.count(option) > 0) refuse(option, "goes with --data only");
  }
  for (char const* const option :
       {"--path-gradient", "--anneal", "--validation-rows", "--estimate-rows"}) {
    if (on_data && command.count(option) > 0) refuse(option, "goes with --target only");
  }
}

/// \brief No result may replace what is read, or another result.
void check_files(TrainOptions const& options) {
  struct File {
    char const* option;
    std::string const* path;
    bool is_input;
  };
  auto const& a    = options.arguments;
  auto const files = std::to_array<File>({{"--data", &a.data, true},
                                          {"--validation", &a.validation, true},
                                          {"--out", &a.out, false},
                                          {"--checkpoint", &options.checkpoint, false},
                                          {"--log", &a.log, false},
                                          {"--plot", &a.plot, false}});
  for (auto const& file : files) {
    if (file.is_input || file.path->empty()) continue;
    for (auto const& other : files) {
      if (&other == &file) break;  // those after it look at this one
      if (other.path->empty() || !same_file(*file.path, *other.path)) continue;
      refuse(file.option, other.is_input ? std::string("would replace the rows of ") + other.option
                                         : std::string("names the same file as ") + other.option);
    }
  }
}

void read_flow(TrainOptions const& options, TrainArguments& a) {
  a.layers           = layers_of(options.flow);
  bool const on_data = a.target == 0;
  a.direction        = on_data ? Direction::normalizing : Direction::generative;
  for (auto const value : {Direction::generative, Direction::normalizing}) {
    if (options.direction == to_string(value)) a.direction = value;
  }
  for (auto const value : {Activation::tanh, Activation::leaky_relu}) {
    if (options.activation == to_string(value)) a.planar.activation = value;
  }
  for (auto const value : {Constraint::softplus, Constraint::log_softplus, Constraint::none}) {
    if (options.constraint == to_string(value)) a.planar.constraint = value;
  }
  if (options.slope) {
    if (a.planar.activation != Activation::leaky_relu) {
      refuse("--slope", "goes with --activation leaky_relu only");
    }
    a.planar.negative_slope = *options.slope;
  }
  bool const backwards =
      on_data == (a.direction == Direction::generative) || (!on_data && a.reverse_kl.path_gradient);
  if (a.planar.constraint == Constraint::none && backwards) {
    refuse("--constraint",
           "without one a layer may have no inverse, which this training needs (" +
               std::string(on_data ? "--direction normalizing does not"
                                   : "--direction generative without --path-gradient does not") +
               ")");
  }
}

void read_learning_rate(TrainOptions const& options, TrainArguments& a) {
  auto& rate = a.trainer.learning_rate;
  for (auto const value : {Decay::constant, Decay::cosine, Decay::exponential}) {
    if (options.schedule == to_string(value)) rate.decay = value;
  }
  rate.warmup_steps = options.warmup.value_or(0);
  if (rate.warmup_steps > a.trainer.steps) {
    refuse("--warmup", "expected no more than the " + std::to_string(a.trainer.steps) +
                           " steps of --steps, got " + std::to_string(rate.warmup_steps));
  }
  if (options.final_rate && rate.decay == Decay::constant) {
    refuse("--final-lr", "goes with --schedule cosine or exponential");
  }
  if (rate.decay == Decay::exponential && !(options.final_rate.value_or(0) > 0)) {
    refuse("--schedule", "exponential needs a --final-lr above zero");
  }
  rate.final = options.final_rate.value_or(0);
  if (rate.final > rate.initial) refuse("--final-lr", "is more than --lr");
}

void read_trainer(CLI::App const& command, TrainOptions const& options, TrainArguments& a) {
  auto& trainer      = a.trainer;
  bool const on_data = a.target == 0;
  if (!on_data && !options.batch) refuse("--batch", "is required with --target");
  trainer.batch               = options.batch.value_or(0);
  trainer.checkpoint          = options.checkpoint;
  trainer.checkpoint_interval = options.checkpoint_interval.value_or(0);
  trainer.report_interval     = options.report_interval.value_or(0);
  trainer.adam.decoupled      = true;
  if (options.clip_norm) trainer.adam.max_grad_norm = *options.clip_norm;
  a.validation_fraction         = options.validation_fraction.value_or(0);
  a.reverse_kl.validation_batch = options.validation_rows.value_or(0);
  if (options.anneal) {
    constexpr double first_beta = 0.01;
    a.reverse_kl.beta_start     = first_beta;
    a.reverse_kl.beta_steps     = *options.anneal;
  }
  if (options.estimate_rows) a.estimate_rows = *options.estimate_rows;
  bool const validated =
      !a.validation.empty() || options.validation_fraction || options.validation_rows;
  for (char const* const option : {"--patience", "--validation-interval"}) {
    if (validated || command.count(option) == 0) continue;
    refuse(option,
           on_data ? "needs --validation or --validation-fraction" : "needs --validation-rows");
  }
  trainer.patience = options.patience.value_or(0);
  if (options.validation_interval) trainer.validation_interval = *options.validation_interval;
  if (options.checkpoint.empty()) {
    if (a.resume) refuse("--resume", "needs --checkpoint");
    if (options.checkpoint_interval) refuse("--checkpoint-interval", "needs --checkpoint");
  }
}

TrainArguments read_arguments(CLI::App const& command, TrainOptions const& options) {
  auto a = options.arguments;
  if (a.data.empty() == options.target.empty()) {
    throw CLI::ValidationError(a.data.empty() ? "neither --data nor --target was given"
                                              : "--target: give either --data or --target");
  }
  if (!options.target.empty()) a.target = options.target[1] - '0';
  check_kind(command, a.target == 0);
  if (!a.validation.empty() && options.validation_fraction) {
    refuse("--validation-fraction", "give either --validation or --validation-fraction");
  }
  if (a.standardize && a.target != 0) refuse("--standardize", "goes with --data only");
  a.stored =
      options.type == to_string(ScalarType::float64) ? ScalarType::float64 : ScalarType::float32;
  read_flow(options, a);
  read_trainer(command, options, a);
  read_learning_rate(options, a);
  check_files(options);
  return a;
}

void add_rows_and_targets(CLI::App& command, TrainOptions& options) {
  auto& a = options.arguments;
  command.add_option("--data", a.data, "Rows to fit to, by maximum likelihood (.npy)")
      ->check(file_name())
      ->type_name("FILE");
  command
      .add_option("--target", options.target,
                  "Energy to fit to, by reverse KL: U1, U2, U3 or U4 (see below)")
      ->check(CLI::IsMember({"U1", "U2", "U3", "U4"}).description(""))
      ->type_name("NAME");
  command.add_option("--flow", options.flow, "What to train: planar:L, L planar layers")
      ->required()
      ->type_name("FLOW");
  command.add_option("--out", a.out, "Where the model goes (.safetensors)")
      ->required()
      ->check(file_name())
      ->type_name("FILE");
  command.add_option("--seed", a.trainer.seed, "Names the run: 0 to 2^64 - 1")
      ->required()
      ->transform(whole_number(0, greatest_number))
      ->type_name("S");
}

void add_steps(CLI::App& command, TrainOptions& options) {
  char const* const group = "Steps";
  auto& trainer           = options.arguments.trainer;
  command.add_option("--steps", trainer.steps, "How many steps of Adam")
      ->required()
      ->transform(count())
      ->type_name("N")
      ->group(group);
  command.add_option("--batch", options.batch, "Rows of a step (default with --data: all)")
      ->transform(count())
      ->type_name("B")
      ->group(group);
  command.add_option("--lr", trainer.learning_rate.initial, "Learning rate (default: 0.001)")
      ->check(positive())
      ->type_name("R")
      ->group(group);
  command
      .add_option("--schedule", options.schedule,
                  "How it goes on: constant (default), cosine or exponential")
      ->check(CLI::IsMember({"constant", "cosine", "exponential"}).description(""))
      ->type_name("NAME")
      ->group(group);
  command.add_option("--final-lr", options.final_rate, "Where it ends (default of cosine: 0)")
      ->check(non_negative())
      ->type_name("R")
      ->group(group);
  command.add_option("--warmup", options.warmup, "Steps in which it first rises (default: 0)")
      ->transform(count(0))
      ->type_name("N")
      ->group(group);
  command
      .add_option("--weight-decay", trainer.adam.weight_decay,
                  "Taken off the parameters, as AdamW does it (default: 0)")
      ->check(non_negative())
      ->type_name("W")
      ->group(group);
  command.add_option("--clip-norm", options.clip_norm, "Longest gradient; longer ones are cut")
      ->check(positive())
      ->type_name("C")
      ->group(group);
}

void add_data(CLI::App& command, TrainOptions& options) {
  char const* const group = "With --data";
  auto& a                 = options.arguments;
  command.add_option("--validation", a.validation, "Rows that choose the model (.npy)")
      ->check(file_name())
      ->type_name("FILE")
      ->group(group);
  command
      .add_option("--validation-fraction", options.validation_fraction,
                  "Part of the rows of --data to set apart for that")
      ->check(between(std::numeric_limits<double>::min(), std::nextafter(1.0, 0.0),
                      "a number above 0 and below 1"))
      ->type_name("F")
      ->group(group);
  command
      .add_flag("--standardize", a.standardize,
                "Train on standardised columns; the model is one of rows as they are")
      ->group(group);
}

void add_target(CLI::App& command, TrainOptions& options) {
  char const* const group = "With --target";
  command
      .add_flag("--path-gradient", options.arguments.reverse_kl.path_gradient,
                "Gradient by way of the rows alone (sticking the landing)")
      ->group(group);
  command
      .add_option("--anneal", options.anneal,
                  "Let the target count from 0.01 times to in full over N steps")
      ->transform(count())
      ->type_name("N")
      ->group(group);
  command
      .add_option("--validation-rows", options.validation_rows,
                  "Rows, the same each time, that choose the model (default: none)")
      ->transform(count())
      ->type_name("N")
      ->group(group);
  command
      .add_option("--estimate-rows", options.estimate_rows,
                  "Fresh rows that judge it in the end (default: 1048576)")
      ->transform(count())
      ->type_name("N")
      ->group(group);
}

void add_run(CLI::App& command, TrainOptions& options) {
  char const* const group = "The run";
  auto& a                 = options.arguments;
  command
      .add_option("--validation-interval", options.validation_interval,
                  "Steps between two looks at the validation rows (default: 100)")
      ->transform(count())
      ->type_name("N")
      ->group(group);
  command.add_option("--patience", options.patience, "Stop after N looks without a better model")
      ->transform(count())
      ->type_name("N")
      ->group(group);
  command.add_option("--checkpoint", options.checkpoint, "Where the state of the run goes")
      ->check(file_name())
      ->type_name("FILE")
      ->group(group);
  command
      .add_option("--checkpoint-interval", options.checkpoint_interval,
                  "Steps between two (default: at the end, and at a signal)")
      ->transform(count())
      ->type_name("N")
      ->group(group);
  command.add_flag("--resume", a.resume, "Go on from the checkpoint, if there is one")
      ->group(group);
  command.add_option("--log", a.log, "Where the losses go, as the run goes on (.csv)")
      ->check(file_name())
      ->type_name("FILE")
      ->group(group);
  command.add_option("--plot", a.plot, "Where a picture of them goes (.png)")
      ->check(file_name())
      ->type_name("FILE")
      ->group(group);
  command
      .add_option("--report-interval", options.report_interval,
                  "Steps between two points of both, and two looks at signals\n(default: 20; fewer "
                  "if long)")
      ->transform(count())
      ->type_name("N")
      ->group(group);
}

void add_model(CLI::App& command, TrainOptions& options) {
  char const* const group = "The model";
  command
      .add_option("--direction", options.direction,
                  "generative (default with --target) or normalizing (with --data)")
      ->check(CLI::IsMember({"generative", "normalizing"}).description(""))
      ->type_name("NAME")
      ->group(group);
  command.add_option("--activation", options.activation, "tanh (default) or leaky_relu")
      ->check(CLI::IsMember({"tanh", "leaky_relu"}).description(""))
      ->type_name("NAME")
      ->group(group);
  command.add_option("--slope", options.slope, "Slope of leaky_relu below zero (default: 0.2)")
      ->check(between(0.0, 1.0, "a number from 0 to 1"))
      ->type_name("S")
      ->group(group);
  command
      .add_option("--constraint", options.constraint, "softplus (default), log_softplus or none")
      ->check(CLI::IsMember({"softplus", "log_softplus", "none"}).description(""))
      ->type_name("NAME")
      ->group(group);
  command.add_option("--type", options.type, "Type it is stored in: float32 (default) or float64")
      ->check(CLI::IsMember({"float32", "float64"}).description(""))
      ->type_name("TYPE")
      ->group(group);
}

constexpr char const* train_footer = R"(
Losses are in nats per row: the mean of -log q(x) with --data, and of log q(x) - log p(x) with
--target, where the last line adds log Z, which makes it the KL divergence, and its standard error.
With validation rows the model of the smallest validation loss is written, else the last one. The
losses printed in the end are those of the written model. The same command gives the same model,
bit for bit, with any number of threads.

A run that has a --checkpoint ends at SIGINT and SIGTERM once it has written that, and --resume goes
on from there: the whole run is then what it would have been without. Others end at once. A step
whose loss or gradient is not finite is not taken, and the one before it is undone.

Of the energies of Rezende & Mohamed (2015), U2 to U4 have no bound in z1. They get one: from
|z1| = 4 on the energy rises by ((|z1| - 4) / 0.25)^2 / 2. log Z is then 1.877502, 2.157505,
2.717121 and 2.786114 for U1 to U4.

Examples:
  meander train --data train.npy --validation test.npy --flow planar:16 --standardize \
                --steps 3000 --lr 5e-3 --seed 1 --out M.safetensors --log loss.csv --plot loss.png
  meander train --data train.npy --validation-fraction 0.1 --patience 10 --flow planar:32 \
                --steps 100000 --batch 1024 --schedule cosine --seed 1 --out M.safetensors \
                --checkpoint run.ckpt --checkpoint-interval 1000 --resume
  meander train --target U1 --flow planar:32 --steps 20000 --batch 512 --lr 2e-3 --anneal 5000 \
                --seed 1 --out U1.safetensors)";

}  // namespace

Command add_train(CLI::App& tool) {
  auto const options  = std::make_shared<TrainOptions>();
  auto* const command = tool.add_subcommand("train", "Fit a flow to rows, or to an energy");
  add_rows_and_targets(*command, *options);
  add_steps(*command, *options);
  add_data(*command, *options);
  add_target(*command, *options);
  add_run(*command, *options);
  add_model(*command, *options);
  auto& a = options->arguments;
  command->add_option("--compute", a.compute, "Arithmetic: double (default) or float")
      ->check(CLI::IsMember({"float", "double"}).description(""))
      ->type_name("TYPE");
  add_threads_to(*command, a.threads);
  command->add_flag("--verbose", a.verbose, "Without a terminal, print a line now and then");
  command->footer(train_footer);
  return {command, [command, options] {
            auto const arguments = read_arguments(*command, *options);
            arguments.target == 0 ? train_on_data(arguments) : train_on_target(arguments);
          }};
}

}  // namespace meander::cli
