#include "runtime/library.h"

#include <dlfcn.h>

namespace attnfuse {

Library Library::open(const std::vector<std::string>& names, const std::vector<std::string>& directories) {
  Library library;
  std::vector<std::string> prefixes{""};
  for (const std::string& directory : directories) prefixes.push_back(directory + "/");
  for (const std::string& prefix : prefixes)
    for (const std::string& name : names) {
      library.name_ = prefix + name;
      library.handle_ = dlopen(library.name_.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (library.handle_) return library;
      const char* why = dlerror();
      if (library.error_.empty() && why) library.error_ = why;
    }
  library.name_ = names.front();
  return library;
}

void* Library::find(const char* symbol) const { return handle_ ? dlsym(handle_, symbol) : nullptr; }

}  // namespace attnfuse
