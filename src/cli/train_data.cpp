// SPDX-License-Identifier: BSD-3-Clause
// meander train --data: maximum likelihood on the rows of a file.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <Kokkos_Core.hpp>

#include <meander/flow.hpp>
#include <meander/impl/permutation.hpp>
#include <meander/initial_model.hpp>
#include <meander/model_file.hpp>
#include <meander/trainer.hpp>

#include "commands.hpp"
#include "npy.hpp"
#include "runtime.hpp"
#include "train_run.hpp"

namespace meander::cli {

namespace {

using impl::path_in_quotes;
using Memory = Space::memory_space;
template <class Value>
using Rows = Kokkos::View<Value**, Kokkos::LayoutRight, Memory>;

/// \brief Rows of a file, all of them or those that are chosen.
struct Selection {
  NpyReader const* file          = nullptr;
  std::vector<bool> const* other = nullptr;  ///< rows of the file in one of two parts; null: all
  bool part                      = false;    ///< which of them

  bool has(std::uint64_t row) const { return other == nullptr || (*other)[row] == part; }
  std::int64_t count() const {
    if (other == nullptr) return static_cast<std::int64_t>(file->rows());
    return std::ranges::count(*other, part);
  }

  /// \brief Calls visit(row) with the D values of each, in the order of the file.
  void for_each(std::function<void(double const*)> const& visit) const {
    constexpr std::uint64_t values_per_chunk = std::uint64_t{1} << 20;
    auto const cols                          = file->cols();
    auto const chunk                         = std::max<std::uint64_t>(1, values_per_chunk / cols);
    std::vector<double> values(std::min(chunk, file->rows()) * cols), row(cols);
    for (std::uint64_t first = 0; first < file->rows(); first += chunk) {
      auto const count = std::min(chunk, file->rows() - first);
      file->read(first, count, values.data());
      for (std::uint64_t i = 0; i < count; ++i) {
        if (!has(first + i)) continue;
        for (std::uint64_t d = 0; d < cols; ++d) {
          row[d] = values[file->column_major() ? d * count + i : i * cols + d];
        }
        visit(row.data());
      }
    }
  }
};

/// \brief Refuses NaN and infinities, which would make every gradient NaN.
void check_finite(NpyReader const& file) {
  std::uint64_t number = 0;
  Selection{&file}.for_each([&](double const* row) {
    for (std::uint64_t d = 0; d < file.cols(); ++d) {
      if (std::isfinite(row[d])) continue;
      throw std::runtime_error(path_in_quotes(file.path()) + ": row " + std::to_string(number) +
                               " holds " + (std::isnan(row[d]) ? "NaN" : "an infinity") +
                               " in column " + std::to_string(d) + " (both counted from 0)");
    }
    ++number;
  });
}

/// \brief The layer that standardises these rows, in the model that it becomes a part of, and what
/// it does to them.
class Standardisation {
 public:
  Standardisation(Selection const& rows, Direction direction, ScalarType stored)
      : direction_(direction) {
    auto const dim       = static_cast<std::size_t>(rows.file->cols());
    layer_.dim           = static_cast<std::int64_t>(dim);
    auto const count     = static_cast<long double>(rows.count());
    constexpr double inf = std::numeric_limits<double>::infinity();
    std::vector<long double> mean(dim, 0), square(dim, 0);
    std::vector<double> least(dim, inf), greatest(dim, -inf);
    rows.for_each([&](double const* row) {
      for (std::size_t d = 0; d < dim; ++d) {
        mean[d] += row[d] / count;
        least[d]    = std::min(least[d], row[d]);
        greatest[d] = std::max(greatest[d], row[d]);
      }
    });
    rows.for_each([&](double const* row) {
      for (std::size_t d = 0; d < dim; ++d) square[d] += (row[d] - mean[d]) * (row[d] - mean[d]);
    });
    // As they will be in the file, so that training sees what the model does.
    auto const as_stored = [&](long double value) {
      return stored == ScalarType::float32 ? double(static_cast<float>(value))
                                           : static_cast<double>(value);
    };
    for (std::size_t d = 0; d < dim; ++d) {
      bool const constant = least[d] == greatest[d];
      if (constant) {
        std::fprintf(
            stderr, "meander: column %zu of %s is constant (%g); it is moved to zero, not scaled\n",
            d, path_in_quotes(rows.file->path()).c_str(), least[d]);
      }
      auto const log_scale = constant ? 0.0L : std::log(square[d] / count) / 2;
      bool const to_data   = direction == Direction::generative;
      layer_.log_scale.push_back(as_stored(to_data ? log_scale : -log_scale));
      factor_.push_back(std::exp(to_data ? -layer_.log_scale[d] : layer_.log_scale[d]));
      auto const shift = to_data ? mean[d] : -mean[d] * factor_[d];
      layer_.shift.push_back(as_stored(shift));
      if (stored == ScalarType::float32)
        check_shift(rows, d,
                    static_cast<double>((layer_.shift[d] - shift) * (to_data ? factor_[d] : 1)));
    }
  }

