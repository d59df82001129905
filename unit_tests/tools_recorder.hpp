// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <mutex>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <Kokkos_Core.hpp>

/// Watches what the code under test asks of Kokkos, through Kokkos Tools.
namespace tools {

enum class Kind { kernel, region, allocation, deallocation, deep_copy, fence };

struct Event {
  Kind kind;
  std::string label;
  std::uint32_t device;  ///< of kernels and fences: device_id of their instance
};

inline std::ostream& operator<<(std::ostream& out, Event const& event) {
  constexpr char const* names[] = {"kernel",       "region",    "allocation",
                                   "deallocation", "deep_copy", "fence"};
  return out << names[int(event.kind)] << " \"" << event.label << "\" on device " << event.device;
}

/// Records events from its construction to its end; then what was listening before listens again.
/// One at a time: Kokkos takes plain function pointers.
class Recorder {
 public:
  Recorder() : previous_(Kokkos::Tools::Experimental::get_callbacks()) {
    events_.clear();
    namespace set = Kokkos::Tools::Experimental;
    set::set_callbacks({});
    set::set_begin_parallel_for_callback(begin_kernel);
    set::set_begin_parallel_reduce_callback(begin_kernel);
    set::set_begin_parallel_scan_callback(begin_kernel);
    set::set_push_region_callback([](char const* label) { add(Kind::region, label); });
    set::set_create_profile_section_callback([](char const* label, std::uint32_t* id) {
      *id = 0;
      add(Kind::region, label);
    });
    set::set_profile_event_callback([](char const* label) { add(Kind::region, label); });
    // Kokkos 4.6 reports an allocation of no bytes for the scratch of every team kernel on CUDA.
    set::set_allocate_data_callback(
        [](Kokkos::Tools::SpaceHandle, char const* label, void const*, std::uint64_t bytes) {
          if (bytes > 0) add(Kind::allocation, label);
        });
    set::set_deallocate_data_callback(
        [](Kokkos::Tools::SpaceHandle, char const* label, void const*, std::uint64_t bytes) {
          if (bytes > 0) add(Kind::deallocation, label);
        });
    set::set_begin_deep_copy_callback(
        [](Kokkos::Tools::SpaceHandle, char const* destination, void const*,
           Kokkos::Tools::SpaceHandle, char const* source, void const*,
           std::uint64_t) { add(Kind::deep_copy, std::string(source) + " -> " + destination); });
    set::set_begin_fence_callback([](char const* label, std::uint32_t device, std::uint64_t* id) {
      *id = 0;
      // On a device Kokkos fences around kernels because somebody listens; that fence is not ours.
      if (!std::string_view(label).starts_with("Kokkos::Tools::")) add(Kind::fence, label, device);
    });
  }
  ~Recorder() { Kokkos::Tools::Experimental::set_callbacks(previous_); }

  Recorder(Recorder const&)            = delete;
  Recorder& operator=(Recorder const&) = delete;

  std::vector<Event> const& events() const { return events_; }

  std::vector<Event> of_kind(Kind kind) const {
    std::vector<Event> result;
    for (Event const& event : events_)
      if (event.kind == kind) result.push_back(event);
    return result;
  }

 private:
  static void add(Kind kind, std::string label, std::uint32_t device = 0) {
    std::lock_guard const lock(mutex_);
    events_.push_back({kind, std::move(label), device});
  }
  static void begin_kernel(char const* label, std::uint32_t device, std::uint64_t* id) {
    *id = 0;
    add(Kind::kernel, label, device);
  }

  static inline std::mutex mutex_;
  static inline std::vector<Event> events_;
  Kokkos::Tools::Experimental::EventSet previous_;
};

}  // namespace tools
