// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace meander::impl {

/// \brief Text from a file or a command line, safe to print: in single quotes, everything but
/// printable ASCII escaped as \xNN, cut after 80 characters.
std::string in_quotes(std::string_view text);

/// \brief The same for a path, which is not cut.
std::string path_in_quotes(std::filesystem::path const& path);

/// \brief A regular file opened for reading at any offset.
///
/// Reads go through pread rather than a mapping: a file that shrinks meanwhile is an error here
/// and a SIGBUS there.
class InputFile {
 public:
  /// \throws std::system_error if it cannot be opened, std::runtime_error if it is not a regular
  /// file.
  explicit InputFile(std::filesystem::path const& path);
  ~InputFile();
  InputFile(InputFile const&)            = delete;
  InputFile& operator=(InputFile const&) = delete;

  std::filesystem::path const& path() const { return path_; }
  std::uint64_t size() const { return size_; }

  /// \brief Reads exactly `count` bytes from `offset`.
  /// \throws std::runtime_error if the file ends before, std::system_error on an I/O error.
  void read(std::uint64_t offset, void* buffer, std::size_t count) const;

 private:
  std::filesystem::path path_;
  std::uint64_t size_ = 0;
  int descriptor_     = -1;
};

/// \brief A file that appears under its name only when it is complete.
///
/// It is written under a temporary name in the same folder (the final one with a suffix, where that
/// is not too long) and renamed by commit(). Where the final name is a symbolic link, the file it
/// points at is replaced and the link stays.
class AtomicFile {
 public:
  /// \brief Creates the temporary file.
  /// \throws std::system_error if it cannot be created, std::runtime_error if the final name
  /// exists and is not a regular file.
  explicit AtomicFile(std::filesystem::path const& path);
  /// \brief Removes the temporary file unless commit() was called.
  ~AtomicFile();
  AtomicFile(AtomicFile const&)            = delete;
  AtomicFile& operator=(AtomicFile const&) = delete;

  std::filesystem::path const& path() const { return path_; }
  std::filesystem::path const& target() const { return target_; }
  std::filesystem::path const& temporary() const { return temporary_; }

  /// \brief Reserves room on the disk, where the file system can, so that a full disk shows at the
  /// beginning. \throws std::system_error if there is not enough, or no file can be that large.
  void reserve(std::uint64_t size);
  /// \brief Appends. \throws std::system_error if not everything could be written.
  void write(void const* data, std::size_t count);
  /// \brief Brings everything onto the disk and closes. \throws std::system_error
  void finish();
  /// \brief finish(), if not done, then rename. \throws std::system_error
  void commit();
  /// \brief Removes the temporary file, unless commit() has renamed it.
  void discard();

 private:
  void create_temporary(std::string const& stem);

  std::filesystem::path path_, target_, temporary_;
  int descriptor_ = -1;
};

/// \brief Follows symbolic links, a dangling one included, to the file that a write should replace.
std::filesystem::path resolve_links(std::filesystem::path path);

}  // namespace meander::impl
