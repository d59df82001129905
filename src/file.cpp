// SPDX-License-Identifier: BSD-3-Clause
#include "file.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace meander::impl {

namespace {

// Linux moves at most 0x7ffff000 bytes per call.
constexpr std::size_t largest_transfer = std::size_t{1} << 30;

std::system_error system_error(int error, std::string const& what) {
  return {error, std::generic_category(), what};
}

std::string escaped(std::string_view text) {
  constexpr char const* digits = "0123456789abcdef";
  std::string result;
  for (char const c : text) {
    auto const byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      result += c;
    } else {
      result += "\\x";
      result += digits[byte >> 4U];
      result += digits[byte & 0xfU];
    }
  }
  return result;
}

void sync_folder(std::filesystem::path const& file) {
  // Best effort: the data are safe already, this makes the new name survive a power failure too.
  auto const folder    = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  int const descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    ::fsync(descriptor);
    ::close(descriptor);
  }
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 80;
  if (text.size() <= longest) return "'" + escaped(text) + "'";
  return "'" + escaped(text.substr(0, longest)) + "...'";
}

std::string path_in_quotes(std::filesystem::path const& path) {
  return "'" + escaped(path.native()) + "'";
}

InputFile::InputFile(std::filesystem::path const& path) : path_(path) {
  // O_NONBLOCK: opening a FIFO must not hang; it has no effect on a regular file.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) throw system_error(errno, "cannot open " + path_in_quotes(path));
  struct stat status = {};
  if (::fstat(descriptor_, &status) != 0) {
    int const error = errno;
    ::close(descriptor_);
    throw system_error(error, "cannot read " + path_in_quotes(path));
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    throw std::runtime_error(path_in_quotes(path) + " is not a regular file");
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(std::uint64_t offset, void* buffer, std::size_t count) const {
  auto* out = static_cast<std::byte*>(buffer);
  while (count > 0) {
    auto const got =
        ::pread(descriptor_, out, std::min(count, largest_transfer), static_cast<off_t>(offset));
    if (got < 0) {
      if (errno == EINTR) continue;
      throw system_error(errno, "cannot read " + path_in_quotes(path_));
    }
    if (got == 0)
      throw std::runtime_error(path_in_quotes(path_) + " became shorter while it was read");
    auto const step = static_cast<std::size_t>(got);
    out += step;
    offset += step;
    count -= step;
  }
}

std::filesystem::path resolve_links(std::filesystem::path path) {
  constexpr int longest_chain = 40;
  for (int i = 0; i < longest_chain; ++i) {
    std::error_code error;
    if (!std::filesystem::is_symlink(std::filesystem::symlink_status(path, error))) return path;
    auto const next = std::filesystem::read_symlink(path, error);
    if (error) return path;
    path = path.parent_path() / next;  // an absolute link replaces the whole
  }
  throw system_error(ELOOP, "cannot write " + path_in_quotes(path));
}

AtomicFile::AtomicFile(std::filesystem::path const& path)
    : path_(path), target_(resolve_links(path)) {
  struct stat status = {};
  bool const exists  = ::stat(target_.c_str(), &status) == 0;
  // The temporary name may be shorter: not to be found out after hours of work.
  if (!exists && errno == ENAMETOOLONG) {
    throw system_error(errno, "cannot write " + path_in_quotes(path_));
  }
  if (exists && !S_ISREG(status.st_mode)) {
    throw std::runtime_error("cannot write " + path_in_quotes(path_) +
                             ": it exists and is not a regular file");
  }
  if (!target_.has_filename()) throw system_error(ENOENT, "cannot write " + path_in_quotes(path_));
  auto const suffix = ".partial-" + std::to_string(::getpid());
  create_temporary(target_.native() + suffix);
  if (descriptor_ < 0 && errno == ENAMETOOLONG) {
    create_temporary((target_.parent_path() / ("meander" + suffix)).native());
  }
  if (descriptor_ < 0) throw system_error(errno, "cannot write " + path_in_quotes(path_));
  // A replaced file keeps its permissions; where that is not possible the defaults stand.
  if (exists && ::fchmod(descriptor_, status.st_mode & 0777U) != 0) errno = 0;
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::create_temporary(std::string const& stem) {
  constexpr int attempts = 100;  // leftovers of a killed process that had the same id
  for (int i = 0; i < attempts && descriptor_ < 0; ++i) {
    temporary_  = i == 0 ? stem : stem + "-" + std::to_string(i);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) return;
  }
}

void AtomicFile::discard() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

void AtomicFile::reserve(std::uint64_t size) {
  auto const fail = [&](int error) {
    throw system_error(
        error, "cannot write " + path_in_quotes(path_) + " (" + std::to_string(size) + " bytes)");
  };
  if (size == 0) return;
  struct rlimit limit = {};
  if (size > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max()) ||
      (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && size > limit.rlim_cur)) {
    fail(EFBIG);
  }
#ifdef __linux__
  if (::fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size)) == 0) return;
  if (errno == ENOSPC || errno == EFBIG || errno == EDQUOT) fail(errno);
#endif
  // The file system cannot reserve; it may still say that there is not enough.
  struct statvfs status = {};
  if (::fstatvfs(descriptor_, &status) == 0 && status.f_frsize > 0 &&
      size / status.f_frsize > status.f_bfree) {
    fail(ENOSPC);
  }
}

void AtomicFile::write(void const* data, std::size_t count) {
  auto const* in = static_cast<std::byte const*>(data);
  while (count > 0) {
    auto const put = ::write(descriptor_, in, std::min(count, largest_transfer));
    if (put < 0) {
      if (errno == EINTR) continue;
      throw system_error(errno, "cannot write " + path_in_quotes(path_));
    }
    in += put;
    count -= static_cast<std::size_t>(put);
  }
}

void AtomicFile::finish() {
  if (descriptor_ < 0) return;
  // Some file systems cannot sync (EINVAL); a delayed write error (EIO, ENOSPC) must be seen.
  int error = ::fsync(descriptor_) != 0 && errno != EINVAL && errno != ENOSYS ? errno : 0;
  if (::close(std::exchange(descriptor_, -1)) != 0 && error == 0) error = errno;
  if (error != 0) throw system_error(error, "cannot write " + path_in_quotes(path_));
}

void AtomicFile::commit() {
  finish();
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    throw system_error(errno, "cannot write " + path_in_quotes(path_));
  }
  temporary_.clear();
  sync_folder(target_);
}

}  // namespace meander::impl