  AffineLayer const& layer() const { return layer_; }

  /// \brief A mean that is large beside the spread must survive being stored.
  /// \param[in] off by how much the mean of the standardised column is not zero
  static void check_shift(Selection const& rows, std::size_t d, double off) {
    constexpr double most = 1e-2;
    if (std::abs(off) <= most) return;
    throw std::runtime_error(
        path_in_quotes(rows.file->path()) + ": the mean of column " + std::to_string(d) +
        " is too large beside its spread for a model stored as float32; give --type float64");
  }

  double standardised(std::size_t d, double x) const {
    return direction_ == Direction::generative ? (x - layer_.shift[d]) * factor_[d]
                                               : x * factor_[d] + layer_.shift[d];
  }

  /// \brief The loss of rows as they are minus that of standardised ones.
  double offset() const {
    long double sum = 0;
    for (double const log_scale : layer_.log_scale) sum += log_scale;
    return static_cast<double>(direction_ == Direction::generative ? sum : -sum);
  }

 private:
  Direction direction_;
  AffineLayer layer_;
  std::vector<double> factor_;
};

/// \brief Rows in the memory that training reads.
template <class Storage>
Rows<Storage> load(Space const& exec, Selection const& selection,
                   std::optional<Standardisation> const& standardisation) {
  auto const dim = static_cast<std::size_t>(selection.file->cols());
  Rows<Storage> rows(Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, "meander::cli::train"),
                     static_cast<std::size_t>(selection.count()), dim);
  auto const host = Kokkos::create_mirror_view(rows);
  std::size_t i   = 0;
  selection.for_each([&](double const* row) {
    for (std::size_t d = 0; d < dim; ++d) {
      host(i, d) =
          static_cast<Storage>(standardisation ? standardisation->standardised(d, row[d]) : row[d]);
    }
    ++i;
  });
  Kokkos::deep_copy(exec, rows, host);
  exec.fence("meander::cli: the host's rows may be freed");
  return rows;
}

/// \brief The mean of -log q over rows of a file, in nats.
template <class Compute>
double loss_of(Space const& exec, Model const& model, Selection const& selection) {
  constexpr std::size_t values_per_chunk = std::size_t{1} << 20;
  auto const flow                        = make_flow<Compute>(exec, model);
  auto const dim                         = static_cast<std::size_t>(model.dim());
  auto const most                        = std::max<std::size_t>(1, values_per_chunk / dim);
  Rows<Compute> const rows("meander::cli::rows", most, dim);
  Kokkos::View<Compute*, Memory> const log_q("meander::cli::log_q", most);
  auto const host_rows  = Kokkos::create_mirror_view(rows);
  auto const host_log_q = Kokkos::create_mirror_view(log_q);
  long double sum       = 0;
  std::size_t count     = 0;
  auto const flush      = [&] {
    auto const part = std::pair(std::size_t{0}, count);
    Kokkos::deep_copy(exec, rows, host_rows);
    log_prob(exec, flow, Kokkos::subview(rows, part, Kokkos::ALL), Kokkos::subview(log_q, part));
    Kokkos::deep_copy(exec, host_log_q, log_q);
    exec.fence("meander::cli: log-densities are about to be read");
    for (std::size_t i = 0; i < count; ++i) sum -= host_log_q(i);
    count = 0;
  };
  selection.for_each([&](double const* row) {
    for (std::size_t d = 0; d < dim; ++d) host_rows(count, d) = static_cast<Compute>(row[d]);
    if (++count == most) flush();
  });
  if (count > 0) flush();
  return static_cast<double>(sum / static_cast<long double>(selection.count()));
}

/// \brief The files of a run, and which of their rows are for what.
class Data {
 public:
  explicit Data(TrainArguments const& arguments) : train_file_(arguments.data) {
    check_file(arguments, train_file_);
    if (!arguments.validation.empty()) {
      check_file(arguments, validation_file_.emplace(arguments.validation));
      if (validation_file_->cols() != train_file_.cols()) {
        throw std::runtime_error(path_in_quotes(arguments.validation) + " has " +
                                 columns(*validation_file_) + ", " +
                                 path_in_quotes(arguments.data) + " has " + columns(train_file_));
      }
    }
    if (arguments.validation_fraction > 0) set_rows_apart(arguments);
    if (arguments.trainer.batch > train().count()) {
      throw std::runtime_error("--batch " + std::to_string(arguments.trainer.batch) +
                               " is more than the " + std::to_string(train().count()) +
                               " rows there are to train on (" + path_in_quotes(arguments.data) +
                               ")");
    }
    check_finite(train_file_);
    if (validation_file_) check_finite(*validation_file_);
  }

