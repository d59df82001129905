// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <Kokkos_Core.hpp>

#include <meander/model_file.hpp>
#include <meander/planar.hpp>

#include "checks.hpp"
#include "commands.hpp"
#include "interrupts.hpp"
#include "model_arguments.hpp"
#include "npy.hpp"
#include "progress.hpp"

namespace meander::cli {

namespace {

using impl::path_in_quotes;

struct ForwardArguments {
  std::string model, in, out, log_det;
  std::string compute = "double";
  std::optional<int> threads;
  std::optional<std::uint64_t> chunk_rows;
  bool verbose = false;
  ModelArguments options;
};

using Space  = Kokkos::DefaultExecutionSpace;
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

template <class Value>
Buffer<Value> on_device(Space const& exec, std::string const& label,
                        std::vector<Value> const& values) {
  Buffer<Value> buffer(label, values.size());
  std::ranges::copy(values, buffer.host());
  buffer.to_device(exec, values.size());
  return buffer;
}

/// \brief The layers of a model, those that share their options joined into one run: one pass over
/// the rows, and no rounding to the storage type in between. At least one run.
std::vector<PlanarLayers> runs_of(Model const& model) {
  std::vector<PlanarLayers> runs;
  for (auto const& layer : model.layers) {
    auto const& next = std::get<PlanarLayers>(layer);
    if (runs.empty() || runs.back().options != next.options) {
      runs.push_back(next);
      continue;
    }
    auto& run = runs.back();
    run.count += next.count;
    run.w.insert(run.w.end(), next.w.begin(), next.w.end());
    run.u.insert(run.u.end(), next.u.begin(), next.u.end());
    run.b.insert(run.b.end(), next.b.begin(), next.b.end());
  }
  if (runs.empty()) runs.emplace_back().dim = model.dim();
  return runs;
}

template <class Compute>
PlanarStack<Compute, Space> prepare(Space const& exec, PlanarLayers const& layers) {
  using Matrix = Kokkos::View<double const**, Kokkos::LayoutRight, Memory, Kokkos::MemoryUnmanaged>;
  using Vector = Kokkos::View<double const*, Memory, Kokkos::MemoryUnmanaged>;
  auto const count = static_cast<std::size_t>(layers.count);
  auto const dim   = static_cast<std::size_t>(layers.dim);
  auto const w     = on_device(exec, "meander::cli::w", layers.w);
  auto const u     = on_device(exec, "meander::cli::u", layers.u);
  auto const b     = on_device(exec, "meander::cli::b", layers.b);
  PlanarParameters const parameters{Matrix(w.device(), count, dim), Matrix(u.device(), count, dim),
                                    Vector(b.device(), count)};
  PlanarStack<Compute, Space> stack(exec, parameters, layers.options);
  exec.fence("meander::cli: the parameters may go");
  return stack;
}

/// \brief Maps chunks of rows, which come and go through host memory.
/// \tparam Storage the rows' type between two runs of layers
template <class Storage, class Compute>
class Mapper {
 public:
  Mapper(std::vector<PlanarLayers> const& runs, std::size_t chunk, bool column_major,
         bool with_log_det)
      : dim_(static_cast<std::size_t>(runs.front().dim)),
        column_major_(column_major),
        with_log_det_(with_log_det),
        z_("meander::cli::z", chunk * dim_),
        y_("meander::cli::y", chunk * dim_),
        log_det_("meander::cli::log_det", with_log_det ? chunk : 0),
        sum_(with_log_det && runs.size() > 1 ? chunk : 0) {
    for (auto const& run : runs) stacks_.push_back(prepare<Compute>(exec_, run));
  }

  /// \brief Where map() expects the rows; column by column if so constructed.
  Storage* input() const { return z_.host(); }
  /// \brief Where map() leaves the rows, row by row.
  Storage const* output() const { return y_.host(); }
  Storage const* log_det() const { return sum_.empty() ? log_det_.host() : sum_.data(); }

  void map(std::size_t rows) {
    z_.to_device(exec_, rows * dim_);
    std::ranges::fill(sum_, Storage(0));
    for (std::size_t i = 0; i < stacks_.size(); ++i) {
      Matrix<Kokkos::LayoutRight> const y(y_.device(), rows, dim_);
      if (i > 0) {
        apply(stacks_[i], y, y, rows);
      } else if (column_major_) {
        apply(stacks_[i], Matrix<Kokkos::LayoutLeft>(z_.device(), rows, dim_), y, rows);
      } else {
        apply(stacks_[i], Matrix<Kokkos::LayoutRight>(z_.device(), rows, dim_), y, rows);
      }
    }
    y_.to_host(exec_, rows * dim_);
    exec_.fence("meander::cli: the chunk is done");
  }

