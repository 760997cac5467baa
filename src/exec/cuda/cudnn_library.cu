#include "exec/cuda/cudnn_graph.h"

#include <dlfcn.h>
#include <stddef.h>

static const struct {
  const char *name;
  size_t offset;
} functions[] = {
  { "cudnnCreate", offsetof(CudnnLibrary, create) },
  { "cudnnDestroy", offsetof(CudnnLibrary, destroy) },
  { "cudnnSetStream", offsetof(CudnnLibrary, set_stream) },
  { "cudnnGetErrorString", offsetof(CudnnLibrary, error_string) },
  { "cudnnBackendCreateDescriptor", offsetof(CudnnLibrary, create_descriptor) },
  { "cudnnBackendDestroyDescriptor", offsetof(CudnnLibrary, destroy_descriptor) },
  { "cudnnBackendSetAttribute", offsetof(CudnnLibrary, set_attribute) },
  { "cudnnBackendGetAttribute", offsetof(CudnnLibrary, get_attribute) },
  { "cudnnBackendFinalize", offsetof(CudnnLibrary, finalize) },
  { "cudnnBackendExecute", offsetof(CudnnLibrary, execute) },
};

const char *cudnn_library_open(CudnnLibrary *l)
{
  l->library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
  if (!l->library)
    return dlerror();
  for (const auto &f : functions) {
    void *found = dlsym(l->library, f.name);
    *(void **)((char *)l + f.offset) = found;
    if (!found) {
      cudnn_library_close(l);
      return f.name;
    }
  }
  return NULL;
}

void cudnn_library_close(CudnnLibrary *l)
{
  if (l->library)
    dlclose(l->library);
  l->library = NULL;
}
