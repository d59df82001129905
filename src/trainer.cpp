// SPDX-License-Identifier: BSD-3-Clause
#include <meander/trainer.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <Kokkos_Core.hpp>

#include <meander/negative_log_likelihood.hpp>

#include "checkpoint.hpp"
#include "file.hpp"
#include "instantiate.hpp"
#include "refuse.hpp"
#include "trainer_rows.hpp"

namespace meander {

namespace impl {

namespace {

constexpr char const* trainer  = "meander::Trainer";
constexpr double not_a_number  = std::numeric_limits<double>::quiet_NaN();
constexpr char const* run_kind = "run.kind";

/// The one run of planar layers that is trained.
PlanarLayers const& planar_layers(Model const& model) {
  PlanarLayers const* layers = nullptr;
  if (model.layers.size() == 1) layers = std::get_if<PlanarLayers>(&model.layers.front());
  if (layers == nullptr)
    refuse(trainer, "argument initial has ", model.layers.size(),
           " runs of layers, expected one, of planar layers");
  check_options(layers->options);
  check_direction(model.direction);
  auto const count = static_cast<std::size_t>(layers->count);
  auto const dim   = static_cast<std::size_t>(layers->dim);
  if (layers->count < 1 || layers->dim < 1 || layers->w.size() != count * dim ||
      layers->u.size() != count * dim || layers->b.size() != count)
    refuse(trainer, "argument initial says ", layers->count, " layers of dimension ", layers->dim,
           " and holds ", layers->w.size(), ", ", layers->u.size(), " and ", layers->b.size(),
           " numbers of w, u and b; expected L D, L D and L, with L and D from 1 on");
  return *layers;
}

/// w, u and b side by side.
std::vector<double> flat(PlanarLayers const& layers) {
  std::vector<double> values(layers.w);
  values.insert(values.end(), layers.u.begin(), layers.u.end());
  values.insert(values.end(), layers.b.begin(), layers.b.end());
  return values;
}

template <class Space>
using Doubles = Kokkos::View<double*, Space>;
template <class Space>
using UnmanagedDoubles = Kokkos::View<double*, Space, Kokkos::MemoryUnmanaged>;

template <class ExecutionSpace>
Doubles<typename ExecutionSpace::memory_space> allocate(ExecutionSpace const& exec,
                                                        std::string const& label,
                                                        std::int64_t size) {
  return Doubles<typename ExecutionSpace::memory_space>(
      Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, label), std::size_t(size));
}

/// To the first elements of a View.
template <class ExecutionSpace, class View>
void to_device(ExecutionSpace const& exec, std::vector<double> const& from, View const& to) {
  Kokkos::deep_copy(exec, UnmanagedDoubles<typename View::memory_space>(to.data(), from.size()),
                    Kokkos::View<double const*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(
                        from.data(), from.size()));
  exec.fence("meander::Trainer: the host's numbers may be freed");
}

template <class ExecutionSpace, class View>
std::vector<double> to_host(ExecutionSpace const& exec, View const& from) {
  std::vector<double> to(from.size());
  Kokkos::deep_copy(exec, UnmanagedDoubles<Kokkos::HostSpace>(to.data(), to.size()),
                    UnmanagedDoubles<typename View::memory_space>(from.data(), to.size()));
  exec.fence("meander::Trainer: numbers are about to be read on the host");
  return to;
}

/// w, u and b as parts of a View.
template <class Parameters, class View>
Parameters views(View const& values, std::int64_t layers, std::int64_t dim) {
  auto const l = static_cast<std::size_t>(layers), d = static_cast<std::size_t>(dim);
  Parameters result;
  result.w = decltype(result.w)(values.data(), l, d);
  result.u = decltype(result.u)(values.data() + l * d, l, d);
  result.b = decltype(result.b)(values.data() + 2 * l * d, l);
  return result;
}

template <class ExecutionSpace, class Storage>
auto rows_view(StridedMatrix<Storage const> const& rows) {
  return Kokkos::View<Storage const**, Kokkos::LayoutStride, typename ExecutionSpace::memory_space,
                      Kokkos::MemoryUnmanaged>(
      rows.data, Kokkos::LayoutStride(std::size_t(rows.extent0), std::size_t(rows.stride0),
                                      std::size_t(rows.extent1), std::size_t(rows.stride1)));
}

template <class Compute>
char const* name_of() {
  return sizeof(Compute) == sizeof(float) ? "float" : "double";
}

TrainerOptions checked(TrainerOptions options) {
  options.check();
  auto& rate = options.learning_rate;
  if (rate.steps == 0) rate.steps = std::max(options.steps, rate.warmup_steps + 1);
  if (rate.decay == Decay::constant) rate.steps = 0;
  return options;
}

using Settings = std::map<std::string, std::string>;

void add_settings(Settings& settings, PlanarOptions const& options) {
  settings["planar.activation"]      = to_string(options.activation);
  settings["planar.constraint"]      = to_string(options.constraint);
  settings["planar.log_det_epsilon"] = setting(options.log_det_epsilon);
  if (options.activation == Activation::leaky_relu)
    settings["planar.negative_slope"] = setting(options.negative_slope);
}

void add_settings(Settings& settings, LearningRate const& rate) {
  settings["learning_rate.initial"]      = setting(rate.initial);
  settings["learning_rate.decay"]        = to_string(rate.decay);
  settings["learning_rate.warmup_steps"] = setting(rate.warmup_steps);
  if (rate.decay == Decay::constant) return;
  settings["learning_rate.final"] = setting(rate.final);
  settings["learning_rate.steps"] = setting(rate.steps);
}

void add_settings(Settings& settings, AdamOptions const& options) {
  settings["adam.beta1"]         = setting(options.beta1);
  settings["adam.beta2"]         = setting(options.beta2);
  settings["adam.epsilon"]       = setting(options.epsilon);
  settings["adam.weight_decay"]  = setting(options.weight_decay);
  settings["adam.decoupled"]     = options.decoupled ? "true" : "false";
  settings["adam.max_grad_norm"] = setting(options.max_grad_norm);
}

void add_settings(Settings& settings, TrainerOptions const& options) {
  settings["batch"]               = setting(options.batch);
  settings["seed"]                = setting(options.seed);
  settings["validation_fraction"] = setting(options.validation_fraction);
  settings["validation_interval"] = setting(options.validation_interval);
  settings["patience"]            = setting(options.patience);
  settings["report_interval"]     = setting(options.report_interval);
  if (!options.fitted_to.empty()) settings["fitted_to"] = options.fitted_to;
  add_settings(settings, options.learning_rate);
  add_settings(settings, options.adam);
}

double mean_of_finite(std::vector<double> const& losses) {
  double sum = 0;
  int count  = 0;
  for (double const loss : losses) {
    if (!std::isfinite(loss)) continue;
    sum += loss;
    ++count;
  }
  return count > 0 ? sum / count : not_a_number;
}

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

std::uint64_t validation_seed(std::uint64_t seed) { return ~seed; }

TrainingKind reverse_kl_kind(TrainerOptions const& options, ReverseKlTraining const& training) {
  training.check();
  if (options.batch < 1)
    refuse(trainer, "options.batch is ", options.batch,
           ", expected the number of rows that a step of reverse KL draws, 1 or more");
  TrainingKind kind;
  kind.settings      = {{run_kind, "reverse_kl"},
                        {"run.path_gradient", training.path_gradient ? "true" : "false"},
                        {"run.beta_start", setting(training.beta_start)},
                        {"run.beta_steps", setting(training.beta_steps)},
                        {"run.validation_batch", setting(training.validation_batch)}};
  kind.rows_per_step = double(options.batch);
  return kind;
}

template <class Compute, class ExecutionSpace>
struct TrainerState {
  using trainer_type    = Trainer<Compute, ExecutionSpace>;
  using memory_space    = typename ExecutionSpace::memory_space;
  using parameters_type = typename trainer_type::parameters_type;
  using doubles         = Doubles<memory_space>;
  using flow_type       = typename trainer_type::flow_type;
  using stack_type      = PlanarStack<Compute, ExecutionSpace>;
  using workspace_type  = PlanarVjpWorkspace<Compute, ExecutionSpace>;
  using loss_type       = typename trainer_type::loss_type;
  using run_type        = typename trainer_type::run_type;

