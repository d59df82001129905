// SPDX-License-Identifier: BSD-3-Clause
#include "flow_job.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <utility>
#include <variant>

#include <Kokkos_Core.hpp>

#include <meander/flow.hpp>

#include "checks.hpp"
#include "commands.hpp"
#include "npy.hpp"
#include "paths.hpp"
#include "progress.hpp"
#include "runtime.hpp"

namespace meander::cli {

namespace {

using impl::path_in_quotes;
using Memory = Space::memory_space;

/// \brief Values on the host and where the kernels run; one and the same memory where possible.
template <class Value>
class Buffer {
 public:
  Buffer(std::string const& label, std::size_t size)
      : host_(Kokkos::view_alloc(Kokkos::WithoutInitializing, label), size),
        device_(Kokkos::create_mirror_view(Kokkos::WithoutInitializing, Memory(), host_)) {}

  Value* host() const { return host_.data(); }
  Value* device() const { return device_.data(); }
  void to_device(Space const& exec, std::size_t count) const { copy(exec, device_, host_, count); }
  void to_host(Space const& exec, std::size_t count) const { copy(exec, host_, device_, count); }

 private:
  using Host   = Kokkos::View<Value*, Kokkos::HostSpace>;
  using Device = decltype(Kokkos::create_mirror_view(Kokkos::WithoutInitializing, Memory(),
                                                     std::declval<Host const&>()));

  template <class To, class From>
  static void copy(Space const& exec, To const& to, From const& from, std::size_t count) {
    if (static_cast<void const*>(to.data()) == static_cast<void const*>(from.data())) return;
    auto const range = std::pair(std::size_t{0}, count);
    Kokkos::deep_copy(exec, Kokkos::subview(to, range), Kokkos::subview(from, range));
  }

  Host host_;
  Device device_;
};

/// \brief Calls f(); what the library refuses, it refuses about this model.
template <class Function>
void about_model(std::string const& name, Function const& f) try {
  f();
} catch (std::invalid_argument const& error) {
  throw std::runtime_error(path_in_quotes(name) + ": " + error.what());
}

/// \brief What a run asks the flow for.
struct Plan {
  Map map;
  std::uint64_t seed = 0, first_row = 0;
  bool column_major = false;  ///< the input
  bool with_log     = false;
};

/// \brief Takes chunks of rows, which come and go through host memory, through a flow.
template <class Storage, class Compute>
class Mapper {
 public:
  Mapper(Model const& model, Plan const& plan, std::size_t chunk)
      : plan_(plan),
        dim_(static_cast<std::size_t>(model.dim())),
        flow_(make_flow<Compute>(exec_, model)),
        in_("meander::cli::in", plan.map == Map::sample ? 0 : chunk * dim_),
        out_("meander::cli::out", plan.map == Map::log_prob ? 0 : chunk * dim_),
        log_("meander::cli::log", plan.with_log ? chunk : 0) {}

  /// \brief Where map() expects the rows; column by column if the plan says so.
  Storage* input() const { return in_.host(); }
  /// \brief Where map() leaves the rows, row by row.
  Storage const* output() const { return out_.host(); }
  Storage const* log() const { return log_.host(); }

  /// \brief Maps `count` rows, the first of which is number `first` of the run.
  void map(std::uint64_t first, std::size_t count) {
    if (plan_.map == Map::sample) {
      draw(first, count);
    } else {
      in_.to_device(exec_, count * dim_);
      if (plan_.column_major) {
        push(Matrix<Kokkos::LayoutLeft>(in_.device(), count, dim_));
      } else {
        push(Matrix<Kokkos::LayoutRight>(in_.device(), count, dim_));
      }
    }
    if (plan_.map != Map::log_prob) out_.to_host(exec_, count * dim_);
    if (plan_.with_log) log_.to_host(exec_, count);
    exec_.fence("meander::cli: the chunk is done");
  }

 private:
  template <class Layout>
  using Matrix = Kokkos::View<Storage**, Layout, Memory, Kokkos::MemoryUnmanaged>;
  using Vector = Kokkos::View<Storage*, Memory, Kokkos::MemoryUnmanaged>;

  void draw(std::uint64_t first, std::size_t count) {
    Matrix<Kokkos::LayoutRight> const x(out_.device(), count, dim_);
    if (plan_.with_log) {
      sample(exec_, flow_, plan_.seed, plan_.first_row + first, x, Vector(log_.device(), count));
    } else {
      sample(exec_, flow_, plan_.seed, plan_.first_row + first, x);
    }
  }

