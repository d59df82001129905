// SPDX-License-Identifier: BSD-3-Clause
#include "train_run.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include <meander/model_file.hpp>

#include "../file.hpp"

namespace meander::cli {

void check_results_can_be_written(TrainArguments const& arguments) {
  auto const& checkpoint = arguments.trainer.checkpoint;
  if (!checkpoint.empty() && !arguments.resume && std::filesystem::exists(checkpoint)) {
    throw std::runtime_error(impl::path_in_quotes(checkpoint) +
                             " exists; give --resume to go on from it, or another name");
  }
  for (std::filesystem::path const& path :
       {std::filesystem::path(arguments.out), std::filesystem::path(arguments.plot), checkpoint}) {
    if (path.empty()) continue;
    DeferSignals const defer;
    impl::AtomicFile const probe(path);
  }
}

TrainerOptions trainer_options(TrainArguments const& arguments, std::int64_t batch,
                               std::int64_t dim) {
  auto options = arguments.trainer;
  if (options.report_interval > 0) return options;
  // Often enough for a picture and for signals, seldom enough to cost nothing. Not a function of
  // the number of steps, which a resumed run may change.
  constexpr double most_work = 2e8;
  constexpr double most      = 20;
  double const work          = double(batch) * double(dim) * double(arguments.layers);
  options.report_interval    = static_cast<std::int64_t>(std::clamp(most_work / work, 1.0, most));
  return options;
}

TrainRun::TrainRun(TrainArguments const& arguments, double offset, bool validated)
    : arguments_(arguments), offset_(offset), validated_(validated) {
  if (!arguments.trainer.checkpoint.empty()) defer_.emplace();
}

bool TrainRun::resumes() const {
  if (!arguments_.resume) return false;
  auto const& checkpoint = arguments_.trainer.checkpoint;
  if (std::filesystem::exists(checkpoint)) return true;
  std::fprintf(stderr, "meander: %s does not exist yet; training begins at step 0\n",
               impl::path_in_quotes(checkpoint).c_str());
  return false;
}

TrainingWatch::Settings TrainRun::watch_settings(TrainerOptions const& options) const {
  return {offset_, validated_ ? options.validation_interval : 0, options.report_interval,
          arguments_.verbose, defer_.has_value()};
}

std::optional<LossLog> TrainRun::open_log(TrainerOptions const& options) const {
  if (arguments_.log.empty()) return std::nullopt;
  if (!resumed_at_) return LossLog(arguments_.log);
  return LossLog(arguments_.log, *resumed_at_, options.report_interval);
}

void TrainRun::end_if_interrupted() {
  if (!interrupted_) return;
  std::fprintf(stderr, "meander: stopped by a signal at step %lld; --resume goes on from %s\n",
               static_cast<long long>(*interrupted_),
               impl::path_in_quotes(arguments_.trainer.checkpoint).c_str());
  defer_.reset();  // which ends the process
  throw std::runtime_error("stopped by a signal");
}

void TrainRun::write_results(TrainingResult const& result, Model model, LossCurve curve) const {
  model.stored = arguments_.stored;
  DeferSignals const defer;
  write_model(arguments_.out, model);
  if (arguments_.plot.empty()) return;
  for (auto const& point : result.history) {
    auto const step = static_cast<double>(point.step);
    curve.train.push_back({step, point.loss + offset_});
    if (!std::isnan(point.validation_loss)) {
      curve.validation.push_back({step, point.validation_loss + offset_});
    }
  }
  if (validated_) {
    curve.best = {static_cast<double>(result.best_step), result.best_validation_loss + offset_};
  }
  draw_loss_curve(curve, arguments_.plot);
}

std::string TrainRun::summary_end(TrainingResult const& result) const {
  double const seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  std::array<char, 128> text = {};
  std::snprintf(text.data(), text.size(), "kept step %lld, undone steps %lld, %.3f s",
                static_cast<long long>(result.best_step),
                static_cast<long long>(result.undone_steps), seconds);
  return text.data() + std::string(result.stopped_early ? ", stopped early\n" : "\n");
}

void TrainRun::check_loss(double loss) const {
  if (std::isfinite(loss)) return;
  throw std::runtime_error(impl::path_in_quotes(arguments_.out) +
                           ": the loss of the model that was written is " + fixed(loss) +
                           "; a smaller --lr, or --clip-norm, may keep it finite");
}

std::string fixed(double value) {
  std::array<char, 64> text = {};
  std::snprintf(text.data(), text.size(), "%.6f", value);
  return text.data();
}

}  // namespace meander::cli
