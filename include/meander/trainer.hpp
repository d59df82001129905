// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <Kokkos_Core.hpp>

#include <meander/adam.hpp>
#include <meander/flow.hpp>
#include <meander/impl/strided.hpp>
#include <meander/impl/trainer.hpp>
#include <meander/impl/view_traits.hpp>
#include <meander/initial_model.hpp>
#include <meander/learning_rate.hpp>
#include <meander/model.hpp>
#include <meander/planar_parameters.hpp>
#include <meander/reverse_kl.hpp>
#include <meander/training_error.hpp>

namespace meander {

/// \brief How a Trainer trains.
struct TrainerOptions {
  std::int64_t steps = 1000;  ///< of one run; >= 0
  /// Rows of a step; 0, or as many as there are or more: all of them in every step, in their order.
  /// With reverse KL the rows drawn in a step, >= 1.
  std::int64_t batch = 0;
  /// Names the order of the rows, the validation rows that are split off, the rows drawn.
  std::uint64_t seed         = 0;
  LearningRate learning_rate = {};  ///< as a function of the step of the run
  AdamOptions adam           = {};
  /// Part of the training rows that is set apart, by the seed, where no validation rows are given;
  /// in [0, 1).
  double validation_fraction = 0;
  /// Steps between two looks at the validation rows, each of which waits for the device; there is
  /// one more before the first step and after the last. 0: at these two only.
  std::int64_t validation_interval = 100;
  /// Training stops after that many validations in a row without a new best one; 0: it does not.
  std::int64_t patience            = 0;
  std::filesystem::path checkpoint = {};  ///< empty: none is written
  std::int64_t checkpoint_interval = 0;   ///< steps between two; 0: at the end of a run only
  /// Steps between two reports, at each of which losses are copied to the host; >= 1.
  std::int64_t report_interval = 100;
  /// A run stops with a TrainingError where so many steps in a row have led nowhere, since loss or
  /// gradient was not finite again and again; looked at with every report. >= 1.
  std::int64_t give_up_after = 100;

  /// What the run is fitted to, in words of the caller's, such as a checksum of the rows: it goes
  /// into checkpoints and must be the same where one is resumed.
  std::string fitted_to = {};

  /// \brief Checks the members.
  /// \throws std::invalid_argument naming the one that is out of its range
  void check() const;
};

/// \brief How a flow is fitted to a log-density by reverse KL.
struct ReverseKlTraining {
  /// The gradient of log q(x) - beta log p(x) by x only: "sticking the landing" (Roeder, Wu &
  /// Duvenaud 2017).
  bool path_gradient = false;
  /// Annealing (Rezende & Mohamed 2015, section 4.3): log p counts beta times, beta going
  /// linearly from here in the first step to 1 in step beta_steps. In [0, 1].
  double beta_start       = 1;
  std::int64_t beta_steps = 0;  ///< 0: beta is 1 throughout
  /// Rows of the sample that a validation takes, always the same latent ones, with beta 1; 0: there
  /// is no validation.
  std::int64_t validation_batch = 0;

  /// \brief Checks the members.
  /// \throws std::invalid_argument naming the one that is out of its range
  void check() const;
  /// \brief The beta of a step.
  double beta(std::int64_t step) const;
};

/// \brief A point of the history of a run.
struct TrainingPoint {
  std::int64_t step;     ///< how many steps had been taken
  double loss;           ///< mean over the steps since the last point, those with a finite loss
  double learning_rate;  ///< of the last step
  /// The last one since the last point, at most validation_interval steps old; NaN where there was
  /// none.
  double validation_loss;