 private:
  template <class Layout>
  using Matrix = Kokkos::View<Storage**, Layout, Memory, Kokkos::MemoryUnmanaged>;
  using Vector = Kokkos::View<Storage*, Memory, Kokkos::MemoryUnmanaged>;

  template <class ZView, class YView>
  void apply(PlanarStack<Compute, Space> const& stack, ZView const& z, YView const& y,
             std::size_t rows) {
    if (!with_log_det_) {
      forward(exec_, stack, z, y);
      return;
    }
    forward(exec_, stack, z, y, Vector(log_det_.device(), rows));
    log_det_.to_host(exec_, rows);
    if (sum_.empty()) return;
    exec_.fence("meander::cli: the log-det of one run of layers");
    for (std::size_t i = 0; i < rows; ++i) sum_[i] += log_det_.host()[i];
  }

  Space exec_;
  std::size_t dim_;
  bool column_major_, with_log_det_;
  Buffer<Storage> z_, y_, log_det_;
  std::vector<Storage> sum_;
  std::vector<PlanarStack<Compute, Space>> stacks_;
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

/// \brief The two output files.
struct Outputs {
  NpyWriter y;
  std::optional<NpyWriter> log_det;

  Outputs(ForwardArguments const& arguments, NpyReader const& input)
      : y(arguments.out, input.type(), input.shape()) {
    if (!arguments.log_det.empty()) {
      log_det.emplace(arguments.log_det, input.type(), std::vector{input.rows()});
    }
  }