  ExecutionSpace exec;
  TrainerOptions options;
  Model frame;  ///< all of the model but its parameters
  std::int64_t layers, dim, count;
  doubles values, gradients, best, losses, validation;
  parameters_type parameters, grad_parameters;
  Adam<ExecutionSpace> adam;
  stack_type stack;
  flow_type flow;
  std::optional<workspace_type> workspace;

  TrainingProgress progress;
  std::vector<TrainingPoint> history;
  std::int64_t kept_losses = 0;  ///< how many of the last steps have a loss in the ring
  Settings settings;             ///< those that no run adds to
  Settings run_settings;
  Settings resumed_settings;
  std::string resumed;  ///< the checkpoint that the next run goes on from

  TrainerState(ExecutionSpace exec_, Model const& initial, TrainerOptions const& options_)
      : exec(std::move(exec_)),
        options(checked(options_)),
        frame(initial),
        layers(planar_layers(initial).count),
        dim(planar_layers(initial).dim),
        count(layers * (2 * dim + 1)),
        values(allocate(exec, "meander::Trainer::parameters", count)),
        gradients(allocate(exec, "meander::Trainer::gradients", count)),
        best(allocate(exec, "meander::Trainer::best", count)),
        losses(allocate(exec, "meander::Trainer::losses", options.report_interval)),
        validation(allocate(exec, "meander::Trainer::validation_loss", 1)),
        parameters(views<parameters_type>(values, layers, dim)),
        grad_parameters(views<parameters_type>(gradients, layers, dim)),
        adam(exec, layers, dim, options.adam),
        stack(first_stack(exec, initial, values, parameters)),
        flow(make(exec, initial, stack)) {
    auto& own = std::get<PlanarLayers>(frame.layers.front());
    own.w.clear();
    own.u.clear();
    own.b.clear();
    settings["compute"]   = name_of<Compute>();
    settings["direction"] = to_string(frame.direction);
    add_settings(settings, own.options);
    add_settings(settings, options);
    run_settings[run_kind] = "step";
  }

