// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <meander/model.hpp>
#include <meander/trainer.hpp>

#include "interrupts.hpp"
#include "loss_curve.hpp"
#include "loss_log.hpp"
#include "train_arguments.hpp"
#include "training_watch.hpp"

/// What fitting to rows and fitting to an energy have in common.
namespace meander::cli {

/// \brief Fails now rather than after hours: the folders of the results can be written to, and no
/// checkpoint of another run would be lost.
void check_results_can_be_written(TrainArguments const& arguments);

/// \brief The options of the trainer, with a report interval for steps of this much work.
TrainerOptions trainer_options(TrainArguments const& arguments, std::int64_t batch,
                               std::int64_t dim);

/// \brief One training run: resumed or not, watched, and ended by signals as it should be.
class TrainRun {
 public:
  /// \param[in] offset see TrainingWatch::Settings
  /// \param[in] validated whether there are validation rows
  TrainRun(TrainArguments const& arguments, double offset, bool validated);

  /// \brief Goes on from the checkpoint, where there is one and the arguments say so, and trains.
  /// \param[in] fit calls the trainer with the report function that it is given
  /// \throws std::exception
  template <class Trainer, class Fit>
  TrainingResult run(Trainer& trainer, Fit const& fit) {
    if (resumes()) {
      trainer.resume(arguments_.trainer.checkpoint);
      resumed_at_ = trainer.steps();
    }
    TrainingWatch watch(watch_settings(trainer.options()), open_log(trainer.options()));
    auto result = fit([&](TrainingReport const& report) { return watch.show(report); });
    // A run that has had its last step is done; a signal that came with it ends the process later.
    if (result.interrupted && result.steps < trainer.options().steps) {
      interrupted_.emplace(result.steps);
    } else if (!result.interrupted) {
      defer_.reset();
    }
    return result;
  }

  /// \brief To be called once the live line is gone: where a signal asked for the end, ends the
  /// process as the signal would have.
  void end_if_interrupted();

  /// \brief Writes the model, and the picture if there is to be one.
  /// \param[in] curve what the picture shows beside the losses
  void write_results(TrainingResult const& result, Model model, LossCurve curve) const;

  /// \brief What ends the summary of a run.
  std::string summary_end(TrainingResult const& result) const;

  /// \brief A model that has been written and is of no use is a failure.
  /// \throws std::runtime_error if the loss is not a finite number
  void check_loss(double loss) const;

 private:
  bool resumes() const;
  TrainingWatch::Settings watch_settings(TrainerOptions const& options) const;
  std::optional<LossLog> open_log(TrainerOptions const& options) const;

  TrainArguments const& arguments_;
  double offset_;
  bool validated_;
  std::optional<std::int64_t> resumed_at_, interrupted_;
  std::optional<DeferSignals> defer_;  ///< while there is a checkpoint to be written
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// \brief A number with six decimals, for the summary.
std::string fixed(double value);

}  // namespace meander::cli