  /// \brief Nothing gets its name before everything is on the disk.
  void commit() {
    y.finish();
    if (log_det) log_det->finish();
    DeferSignals const defer;
    y.commit();
    if (log_det) log_det->commit();
  }
};

/// \brief Writes values as the type of the file, narrowing where the runs were kept wider.
template <class Value>
void write_as(ScalarType type, NpyWriter& file, Value const* values, std::size_t count,
              std::vector<float>& narrow) {
  if (std::is_same_v<Value, double> && type == ScalarType::float32) {
    narrow.resize(count);
    std::transform(values, values + count, narrow.begin(),
                   [](Value value) { return static_cast<float>(value); });
    file.write(narrow.data(), count);
  } else {
    file.write(values, count);
  }
}

template <class Storage, class Compute>
void stream(std::vector<PlanarLayers> const& runs, NpyReader const& input, Outputs& outputs,
            std::uint64_t chunk) {
  Mapper<Storage, Compute> mapper(runs, chunk, input.column_major(), outputs.log_det.has_value());
  Progress progress(input.rows());
  std::vector<float> narrow;
  for (std::uint64_t first = 0; first < input.rows(); first += chunk) {
    auto const rows = std::min(chunk, input.rows() - first);
    input.read(first, rows, mapper.input());
    mapper.map(rows);
    write_as(input.type(), outputs.y, mapper.output(), rows * input.cols(), narrow);
    if (outputs.log_det) {
      write_as(input.type(), *outputs.log_det, mapper.log_det(), rows, narrow);
    }
    progress.show(first + rows);
  }
}

void stream(ForwardArguments const& arguments, std::vector<PlanarLayers> const& runs,
            NpyReader const& input, Outputs& outputs) {
  std::uint64_t layers = 0;
  for (auto const& run : runs) layers += static_cast<std::uint64_t>(run.count);
  auto const chunk =
      std::clamp<std::uint64_t>(arguments.chunk_rows.value_or(default_chunk(input.cols(), layers)),
                                1, std::max<std::uint64_t>(1, input.rows()));
  if (arguments.compute == "float") {
    stream<float, float>(runs, input, outputs, chunk);
  } else if (input.type() == ScalarType::float32 && runs.size() == 1) {
    stream<float, double>(runs, input, outputs, chunk);
  } else {
    stream<double, double>(runs, input, outputs, chunk);
  }
}

Model read_generative_model(ForwardArguments const& arguments) {
  auto model = read_model(arguments.model, arguments.options.read_options());
  if (model.direction == Direction::normalizing) {
    throw std::runtime_error(
        path_in_quotes(arguments.model) +
        " is normalizing: its stack maps data to latent, so the forward map needs the inverse of "
        "the stack, which this version does not have; --direction generative applies the stack as "
        "it is stored");
  }
  return model;
}

void check_input(ForwardArguments const& arguments, NpyReader const& input, Model const& model) {
  auto const dim  = static_cast<std::uint64_t>(model.dim());
  auto const name = path_in_quotes(arguments.in);
  if (input.shape().size() == 1 && dim != 1) {
    throw std::runtime_error(name + " has one dimension, expected two: (rows, " +
                             std::to_string(dim) + ")");
  }
  if (input.cols() != dim) {
    throw std::runtime_error(name + " has " + std::to_string(input.cols()) +
                             (input.cols() == 1 ? " column" : " columns") + ", the model " +
                             path_in_quotes(arguments.model) + " has dimension " +
                             std::to_string(dim));
  }
  if (input.type() == ScalarType::float64 && arguments.compute == "float") {
    throw std::runtime_error(name +
                             " holds float64, which --compute float would narrow; give --compute "
                             "double, or convert the file to float32");
  }
}

bool same_file(std::filesystem::path const& a, std::filesystem::path const& b) {
  std::error_code error;
  if (std::filesystem::equivalent(a, b, error)) return true;
  auto const full = [&](std::filesystem::path const& path) {
    return std::filesystem::weakly_canonical(impl::resolve_links(path), error);
  };
  return full(a) == full(b);
}

void check_outputs(ForwardArguments const& arguments) {
  if (!arguments.log_det.empty() && same_file(arguments.out, arguments.log_det)) {
    throw CLI::ValidationError("--log-det", "names the same file as --out");
  }
  for (auto const& [option, path] :
       {std::pair{"--out", &arguments.out}, std::pair{"--log-det", &arguments.log_det}}) {
    if (!path->empty() && same_file(*path, arguments.model)) {
      throw CLI::ValidationError(option, "would replace the model file");
    }
  }
}

void run(ForwardArguments const& arguments) {
  auto const start = std::chrono::steady_clock::now();
  check_outputs(arguments);
  auto const model = read_generative_model(arguments);
  NpyReader const input(arguments.in);
  check_input(arguments, input, model);
  Outputs outputs(arguments, input);
  auto const runs = runs_of(model);

  // Its warnings are about thread binding, which is the caller's business.
  auto settings = Kokkos::InitializationSettings().set_disable_warnings(true);
  if (arguments.threads) settings.set_num_threads(*arguments.threads);
  Kokkos::ScopeGuard const guard(settings);
  stream(arguments, runs, input, outputs);
  outputs.commit();
  if (!arguments.verbose) return;

  std::int64_t layers = 0;
  for (auto const& run : runs) layers += run.count;
  std::chrono::duration<double> const elapsed = std::chrono::steady_clock::now() - start;
  std::array<char, 256> text                  = {};
  std::snprintf(text.data(), text.size(),
                "%llu rows of dimension %lld through %lld layers: %s rows, %s arithmetic, %s with "
                "concurrency %d, %.3f s\n",
                static_cast<unsigned long long>(input.rows()), static_cast<long long>(model.dim()),
                static_cast<long long>(layers), to_string(input.type()), arguments.compute.c_str(),
                Space::name(), Space().concurrency(), elapsed.count());
  print(text.data());
}

}  // namespace

Command add_forward(CLI::App& tool) {
  auto const arguments = std::make_shared<ForwardArguments>();
  auto* const command =
      tool.add_subcommand("forward", "Push rows through a flow: latent z to data x");
  command->add_option("--model", arguments->model, "Model file (.safetensors)")
      ->required()
      ->type_name("FILE");
  command->add_option("--in", arguments->in, "Rows z to be mapped (.npy)")
      ->required()
      ->type_name("FILE");
  command->add_option("--out", arguments->out, "Where the mapped rows go (.npy); may be --in")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--log-det", arguments->log_det,
                   "Where log |det dx/dz| goes, one value per row (.npy)")
      ->type_name("FILE");
  command->add_option("--compute", arguments->compute, "Arithmetic: double (default) or float")
      ->check(CLI::IsMember({"float", "double"}).description(""))
      ->type_name("TYPE");
  // Far more threads than cores is a slip of the keyboard, and would exhaust the machine.
  int const most_threads = std::max(256, 4 * static_cast<int>(std::thread::hardware_concurrency()));
  command->add_option("--threads", arguments->threads, "Number of host threads (default: all)")
      ->check(between(1, most_threads, "a whole number from 1 to " + std::to_string(most_threads)))
      ->type_name("N");
  command
      ->add_option("--chunk-rows", arguments->chunk_rows,
                   "Rows held in memory at a time; does not change the result")
      ->check(positive_count())
      ->type_name("N");
  command->add_flag("--verbose", arguments->verbose, "Print a line about what was done");
  arguments->options.add_to(*command);
  command->footer(R"(
The input is an array (rows, dimension) of float32 or float64, in C or Fortran order, of either
byte order, and may be larger than memory. The output has its shape and type, in C order; it gets
its name when it is complete. Rows are mapped by the layers as they are stored: the location and
scale of a base distribution belong to sampling z and are not applied.

float32 rows with --compute double are rounded only once, on output. Nothing is printed unless
something is wrong; on a terminal, long runs show a bar.

Examples:
  meander forward --model model.safetensors --in z.npy --out x.npy
  meander forward --model model.safetensors --in z.npy --out x.npy --log-det ld.npy --threads 8
  meander forward --model leaky.safetensors --activation leaky_relu --slope 0.2 \
                  --in z.npy --out x.npy)");
  return {command, [arguments] { run(*arguments); }};
}

}  // namespace meander::cli
