// SPDX-License-Identifier: BSD-3-Clause
#include <memory>
#include <string>

#include "checks.hpp"
#include "commands.hpp"
#include "flow_job.hpp"

namespace meander::cli {

Command add_sample(CLI::App& tool) {
  auto const job      = std::make_shared<FlowJob>(Map::sample);
  auto const type     = std::make_shared<std::string>("float32");
  job->out_log_option = "--log-prob";
  auto* const command = tool.add_subcommand("sample", "Draw rows from a flow");
  job->add_model_to(*command);
  command->add_option("-n,--rows", job->rows, "How many rows")
      ->required()
      ->transform(whole_number(0, greatest_count))
      ->type_name("N");
  command->add_option("--seed", job->seed, "Which sample: 0 to 2^64 - 1")
      ->required()
      ->transform(whole_number(0, greatest_number))
      ->type_name("S");
  command->add_option("--out", job->out, "Where the rows go (.npy)")
      ->required()
      ->check(file_name())
      ->type_name("FILE");
  command
      ->add_option("--log-prob", job->out_log,
                   "Where their log-densities go, in nats, one value per row (.npy)")
      ->check(file_name())
      ->type_name("FILE");
  command
      ->add_option("--first-row", job->first_row,
                   "Number of the first row in the sample (default: 0)")
      ->transform(whole_number(0, greatest_number))
      ->type_name("R");
  command->add_option("--type", *type, "Type of the rows: float32 (default) or float64")
      ->check(CLI::IsMember({"float32", "float64"}).description(""))
      ->type_name("TYPE");
  job->add_rest_to(*command);
  command->footer(R"(
Row i of a seed is the same whichever run draws it, with any number of threads: a sample may be
drawn in pieces, and continued later, with --first-row. Memory does not grow with N. The files get
their names when they are complete; room for them is taken at the beginning.

Examples:
  meander sample --model model.safetensors -n 1000000 --seed 1 --out x.npy
  meander sample --model model.safetensors -n 1000000 --seed 1 --first-row 1000000 \
                 --out more.npy --log-prob logq.npy)");
  return {command, [job, type] {
            job->type =
                *type == to_string(ScalarType::float64) ? ScalarType::float64 : ScalarType::float32;
            job->run();
          }};
}

}  // namespace meander::cli