  template <class From>
  void push(From const& from) {
    auto const count = from.extent(0);
    Vector const log(log_.device(), plan_.with_log ? count : 0);
    if (plan_.map == Map::log_prob) {
      log_prob(exec_, flow_, from, log);
      return;
    }
    Matrix<Kokkos::LayoutRight> const to(out_.device(), count, dim_);
    if (plan_.map == Map::forward) {
      plan_.with_log ? forward(exec_, flow_, from, to, log) : forward(exec_, flow_, from, to);
    } else {
      plan_.with_log ? inverse(exec_, flow_, from, to, log) : inverse(exec_, flow_, from, to);
    }
  }

  Space exec_;
  Plan plan_;
  std::size_t dim_;
  Flow<Compute, Space> flow_;
  Buffer<Storage> in_, out_, log_;
};

/// \brief Rows per chunk: some ten megabytes, and work for a fraction of a second, so that the
/// progress bar moves. The result does not depend on it.
std::uint64_t default_chunk(std::uint64_t dim, std::uint64_t layers) {
  constexpr std::uint64_t most_values = std::uint64_t{1} << 22;
  constexpr std::uint64_t most_work   = std::uint64_t{1} << 29;
  constexpr std::uint64_t least_rows  = 1024;
  auto const by_work = std::max(least_rows, most_work / (dim * std::max<std::uint64_t>(1, layers)));
  return std::max<std::uint64_t>(1, std::min(by_work, most_values / dim));
}

/// \brief The output files.
struct Outputs {
  std::optional<NpyWriter> rows, log;

  /// \brief Nothing gets its name before everything is on the disk.
  void commit() {
    if (rows) rows->finish();
    if (log) log->finish();
    DeferSignals const defer;
    if (rows) rows->commit();
    if (log) log->commit();
  }
};

std::int64_t layers_of(Model const& model) {
  std::int64_t count = 0;
  for (auto const& layer : model.layers) {
    auto const* const planar = std::get_if<PlanarLayers>(&layer);
    count += planar != nullptr ? planar->count : 1;
  }
  return count;
}

/// \brief A run whose files are open: the rows, their number and type, and where results go.
struct Run {
  FlowJob const& job;
  Model const& model;
  NpyReader const* input;  ///< null: rows are drawn
  ScalarType type;
  std::uint64_t rows;
  Outputs& outputs;

  template <class Storage, class Compute>
  void stream() const {
    auto const dim   = static_cast<std::uint64_t>(model.dim());
    auto const chunk = std::clamp<std::uint64_t>(
        job.chunk_rows.value_or(default_chunk(dim, static_cast<std::uint64_t>(layers_of(model)))),
        1, std::max<std::uint64_t>(1, rows));
    Plan const plan{job.map, job.seed, job.first_row, input != nullptr && input->column_major(),
                    outputs.log.has_value()};
    Mapper<Storage, Compute> mapper(model, plan, chunk);
    Progress progress(rows);
    for (std::uint64_t first = 0; first < rows; first += chunk) {
      auto const count = std::min(chunk, rows - first);
      if (input != nullptr) input->read(first, count, mapper.input());
      mapper.map(first, count);
      if (outputs.rows) outputs.rows->write(mapper.output(), count * dim);
      if (outputs.log) outputs.log->write(mapper.log(), count);
      progress.show(first + count);
    }
  }