  static stack_type first_stack(ExecutionSpace const& exec, Model const& initial,
                                doubles const& values, parameters_type const& parameters) {
    auto const& layers = planar_layers(initial);
    to_device(exec, flat(layers), values);
    return stack_type(exec, parameters, layers.options);
  }

  static flow_type make(ExecutionSpace const& exec, Model const& initial, stack_type const& stack) {
    auto const* base = std::get_if<DiagonalNormal>(&initial.base);
    if (base == nullptr) return flow_type(exec, StandardNormal{}, stack, initial.direction);
    auto const loc = allocate(exec, "meander::Trainer::base", std::int64_t(base->loc.size()));
    auto const log_scale =
        allocate(exec, "meander::Trainer::base", std::int64_t(base->log_scale.size()));
    to_device(exec, base->loc, loc);
    to_device(exec, base->log_scale, log_scale);
    flow_type const flow(exec, DiagonalNormalParameters{loc, log_scale}, stack, initial.direction);
    exec.fence("meander::Trainer: the base's parameters are about to be freed");
    return flow;
  }

  std::vector<double> base() const {
    std::vector<double> result;
    if (auto const* normal = std::get_if<DiagonalNormal>(&frame.base)) {
      result = normal->loc;
      result.insert(result.end(), normal->log_scale.begin(), normal->log_scale.end());
    }
    return result;
  }

  Model model_of(std::vector<double> const& from) const {
    Model model       = frame;
    auto& own         = std::get<PlanarLayers>(model.layers.front());
    auto const matrix = layers * dim;
    own.w.assign(from.begin(), from.begin() + matrix);
    own.u.assign(from.begin() + matrix, from.begin() + 2 * matrix);
    own.b.assign(from.begin() + 2 * matrix, from.end());
    return model;
  }

  /// The workspace takes that many rows.
  void reserve(std::int64_t rows) {
    if (workspace && workspace->max_batch() >= rows) return;
    exec.fence("meander::Trainer: the workspace is about to be replaced");
    workspace.reset();
    workspace.emplace(exec, stack, rows);
  }