  std::int64_t dim() const { return static_cast<std::int64_t>(train_file_.cols()); }
  /// \brief Whether the rows can be kept in float without loss.
  bool is_float() const {
    return train_file_.type() == ScalarType::float32 &&
           (!validation_file_ || validation_file_->type() == ScalarType::float32);
  }
  Selection train() const {
    return set_apart_.empty() ? Selection{&train_file_}
                              : Selection{&train_file_, &set_apart_, false};
  }
  std::optional<Selection> validation() const {
    if (validation_file_) return Selection{&*validation_file_};
    if (!set_apart_.empty()) return Selection{&train_file_, &set_apart_, true};
    return std::nullopt;
  }

 private:
  static std::string columns(NpyReader const& file) {
    return std::to_string(file.cols()) + (file.cols() == 1 ? " column" : " columns");
  }

  static void check_file(TrainArguments const& arguments, NpyReader const& file) {
    auto const name = path_in_quotes(file.path());
    if (file.rows() == 0 || file.cols() == 0) throw std::runtime_error(name + " has no rows");
    if (file.type() == ScalarType::float64 && arguments.compute == "float") {
      throw std::runtime_error(name +
                               " holds float64, which --compute float would narrow; give --compute "
                               "double, or convert the file to float32");
    }
  }

  /// The rows that the seed's permutation has first, as the Trainer itself would take them.
  void set_rows_apart(TrainArguments const& arguments) {
    auto const rows   = train_file_.rows();
    auto const wanted = std::max<std::uint64_t>(
        1, static_cast<std::uint64_t>(arguments.validation_fraction * static_cast<double>(rows)));
    if (wanted >= rows) {
      throw std::runtime_error(path_in_quotes(arguments.data) + " has " + std::to_string(rows) +
                               " rows, none would be left to train on");
    }
    set_apart_.assign(rows, false);
    auto const order = impl::permutation(impl::validation_seed(arguments.trainer.seed), 0, rows);
    for (std::uint64_t i = 0; i < wanted; ++i) set_apart_[order(i)] = true;
  }

