#include "exec/cuda/cudnn_graph.h"

#include <dlfcn.h>
#include <stddef.h>

/* Before 9.6 the sums of a backward's query gradients had to be cleared by the caller (NVIDIA/cudnn-frontend). */
enum { VERSION_LEAST = 90600 };

static const struct {
  const char *name;
  size_t offset;
} functions[] = {
  { "cudnnCreate", offsetof(CudnnLibrary, create) },
  { "cudnnDestroy", offsetof(CudnnLibrary, destroy) },
  { "cudnnSetStream", offsetof(CudnnLibrary, set_stream) },
  { "cudnnGetVersion", offsetof(CudnnLibrary, version) },
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
  if (l->version() >= VERSION_LEAST)
    return NULL;
  cudnn_library_close(l);
  return "older than 9.6";
}

void cudnn_library_close(CudnnLibrary *l)
{
  if (l->library)
    dlclose(l->library);
  l->library = NULL;
}