  template <class Storage>
  StridedMatrix<Storage const> checked_rows(char const* argument,
                                            StridedMatrix<Storage const> const& rows) const {
    check_extent(trainer, argument, "extent 1", rows.extent1, dim, "the dimension of the flow");
    if (rows.extent0 < 1)
      refuse(trainer, "extent 0 of argument ", argument, " is 0, expected 1 or more");
    return rows;
  }

  template <class Storage>
  void likelihood(StridedMatrix<Storage const> const& rows, loss_type const& loss) const {
    negative_log_likelihood(exec, *workspace, flow, parameters, rows_view<ExecutionSpace>(rows),
                            loss, grad_parameters);
  }

  template <class Loss>
  void take_step(Loss const& loss_and_gradients) {
    auto const step = progress.step;
    loss_type const loss(losses.data() + step % options.report_interval);
    loss_and_gradients(step, loss);
    adam.step(exec, options.learning_rate.at(step), parameters, grad_parameters, loss);
    stack.refresh(exec, parameters);
    ++progress.step;
    kept_losses = std::min(kept_losses + 1, options.report_interval);
  }

  /// Losses of the last steps, oldest first.
  std::vector<double> last_losses(std::int64_t wanted) const {
    auto const ring  = to_host(exec, losses);
    auto const first = progress.step - wanted;
    std::vector<double> result;
    for (std::int64_t i = 0; i < wanted; ++i)
      result.push_back(ring[std::size_t((first + i) % options.report_interval)]);
    return result;
  }

  double validation_loss(run_type const& run) const {
    run.validation_loss(loss_type(validation.data()));
    return to_host(exec, validation).front();
  }

  static bool is_better(double loss, double best_loss) {
    return loss < best_loss || (std::isnan(best_loss) && !std::isnan(loss));
  }

  void validate(run_type const& run) {
    double const loss              = validation_loss(run);
    progress.validation_loss       = loss;
    progress.point_validation_loss = loss;
    ++progress.validations_since_best;
    if (!is_better(loss, progress.best_validation_loss)) return;
    progress.best_validation_loss   = loss;
    progress.best_step              = progress.step;
    progress.validations_since_best = 0;
    Kokkos::deep_copy(exec, best, values);
  }

  TrainingPoint point(std::int64_t steps) const {
    return {progress.step, mean_of_finite(last_losses(steps)),
            options.learning_rate.at(progress.step - 1), progress.point_validation_loss};
  }

  void begin(run_type const& run) {
    if (!resumed.empty()) {
      compare_settings(resumed, resumed_settings, run.kind.settings, "run.");
    } else {
      progress    = {};
      kept_losses = 0;
      history.clear();
    }
    resumed.clear();
    run_settings = run.kind.settings;
  }

  /// A step that belongs to no run: one that was interrupted is no longer to be resumed.
  template <class Loss>
  void take_single_step(Loss const& loss_and_gradients) {
    if (run_settings.size() > 1 || !resumed.empty()) {
      resumed.clear();
      run_settings = {{run_kind, "step"}};
    }
    take_step(loss_and_gradients);
  }

  bool out_of_patience() const {
    return options.patience > 0 && progress.validations_since_best >= options.patience;
  }

  void check_progress(AdamProgress const& counts, std::int64_t stalled_too_long) const {
    if (counts.stalled < stalled_too_long) return;
    std::string text = std::string(trainer) + ": gave up at step " + std::to_string(progress.step) +
                       ": the last " + std::to_string(counts.stalled) +
                       " steps led nowhere, since loss or gradient was not finite in " +
                       std::to_string(counts.refused) + " of all (the last loss is " +
                       setting(last_losses(1).front()) + ", the gradient's norm " +
                       setting(counts.gradient_norm) + "); are there rows with NaN?";
    throw TrainingError(text);
  }