  friend bool operator==(TrainingPoint const&, TrainingPoint const&) = default;
};

/// \brief Where a run stands, for those who watch it.
struct TrainingReport {
  TrainingPoint point;  ///< the newest of the history; its validation_loss is the last one known
  std::int64_t steps;   ///< that the run is to have
  double best_validation_loss;  ///< NaN before the first validation
  std::int64_t best_step;
  double gradient_norm;             ///< of the last step, before clipping
  std::int64_t undone_steps;        ///< AdamProgress::undone
  std::int64_t refused_steps;       ///< AdamProgress::refused
  double rows_per_second, seconds;  ///< since the run began or was resumed
};

/// \brief Is called with every report, on the thread that trains. Training stops when it gives
/// false, with a checkpoint (where one is asked for) to resume from.
using ReportFunction = std::function<bool(TrainingReport const&)>;

/// \brief What a run led to.
struct TrainingResult {
  /// Of the smallest validation loss; the last one without validation rows, or where no validation
  /// loss was a number.
  Model best;
  Model last;
  std::int64_t best_step;
  double best_validation_loss;  ///< NaN without validation rows
  double validation_loss;       ///< of the last model; NaN without validation rows
  std::int64_t steps;           ///< calls of the optimizer, those that were refused included
  std::int64_t undone_steps, refused_steps;
  bool stopped_early;  ///< by patience
  bool interrupted;    ///< by the report function
  std::vector<TrainingPoint> history;
};

/// \brief Fits a flow of planar layers where the data is: on the device, in the process.
///
/// Holds the parameters in double whatever the compute type, their gradients, the Adam state, the
/// flow and its workspaces. A step is a fixed short list of kernels on one instance, without
/// synchronisation: loss and gradients, Adam, the flow made anew in place. Losses gather in
/// device memory; they are copied with every report.
///
/// All that a run does is a function of its arguments, the options and the seed: the same bits for
/// any number of threads, and for a run that was stopped and resumed.
///
/// Steps whose loss or gradient is not finite are not taken, see Adam.
///
/// \tparam Compute type of the arithmetic of the flow: float or double
/// \tparam ExecutionSpace where the kernels run
template <class Compute, class ExecutionSpace = Kokkos::DefaultExecutionSpace>
class Trainer {
  static_assert(impl::is_real_v<Compute>, "meander::Trainer: Compute must be float or double.");
  static_assert(Kokkos::is_execution_space_v<ExecutionSpace>,
                "meander::Trainer: ExecutionSpace must be a Kokkos execution space.");

 public:
  using compute_type    = Compute;
  using execution_space = ExecutionSpace;
  using memory_space    = typename ExecutionSpace::memory_space;
  using flow_type       = Flow<Compute, ExecutionSpace>;
  using matrix_type =
      Kokkos::View<double**, Kokkos::LayoutRight, memory_space, Kokkos::MemoryUnmanaged>;
  using vector_type     = Kokkos::View<double*, memory_space, Kokkos::MemoryUnmanaged>;
  using parameters_type = PlanarParameters<matrix_type, matrix_type, vector_type>;

 private:
  using loss_type = Kokkos::View<double, memory_space, Kokkos::MemoryUnmanaged>;
  using run_type  = impl::TrainingRun<loss_type>;
  friend struct impl::TrainerState<Compute, ExecutionSpace>;

 public:
  /// \brief Allocates on `exec` and copies the model, which waits for the copies.
  /// \param[in] exec the instance that everything is queued on
  /// \param[in] initial a model of one run of planar layers, e.g. of initial_planar_model or
  /// read_model. Its layers are trained, its base is not.
  /// \param[in] options how to train
  /// \throws std::invalid_argument if the model has other layers, or an option is out of its range
  Trainer(ExecutionSpace const& exec, Model const& initial, TrainerOptions const& options = {});

  /// \brief The same for parameters in device memory, which are copied, and the base N(0, I).
  template <class WView, class UView, class BView>
  Trainer(ExecutionSpace const& exec, PlanarParameters<WView, UView, BView> const& parameters,
          PlanarOptions const& planar, Direction direction, TrainerOptions const& options = {})
      : Trainer(exec, read_parameters(exec, parameters, planar, direction), options) {}

  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;
  Trainer(Trainer const&)            = delete;
  Trainer& operator=(Trainer const&) = delete;
  ~Trainer();

  /// \brief One step of maximum likelihood on all of these rows: for training inside a simulation,
  /// on whatever data it has at the moment.
  ///
  /// Asynchronous with respect to the host: nothing is allocated, copied or fenced, unless there
  /// are more rows than in any call before, which makes the workspace larger. The rows are in use
  /// until the step is done. Learning rates go on from step to step, and from resume.
  ///
  /// \param[in] rows (B, D), any layout; float or double, no wider than Compute; B >= 1
  /// \throws std::invalid_argument if there is no row, or rows of another length than the flow's
  template <class View>
  void step(View const& rows) {
    check_rows<View>();
    step_on(impl::as_const(impl::strided_matrix(rows)));
  }

  /// \brief The losses of the last steps, oldest first: each is the mean negative log-likelihood
  /// before its step was taken. At most TrainerOptions::report_interval of them. Waits for exec.
  std::vector<double> losses() const;