  NpyReader train_file_;
  std::optional<NpyReader> validation_file_;
  std::vector<bool> set_apart_;  ///< of the rows of train_file_; empty: none are
};

/// \brief A checksum (FNV-1a, 64 bits) of rows as they are trained on.
class Checksum {
 public:
  template <class Value>
  void add(Rows<Value> const& rows) {
    auto const host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), rows);
    for (std::size_t i = 0; i < host.size(); ++i) add(double(host.data()[i]));
  }

  std::string text() const { return std::to_string(sum_); }

 private:
  void add(double value) {
    constexpr std::uint64_t prime = 0x100000001b3;
    constexpr int bits_per_byte = 8, bits = 64;
    auto const word = std::bit_cast<std::uint64_t>(value);
    for (int shift = 0; shift < bits; shift += bits_per_byte) {
      sum_ = (sum_ ^ ((word >> shift) & 0xffU)) * prime;
    }
  }

  std::uint64_t sum_ = 0xcbf29ce484222325;
};

/// \brief The trained layers and the standardisation, in the order they were fitted in.
Model with_standardisation(Model model, std::optional<Standardisation> const& standardisation) {
  if (standardisation) {
    auto const at =
        model.direction == Direction::generative ? model.layers.end() : model.layers.begin();
    model.layers.insert(at, standardisation->layer());
  }
  return model;
}

template <class Storage, class Compute>
void train(TrainArguments const& arguments, Data const& data,
           std::optional<Standardisation> const& standardisation) {
  Space const exec;
  auto const train_rows = load<Storage>(exec, data.train(), standardisation);
  auto const validation = data.validation();
  std::optional<Rows<Storage>> validation_rows;
  if (validation) validation_rows = load<Storage>(exec, *validation, standardisation);
  auto const batch   = arguments.trainer.batch > 0 ? arguments.trainer.batch : data.train().count();
  auto const initial = initial_planar_model(arguments.layers, data.dim(), arguments.direction,
                                            arguments.trainer.seed, {.planar = arguments.planar});
  Checksum checksum;
  checksum.add(train_rows);
  if (validation_rows) checksum.add(*validation_rows);
  auto options      = trainer_options(arguments, batch, data.dim());
  options.fitted_to = "rows (standardised as asked) with checksum " + checksum.text();
  Trainer<Compute, Space> trainer(exec, initial, options);
  TrainRun run(arguments, standardisation ? standardisation->offset() : 0, validation.has_value());
  auto const result = run.run(trainer, [&](ReportFunction const& report) {
    return validation_rows ? trainer.maximum_likelihood(train_rows, *validation_rows, report)
                           : trainer.maximum_likelihood(train_rows, report);
  });
  run.end_if_interrupted();
  run.write_results(result, with_standardisation(result.best, standardisation), {});

  // Of the model as it is in the file, on the rows as they are in theirs.
  auto const model        = read_model(arguments.out);
  double const train_loss = loss_of<Compute>(exec, model, data.train());
  auto text = "steps " + std::to_string(result.steps) + ", train loss " + fixed(train_loss) + ", ";
  if (validation) {
    text += "validation loss " + fixed(loss_of<Compute>(exec, model, *validation)) + ", ";
  }
  print(text + run.summary_end(result));
  run.check_loss(train_loss);
}

}  // namespace

void train_on_data(TrainArguments const& arguments) {
  Data const data(arguments);
  check_results_can_be_written(arguments);
  std::optional<Standardisation> standardisation;
  if (arguments.standardize) {
    standardisation.emplace(data.train(), arguments.direction, arguments.stored);
  }
  Runtime const runtime(arguments.threads);
  if (arguments.compute == "float") return train<float, float>(arguments, data, standardisation);
  if (data.is_float() && !standardisation) {
    return train<float, double>(arguments, data, standardisation);
  }
  train<double, double>(arguments, data, standardisation);
}

}  // namespace meander::cli