  TrainingReport report(TrainingPoint const& point, AdamProgress const& counts, run_type const& run,
                        std::int64_t began, double seconds) const {
    TrainingReport result{};
    result.point                 = point;
    result.point.validation_loss = progress.validation_loss;
    result.steps                 = options.steps;
    result.best_validation_loss  = progress.best_validation_loss;
    result.best_step             = progress.best_step;
    result.gradient_norm         = counts.gradient_norm;
    result.undone_steps          = counts.undone;
    result.refused_steps         = counts.refused;
    result.seconds               = seconds;
    result.rows_per_second       = run.kind.rows_per_step * double(progress.step - began) / seconds;
    return result;
  }

  /// What is looked at once more after the last step is not part of the run that can be resumed:
  /// resumed to more steps, it must not show where it was cut.
  TrainingResult finish(run_type const& run, ReportFunction const& to_report, std::int64_t began,
                        double seconds, bool interrupted) {
    auto const counts = adam.progress(exec);
    if (counts.taken == 0 && progress.step > 0)
      check_progress(counts, std::min(options.give_up_after, progress.step));
    auto const kept = std::pair(progress, history);
    TrainingResult result{};
    bool const validated = progress.step == 0 || (options.validation_interval > 0 &&
                                                  progress.step % options.validation_interval == 0);
    auto const last      = to_host(exec, values);
    auto best_values     = last;
    if (run.validation_loss && !validated) {
      double const loss              = validation_loss(run);
      progress.validation_loss       = loss;
      progress.point_validation_loss = loss;
      if (is_better(loss, progress.best_validation_loss)) {
        progress.best_validation_loss = loss;
        progress.best_step            = progress.step;
      }
      if (!history.empty() && history.back().step == progress.step)
        history.back().validation_loss = loss;
    }
    // Without a validation loss that is a number, nothing was kept.
    if (!std::isnan(progress.best_validation_loss) && progress.best_step != progress.step)
      best_values = to_host(exec, best);
    auto const left = progress.step % options.report_interval;
    if (left > 0) {
      history.push_back(point(std::min(left, kept_losses)));
      if (to_report && !interrupted) to_report(report(history.back(), counts, run, began, seconds));
    }
    result.best                 = model_of(best_values);
    result.last                 = model_of(last);
    result.best_step            = run.validation_loss ? progress.best_step : progress.step;
    result.best_validation_loss = progress.best_validation_loss;
    result.validation_loss      = progress.validation_loss;
    result.steps                = progress.step;
    result.undone_steps         = counts.undone;
    result.refused_steps        = counts.refused;
    result.interrupted          = interrupted;
    result.stopped_early        = out_of_patience();
    result.history              = history;
    std::tie(progress, history) = kept;
    return result;
  }

  Checkpoint checkpoint() const {
    Checkpoint c;
    c.layers   = layers;
    c.dim      = dim;
    c.settings = settings;
    c.settings.insert(run_settings.begin(), run_settings.end());
    c.progress   = progress;
    c.parameters = to_host(exec, values);
    if (!std::isnan(progress.best_validation_loss)) c.best = to_host(exec, best);
    c.base   = base();
    c.adam   = to_host(exec, adam.state());
    c.losses = last_losses(std::min(kept_losses, progress.step % options.report_interval));
    for (auto const& p : history)
      c.history.insert(c.history.end(),
                       {double(p.step), p.loss, p.learning_rate, p.validation_loss});
    return c;
  }

  void restore(std::filesystem::path const& path) {
    auto const c     = read_checkpoint(path, layers, dim, adam.layout().size);
    auto const where = path_in_quotes(path);
    compare_settings(where, without_run(c.settings), settings, "");
    if (!same_bits(c.base, base()))
      throw TrainingError(where + ": the checkpoint is of a flow with another base");
    if (std::int64_t(c.losses.size()) != c.progress.step % options.report_interval)
      throw TrainingError(where + ": the checkpoint holds " + std::to_string(c.losses.size()) +
                          " losses after the last report, expected " +
                          std::to_string(c.progress.step % options.report_interval));
    if (std::isnan(c.progress.best_validation_loss) != c.best.empty())
      throw TrainingError(where + ": the checkpoint says the loss of a best model or holds one, " +
                          "expected both or neither");
    resumed          = where;
    resumed_settings = c.settings;
    run_settings     = only_run(c.settings);
    progress         = c.progress;
    kept_losses      = std::int64_t(c.losses.size());
    history.clear();
    for (std::size_t i = 0; i < c.history.size(); i += history_columns)
      history.push_back({static_cast<std::int64_t>(c.history[i]), c.history[i + 1],
                         c.history[i + 2], c.history[i + 3]});
    to_device(exec, c.parameters, values);
    if (!c.best.empty()) to_device(exec, c.best, best);
    to_device(exec, c.adam, adam.state());
    to_device(exec, c.losses, losses);
    stack.refresh(exec, parameters);
  }