  /// \brief Fits the flow to rows by maximum likelihood: TrainerOptions::steps steps of Adam on the
  /// negative log-likelihood (nats per row), in minibatches or on all rows.
  ///
  /// Minibatches are taken from one stream of rows: all of them in one random order, then all of
  /// them in another one, and so on. The order is a permutation that is computed where a row is
  /// read, by a Feistel network keyed by Philox with the seed and the epoch: it takes no memory.
  ///
  /// With validation rows their loss is computed every validation_interval steps, the
  /// best model so far is kept, and training stops where TrainerOptions::patience says so. A
  /// checkpoint is written where the options say so.
  ///
  /// \param[in] train (N, D), any layout, in device memory; float or double, no wider than Compute;
  /// N >= 1; must not change before the call is over
  /// \param[in] validation (M, D), as train; M >= 1
  /// \param[in] report is called every report_interval steps
  /// \return once all is done
  /// \throws std::invalid_argument if extents disagree
  /// \throws TrainingError if steps can no longer be taken, or a checkpoint that resume has read
  /// belongs to other data or another kind of run
  /// \throws ModelFileError if a checkpoint cannot be written
  template <class TrainView, class ValidationView>
  requires Kokkos::is_view_v<ValidationView> TrainingResult maximum_likelihood(
      TrainView const& train, ValidationView const& validation, ReportFunction const& report = {}) {
    check_rows<TrainView>();
    check_rows<ValidationView>();
    static_assert(std::is_same_v<impl::value_t<TrainView>, impl::value_t<ValidationView>>,
                  "meander::Trainer: train and validation must have the same value type.");
    auto const rows = impl::as_const(impl::strided_matrix(validation));
    return fit(impl::as_const(impl::strided_matrix(train)), &rows, report);
  }

  /// \brief The same without validation rows, but those that TrainerOptions::validation_fraction
  /// splits off.
  template <class TrainView>
  TrainingResult maximum_likelihood(TrainView const& train, ReportFunction const& report = {}) {
    check_rows<TrainView>();
    return fit<impl::value_t<TrainView>>(impl::as_const(impl::strided_matrix(train)), nullptr,
                                         report);
  }

  /// \brief Fits the flow to a density that is known up to a factor, by reverse KL:
  /// TrainerOptions::steps steps of Adam on the mean of log q(x) - beta log p(x) over rows drawn
  /// from the flow.
  ///
  /// Step i draws rows i * batch and on of the sample that TrainerOptions::seed names; batch must
  /// be 1 or more. Losses (nats per row) are those of reverse_kl, beta included: they are estimates
  /// of KL(q, p) - log Z where beta is 1. Validation, patience, reports and checkpoints are as with
  /// maximum_likelihood.
  ///
  /// \param[in] target a device functor, `KOKKOS_FUNCTION T operator()(row, grad_row) const`: gives
  /// log p up to a constant at row(d), and its gradient into grad_row(d); see reverse_kl
  /// \param[in] training what is particular to reverse KL
  /// \param[in] report is called every report_interval steps
  /// \return once all is done
  /// \throws std::invalid_argument if the batch is 0, or a member of `training` out of its range
  /// \throws TrainingError as maximum_likelihood does; a resumed run is taken on trust to have the
  /// same target
  template <class Target>
  TrainingResult reverse_kl(Target const& target, ReverseKlTraining const& training = {},
                            ReportFunction const& report = {}) {
    auto const& o = options();
    run_type run{impl::reverse_kl_kind(o, training), {}, {}};
    ReverseKlWorkspace<Compute, ExecutionSpace> const workspace(
        execution_space_instance(), flow(), std::max(o.batch, training.validation_batch));
    auto const draw = [&](std::uint64_t seed, std::uint64_t first_row, std::int64_t rows,
                          ReverseKlOptions const& kl, loss_type const& loss) {
      meander::reverse_kl(execution_space_instance(), workspace, flow(), parameters(), target, seed,
                          first_row, rows, kl, loss, grad_parameters());
    };
    run.loss_and_gradients = [&](std::int64_t step, loss_type const& loss) {
      draw(o.seed, static_cast<std::uint64_t>(step) * static_cast<std::uint64_t>(o.batch), o.batch,
           {training.path_gradient, training.beta(step)}, loss);
    };
    if (training.validation_batch > 0)
      run.validation_loss = [&](loss_type const& loss) {
        draw(impl::validation_seed(o.seed), 0, training.validation_batch, {}, loss);
      };
    return this->run(run, report);
  }

  /// \brief One step of reverse KL on the next rows drawn from the flow, as reverse_kl takes them:
  /// for training inside a simulation. Step i, counted as steps() counts, draws rows
  /// i * max_batch and on.
  ///
  /// Asynchronous as step() is.
  /// \param[in] workspace for the flow; its max_batch, 1 or more, is the number of rows
  /// \param[in] target as with reverse_kl
  /// \param[in] kl path gradient and beta of this step
  /// \throws std::invalid_argument as meander::reverse_kl does
  template <class Target>
  void reverse_kl_step(ReverseKlWorkspace<Compute, ExecutionSpace> const& workspace,
                       Target const& target, ReverseKlOptions const& kl = {}) {
    take_step([&](std::int64_t step, loss_type const& loss) {
      auto const rows = workspace.max_batch();
      meander::reverse_kl(execution_space_instance(), workspace, flow(), parameters(), target,
                          options().seed,
                          static_cast<std::uint64_t>(step) * static_cast<std::uint64_t>(rows), rows,
                          kl, loss, grad_parameters());
    });
  }