  void stream() const {
    if (job.compute == "float") return stream<float, float>();
    if (type == ScalarType::float32) return stream<float, double>();
    stream<double, double>();
  }
};

void check_input(FlowJob const& job, NpyReader const& input, Model const& model) {
  auto const dim  = static_cast<std::uint64_t>(model.dim());
  auto const name = path_in_quotes(job.in);
  if (input.shape().size() == 1 && dim != 1) {
    throw std::runtime_error(name + " has one dimension, expected two: (rows, " +
                             std::to_string(dim) + ")");
  }
  if (input.cols() != dim) {
    throw std::runtime_error(name + " has " + std::to_string(input.cols()) +
                             (input.cols() == 1 ? " column" : " columns") + ", the model " +
                             path_in_quotes(job.model) + " has dimension " + std::to_string(dim));
  }
  if (input.type() == ScalarType::float64 && job.compute == "float") {
    throw std::runtime_error(name +
                             " holds float64, which --compute float would narrow; give --compute "
                             "double, or convert the file to float32");
  }
}

/// \brief No output may replace what the job reads, or another output. Rows may replace the rows
/// they were made from.
void check_outputs(FlowJob const& job) {
  if (!job.out.empty() && !job.out_log.empty() && same_file(job.out, job.out_log)) {
    throw CLI::ValidationError(job.out_log_option, "names the same file as " + job.out_option);
  }
  for (auto const& [option, path] :
       {std::pair{&job.out_option, &job.out}, std::pair{&job.out_log_option, &job.out_log}}) {
    if (!path->empty() && same_file(*path, job.model)) {
      throw CLI::ValidationError(*option, "would replace the model file");
    }
  }
  if (!job.in.empty() && !job.out_log.empty() && same_file(job.out_log, job.in)) {
    throw CLI::ValidationError(job.out_log_option, "would replace the rows of --in");
  }
}

void check_sample(FlowJob const& job) {
  if (job.type == ScalarType::float64 && job.compute == "float") {
    throw CLI::ValidationError("--type", "float64 needs --compute double");
  }
  // The last row's number is at most 2^64 - 1.
  auto const greatest = greatest_number - (job.rows == 0 ? 0 : job.rows - 1);
  if (job.first_row > greatest) {
    throw CLI::ValidationError("--first-row", "expected no more than " + std::to_string(greatest) +
                                                  " for that many rows (" +
                                                  std::to_string(job.rows) + "), got " +
                                                  std::to_string(job.first_row));
  }
}

void print_summary(FlowJob const& job, Model const& model, Run const& run, double seconds) {
  std::array<char, 256> text = {};
  std::snprintf(text.data(), text.size(),
                "%llu rows of dimension %lld through %lld layers: %s rows, %s arithmetic, %s with "
                "concurrency %d, %.3f s\n",
                static_cast<unsigned long long>(run.rows), static_cast<long long>(model.dim()),
                static_cast<long long>(layers_of(model)), to_string(run.type), job.compute.c_str(),
                Space::name(), Space().concurrency(), seconds);
  print(text.data());
}

}  // namespace

void FlowJob::add_model_to(CLI::App& command) {
  command.add_option("--model", model, "Model file (.safetensors)")
      ->required()
      ->check(file_name())
      ->type_name("FILE");
}

void FlowJob::add_rest_to(CLI::App& command) {
  command.add_option("--compute", compute, "Arithmetic: double (default) or float")
      ->check(CLI::IsMember({"float", "double"}).description(""))
      ->type_name("TYPE");
  add_threads_to(command, threads);
  command
      .add_option("--chunk-rows", chunk_rows,
                  "Rows held in memory at a time; does not change the result")
      ->transform(whole_number(1, greatest_count))
      ->type_name("N");
  command.add_flag("--verbose", verbose, "Print a line about what was done");
  options.add_to(command);
}

void FlowJob::run() const {
  auto const start = std::chrono::steady_clock::now();
  check_outputs(*this);
  if (map == Map::sample) check_sample(*this);
  auto const flow = read_model(model, options.read_options());
  std::optional<NpyReader> input;
  if (map != Map::sample) check_input(*this, input.emplace(in), flow);
  auto const row_type = input ? input->type() : type;
  auto const count    = input ? input->rows() : rows;
  Outputs outputs;
  if (!out.empty()) {
    outputs.rows.emplace(
        out, row_type,
        input ? input->shape() : std::vector{count, static_cast<std::uint64_t>(flow.dim())});
  }
  if (!out_log.empty()) outputs.log.emplace(out_log, row_type, std::vector{count});

  Runtime const runtime(threads);
  options.note_assumptions(model, flow);
  Run const run{*this, flow, input ? &*input : nullptr, row_type, count, outputs};
  about_model(model, [&] { run.stream(); });
  outputs.commit();
  if (!verbose) return;
  print_summary(*this, flow, run,
                std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

std::vector<double> log_prob_of(Model const& model, std::string const& name,
                                std::vector<double> const& rows) {
  auto const dim   = static_cast<std::size_t>(model.dim());
  auto const count = rows.size() / dim;
  Runtime const runtime({});
  std::vector<double> result;
  about_model(name, [&] {
    Mapper<double, double> mapper(model, {.map = Map::log_prob, .with_log = true}, count);
    std::ranges::copy(rows, mapper.input());
    mapper.map(0, count);
    result.assign(mapper.log(), mapper.log() + count);
  });
  return result;
}

}  // namespace meander::cli