  static Settings without_run(Settings all) {
    std::erase_if(all, [](auto const& s) { return s.first.starts_with("run."); });
    return all;
  }
  static Settings only_run(Settings all) {
    std::erase_if(all, [](auto const& s) { return !s.first.starts_with("run."); });
    return all;
  }

  static bool same_bits(std::vector<double> const& a, std::vector<double> const& b) {
    return std::ranges::equal(a, b, [](double x, double y) {
      return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
    });
  }
};

template <class ExecutionSpace, class Parameter>
Model model_of_parameters(ExecutionSpace const& exec, StridedMatrix<Parameter const> w,
                          StridedMatrix<Parameter const> u, StridedVector<Parameter const> b,
                          PlanarOptions const& options, Direction direction) {
  check_extent(trainer, "u", "extent 0", u.extent0, w.extent0, "extent 0 of w");
  check_extent(trainer, "u", "extent 1", u.extent1, w.extent1, "extent 1 of w");
  check_extent(trainer, "b", "extent 0", b.extent0, w.extent0, "extent 0 of w");
  auto const matrix = w.extent0 * w.extent1;
  auto const values = allocate(exec, "meander::Trainer::copy", 2 * matrix + b.extent0);
  flatten<ExecutionSpace, Parameter>(exec, w, {values.data(), matrix, 1});
  flatten<ExecutionSpace, Parameter>(exec, u, {values.data() + matrix, matrix, 1});
  flatten<ExecutionSpace, Parameter>(exec, {b.data, b.extent0, 1, b.stride0, 1},
                                     {values.data() + 2 * matrix, b.extent0, 1});
  auto const all = to_host(exec, values);
  PlanarLayers layers;
  layers.count   = w.extent0;
  layers.dim     = w.extent1;
  layers.options = options;
  layers.w.assign(all.begin(), all.begin() + matrix);
  layers.u.assign(all.begin() + matrix, all.begin() + 2 * matrix);
  layers.b.assign(all.begin() + 2 * matrix, all.end());
  Model model;
  model.direction = direction;
  model.stored    = ScalarType::float64;
  model.layers.emplace_back(std::move(layers));
  return model;
}

}  // namespace impl

template <class Compute, class ExecutionSpace>
Trainer<Compute, ExecutionSpace>::Trainer(ExecutionSpace const& exec, Model const& initial,
                                          TrainerOptions const& options)
    : state_(
          std::make_unique<impl::TrainerState<Compute, ExecutionSpace>>(exec, initial, options)) {}

template <class Compute, class ExecutionSpace>
Trainer<Compute, ExecutionSpace>::Trainer(Trainer&&) noexcept = default;
template <class Compute, class ExecutionSpace>
Trainer<Compute, ExecutionSpace>& Trainer<Compute, ExecutionSpace>::operator=(Trainer&&) noexcept =
    default;
template <class Compute, class ExecutionSpace>
Trainer<Compute, ExecutionSpace>::~Trainer() = default;

template <class Compute, class ExecutionSpace>
std::vector<double> Trainer<Compute, ExecutionSpace>::losses() const {
  return state_->last_losses(state_->kept_losses);
}

template <class Compute, class ExecutionSpace>
void Trainer<Compute, ExecutionSpace>::resume(std::filesystem::path const& checkpoint) {
  state_->restore(checkpoint);
}

template <class Compute, class ExecutionSpace>
void Trainer<Compute, ExecutionSpace>::write_checkpoint(
    std::filesystem::path const& checkpoint) const {
  impl::write_checkpoint(checkpoint, state_->checkpoint());
}

template <class Compute, class ExecutionSpace>
Flow<Compute, ExecutionSpace> const& Trainer<Compute, ExecutionSpace>::flow() const {
  return state_->flow;
}

template <class Compute, class ExecutionSpace>
auto Trainer<Compute, ExecutionSpace>::parameters() const -> parameters_type const& {
  return state_->parameters;
}

template <class Compute, class ExecutionSpace>
auto Trainer<Compute, ExecutionSpace>::grad_parameters() const -> parameters_type const& {
  return state_->grad_parameters;
}

template <class Compute, class ExecutionSpace>
Model Trainer<Compute, ExecutionSpace>::model() const {
  return state_->model_of(impl::to_host(state_->exec, state_->values));
}

template <class Compute, class ExecutionSpace>
std::int64_t Trainer<Compute, ExecutionSpace>::steps() const {
  return state_->progress.step;
}

template <class Compute, class ExecutionSpace>
AdamProgress Trainer<Compute, ExecutionSpace>::progress() const {
  return state_->adam.progress(state_->exec);
}

template <class Compute, class ExecutionSpace>
TrainerOptions const& Trainer<Compute, ExecutionSpace>::options() const {
  return state_->options;
}

template <class Compute, class ExecutionSpace>
ExecutionSpace const& Trainer<Compute, ExecutionSpace>::execution_space_instance() const {
  return state_->exec;
}

template <class Compute, class ExecutionSpace>
void Trainer<Compute, ExecutionSpace>::take_step(
    std::function<void(std::int64_t, loss_type const&)> const& loss_and_gradients) {
  state_->take_single_step(loss_and_gradients);
}

template <class Compute, class ExecutionSpace>
template <class Storage>
void Trainer<Compute, ExecutionSpace>::step_on(impl::StridedMatrix<Storage const> rows) {
  auto& s            = *state_;
  auto const checked = s.checked_rows("rows", rows);
  s.reserve(checked.extent0);
  s.take_single_step([&](std::int64_t, loss_type const& loss) { s.likelihood(checked, loss); });
}

template <class Compute, class ExecutionSpace>
template <class Storage>
TrainingResult Trainer<Compute, ExecutionSpace>::fit(
    impl::StridedMatrix<Storage const> train, impl::StridedMatrix<Storage const> const* validation,
    ReportFunction const& report) {
  using Rows = Kokkos::View<Storage**, Kokkos::LayoutRight, typename ExecutionSpace::memory_space>;
  auto& s    = *state_;
  auto const& options = s.options;
  auto const rows_of  = [&](std::string const& label, std::int64_t count) {
    return Rows(Kokkos::view_alloc(s.exec, Kokkos::WithoutInitializing, label), std::size_t(count),
                 std::size_t(s.dim));
  };
  s.checked_rows("train", train);
  impl::StridedMatrix<Storage const> held_out;
  Rows split_train, split_held_out;
  if (validation != nullptr) {
    held_out = s.checked_rows("validation", *validation);
  } else if (options.validation_fraction > 0) {
    auto const wanted =
        static_cast<std::int64_t>(options.validation_fraction * double(train.extent0));
    auto const out = std::max<std::int64_t>(wanted, 1);
    if (out >= train.extent0)
      impl::refuse(impl::trainer, "extent 0 of argument train is ", train.extent0,
                   ", expected 2 rows or more to split validation rows off");
    auto const all  = static_cast<std::uint64_t>(train.extent0);
    auto const seed = impl::validation_seed(options.seed);
    split_held_out  = rows_of("meander::Trainer::validation", out);
    split_train     = rows_of("meander::Trainer::train", train.extent0 - out);
    impl::gather_rows(s.exec, impl::RowStream(seed, 0, all), train,
                      impl::strided_matrix(split_held_out));
    impl::gather_rows(s.exec, impl::RowStream(seed, std::uint64_t(out), all), train,
                      impl::strided_matrix(split_train));
    train    = impl::as_const(impl::strided_matrix(split_train));
    held_out = impl::as_const(impl::strided_matrix(split_held_out));
  }

  bool const all_rows = options.batch == 0 || options.batch >= train.extent0;
  auto const batch    = all_rows ? train.extent0 : options.batch;
  s.reserve(std::max(batch, held_out.extent0));
  run_type run;
  run.kind.settings      = {{impl::run_kind, "maximum_likelihood"},
                            {"run.storage", impl::name_of<Storage>()},
                            {"run.train_rows", impl::setting(train.extent0)},
                            {"run.validation_rows", impl::setting(held_out.extent0)}};
  run.kind.rows_per_step = double(batch);
  if (held_out.extent0 > 0)
    run.validation_loss = [&](loss_type const& loss) { s.likelihood(held_out, loss); };
  if (all_rows) {
    run.loss_and_gradients = [&](std::int64_t, loss_type const& loss) {
      s.likelihood(train, loss);
    };
    return this->run(run, report);
  }
  auto const gathered    = rows_of("meander::Trainer::batch", batch);
  auto const to          = impl::strided_matrix(gathered);
  run.loss_and_gradients = [&](std::int64_t step, loss_type const& loss) {
    impl::RowStream const stream(options.seed, std::uint64_t(step) * std::uint64_t(batch),
                                 std::uint64_t(train.extent0));
    impl::gather_rows(s.exec, stream, train, to);
    s.likelihood(impl::as_const(to), loss);
  };
  return this->run(run, report);
}

template <class Compute, class ExecutionSpace>
TrainingResult Trainer<Compute, ExecutionSpace>::run(run_type const& run,
                                                     ReportFunction const& report) {
  auto& s             = *state_;
  auto& at            = s.progress;
  auto const& options = s.options;
  bool const validate = run.validation_loss != nullptr;
  auto const due = [&](std::int64_t interval) { return interval > 0 && at.step % interval == 0; };
  s.begin(run);
  auto const began = at.step;
  impl::Stopwatch const watch;
  bool interrupted = false;
  if (validate && at.step == 0) {
    s.validate(run);
    at.point_validation_loss = impl::not_a_number;  // of no step of the first point
  }
  while (at.step < options.steps && !s.out_of_patience() && !interrupted) {
    s.take_step(run.loss_and_gradients);
    if (validate && due(options.validation_interval)) s.validate(run);
    if (due(options.report_interval)) {
      s.history.push_back(s.point(options.report_interval));
      at.point_validation_loss = impl::not_a_number;
      auto const counts        = s.adam.progress(s.exec);
      s.check_progress(counts, options.give_up_after);
      interrupted =
          report && !report(s.report(s.history.back(), counts, run, began, watch.seconds()));
    }
    bool const over = at.step == options.steps || s.out_of_patience() || interrupted;
    if (!options.checkpoint.empty() && (due(options.checkpoint_interval) || over))
      write_checkpoint(options.checkpoint);
  }
  return s.finish(run, report, began, watch.seconds(), interrupted);
}

#define MEANDER_TRAINER_FIT(Space, Storage, Compute)                                           \
  template void Trainer<Compute, Space>::step_on<Storage>(impl::StridedMatrix<Storage const>); \
  template TrainingResult Trainer<Compute, Space>::fit<Storage>(                               \
      impl::StridedMatrix<Storage const>, impl::StridedMatrix<Storage const> const*,           \
      ReportFunction const&);
#define MEANDER_TRAINER_PARAMETERS(Space, Parameter)                                            \
  template Model impl::model_of_parameters<Space, Parameter>(                                   \
      Space const&, impl::StridedMatrix<Parameter const>, impl::StridedMatrix<Parameter const>, \
      impl::StridedVector<Parameter const>, PlanarOptions const&, Direction);
#define MEANDER_TRAINER(Space)               \
  template class Trainer<float, Space>;      \
  template class Trainer<double, Space>;     \
  MEANDER_TRAINER_FIT(Space, float, float)   \
  MEANDER_TRAINER_FIT(Space, float, double)  \
  MEANDER_TRAINER_FIT(Space, double, double) \
  MEANDER_TRAINER_PARAMETERS(Space, float)   \
  MEANDER_TRAINER_PARAMETERS(Space, double)
MEANDER_FOR_EACH_SPACE(MEANDER_TRAINER)

}  // namespace meander
