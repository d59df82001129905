// SPDX-License-Identifier: BSD-3-Clause
#include <memory>
#include <string>

#include "checks.hpp"
#include "commands.hpp"
#include "flow_job.hpp"

namespace meander::cli {

namespace {

/// \brief What differs between pushing rows one way and the other.
struct Way {
  Map map;
  char const *name, *description, *from, *log_det, *footer;
};

constexpr char const* forward_footer = R"(
The input is an array (rows, dimension) of float32 or float64, in C or Fortran order, of either
byte order, and may be larger than memory. The output has its shape and type, in C order; it gets
its name when it is complete. Rows are mapped by the layers: the location and scale of a base
distribution belong to sampling z and are not applied. A normalizing model, whose layers are stored
from data to latent, runs them backwards.

float32 rows with --compute double are rounded only once, on output. Nothing is printed unless
something is wrong or had to be assumed; on a terminal, long runs show a bar.

Examples:
  meander forward --model model.safetensors --in z.npy --out x.npy
  meander forward --model model.safetensors --in z.npy --out x.npy --log-det ld.npy --threads 8
  meander forward --model leaky.safetensors --activation leaky_relu --slope 0.2 \
                  --in z.npy --out x.npy)";

constexpr char const* inverse_footer = R"(
What 'meander forward' does, undone: of any row z, inverse(forward(z)) is z up to rounding, which
nearly singular layers (meander info) magnify. The base distribution is not applied here either.
Input, output and arithmetic are as in 'meander forward --help'.

Examples:
  meander inverse --model model.safetensors --in x.npy --out z.npy
  meander inverse --model model.safetensors --in x.npy --out z.npy --log-det ld.npy)";

Command add(CLI::App& tool, Way const& way) {
  auto const job      = std::make_shared<FlowJob>(way.map);
  job->out_log_option = "--log-det";
  auto* const command = tool.add_subcommand(way.name, way.description);
  job->add_model_to(*command);
  command->add_option("--in", job->in, way.from)->required()->check(file_name())->type_name("FILE");
  command->add_option("--out", job->out, "Where the mapped rows go (.npy); may be --in")
      ->required()
      ->check(file_name())
      ->type_name("FILE");
  command->add_option("--log-det", job->out_log, way.log_det)
      ->check(file_name())
      ->type_name("FILE");
  job->add_rest_to(*command);
  command->footer(way.footer);
  return {command, [job] { job->run(); }};
}

}  // namespace

Command add_forward(CLI::App& tool) {
  return add(tool, {Map::forward, "forward", "Push rows through a flow: latent z to data x",
                    "Rows z to be mapped (.npy)",
                    "Where log |det dx/dz| goes, one value per row (.npy)", forward_footer});
}

Command add_inverse(CLI::App& tool) {
  return add(tool, {Map::inverse, "inverse", "Take rows back through a flow: data x to latent z",
                    "Rows x to be mapped (.npy)",
                    "Where log |det dz/dx| goes, one value per row (.npy)", inverse_footer});
}

}  // namespace meander::cli