  /// \brief Reads a checkpoint, so that the next run goes on from it: the same call as the one that
  /// was interrupted gives what it would have given, bit for bit.
  ///
  /// TrainerOptions::steps may be another, where the learning rate does not depend on it; so may
  /// the report function and where and how often checkpoints go. Of the rows only their number and
  /// type are compared, and TrainerOptions::fitted_to.
  /// \throws ModelFileError if the file is not a checkpoint, or a spoiled one
  /// \throws TrainingError if it is of a model of another shape, or was written with other options
  void resume(std::filesystem::path const& checkpoint);

  /// \brief Writes a checkpoint: all that resume needs, in one safetensors file. It is written
  /// beside its name, synced and renamed: whatever happens, the name holds the old file or the new.
  /// \throws ModelFileError if it cannot be written
  void write_checkpoint(std::filesystem::path const& checkpoint) const;

  /// \brief The flow as it is after the steps so far; it shares the memory that training writes to.
  /// Work on other instances than exec must be ordered by the caller.
  flow_type const& flow() const;

  /// \brief The parameters, in device memory.
  parameters_type const& parameters() const;

  /// \brief The model as it is now, to be written. Waits for exec.
  Model model() const;

  /// \brief How many steps the run has had, or how often step() was called.
  std::int64_t steps() const;

  /// \brief What became of the steps. Waits for exec.
  AdamProgress progress() const;

  TrainerOptions const& options() const;
  ExecutionSpace const& execution_space_instance() const;

  /// \cond internal
  parameters_type const& grad_parameters() const;
  /// \endcond

 private:
  template <class View>
  static constexpr void check_rows() {
    static_assert(Kokkos::is_view_v<View>, "meander::Trainer: rows must be Kokkos Views.");
    static_assert(View::rank() == 2, "meander::Trainer: rows must have rank 2 (batch, dimension).");
    static_assert(impl::is_supported_pair_v<impl::value_t<View>, Compute>,
                  "meander::Trainer: the value type of rows must be float or double and no wider "
                  "than the compute type.");
    static_assert(impl::is_accessible_from_v<View, ExecutionSpace>,
                  "meander::Trainer: rows must lie in memory that the execution space can access.");
  }

  template <class WView, class UView, class BView>
  static Model read_parameters(ExecutionSpace const& exec,
                               PlanarParameters<WView, UView, BView> const& parameters,
                               PlanarOptions const& planar, Direction direction) {
    static_assert(Kokkos::is_view_v<WView> && Kokkos::is_view_v<UView> && Kokkos::is_view_v<BView>,
                  "meander::Trainer: w, u and b must be Kokkos Views.");
    static_assert(WView::rank() == 2 && UView::rank() == 2 && BView::rank() == 1,
                  "meander::Trainer: w and u must have rank 2 (L, D), b rank 1 (L).");
    using Parameter = impl::value_t<WView>;
    static_assert(impl::is_real_v<Parameter> && std::is_same_v<Parameter, impl::value_t<UView>> &&
                      std::is_same_v<Parameter, impl::value_t<BView>>,
                  "meander::Trainer: w, u and b must all hold float or all hold double.");
    static_assert(impl::is_accessible_from_v<WView, ExecutionSpace> &&
                      impl::is_accessible_from_v<UView, ExecutionSpace> &&
                      impl::is_accessible_from_v<BView, ExecutionSpace>,
                  "meander::Trainer: w, u and b must lie in memory that the execution space can "
                  "access.");
    return impl::model_of_parameters<ExecutionSpace, Parameter>(
        exec, impl::as_const(impl::strided_matrix(parameters.w)),
        impl::as_const(impl::strided_matrix(parameters.u)),
        impl::as_const(impl::strided_vector(parameters.b)), planar, direction);
  }

  // Instantiated in src/ for the value types that Compute takes.
  template <class Storage>
  void step_on(impl::StridedMatrix<Storage const> rows);
  template <class Storage>
  TrainingResult fit(impl::StridedMatrix<Storage const> train,
                     impl::StridedMatrix<Storage const> const* validation,
                     ReportFunction const& report);

  TrainingResult run(run_type const& run, ReportFunction const& report);
  void take_step(std::function<void(std::int64_t, loss_type const&)> const& loss_and_gradients);

  std::unique_ptr<impl::TrainerState<Compute, ExecutionSpace>> state_;
};

}  // namespace meander
