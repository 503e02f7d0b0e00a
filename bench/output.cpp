#include "output.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "failure.hpp"

namespace perdure::bench {

std::string why_not_new(std::string const& path) {
  struct stat st{};
  bool const file = !path.empty() && path != "-";
  return file && ::lstat(path.c_str(), &st) == 0
             ? path + ": exists already; name another file, or remove it first"
             : "";
}

void write_new(std::string const& path, std::string const& text) {
  if (path.empty()) return;
  if (path == "-") {
    std::cout << text;
    return;
  }
  if (std::string const why = why_not_new(path); !why.empty()) throw Failure(why);
  int const fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd < 0) throw Failure("cannot write " + path + ": " + std::strerror(errno));
  std::size_t done = 0;
  while (done < text.size()) {
    ssize_t const n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  int const error = done < text.size() ? errno : 0;
  if (::close(fd) != 0 || done < text.size())
    throw Failure("cannot write " + path + ": " + std::strerror(error != 0 ? error : errno));
}

void RewrittenFile::update(std::string const& text) {
  if (path_.empty() || path_ == "-") return;
  if (!std::exchange(made_, true)) return write_new(path_, text);
  std::string const next = path_ + ".next";
  write_new(next, text);
  if (::rename(next.c_str(), path_.c_str()) != 0)
    throw Failure("cannot write " + path_ + ": " + std::strerror(errno));
}

void RewrittenFile::finish(std::string const& text) {
  path_ == "-" ? write_new(path_, text) : update(text);
}

}  // namespace perdure::bench
